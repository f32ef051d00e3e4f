"""A window of several rows on the twin, of which only the first were right: what follows has the bits of a conversation
without it."""

import struct
from pathlib import Path

import pytest

from strata.core.commands import Notify, Stream
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import SAMPLE
from strata.core.serving.inputs import copy_to_verifier, pack_header
from strata.core.serving.launches import Recipe, window_launches
from strata.core.serving.recurrent_state import commit_launches
from strata.core.serving.startup import FIRST_TABLE_VERSION
from strata.model.program_reads import dense_reads
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

IDS = tuple((13 * i * i + i) % 300 for i in range(24))
READ = 11
ROWS = 4


def run_window(card: RealCard, ids: tuple[int, ...], *, position: int, accepted: int) -> list[bytes]:
    """A window over `ids` without its sampler, then the commit of its first rows where rows may be taken back; the
    logits of all rows."""
    plan = card.planned.plan
    recipe, staging, buffers = Recipe(plan, dense_reads(card.planned.spec)), plan.staging, plan.verifier.buffers
    tokens, target = (
        extent.part(offset_bytes=0, size_bytes=4 * len(ids)) for extent in (staging.window_tokens, buffers.tokens)
    )
    card.device.host(staging.window_header)[:] = pack_header(position)
    card.device.host(tokens)[:] = struct.pack(f"<{len(ids)}i", *ids)
    launches = window_launches(recipe, rows=len(ids), table_version=FIRST_TABLE_VERSION)
    window = [launch for launch in launches if launch.program != SAMPLE]
    if accepted and len(ids) > 1:
        window += commit_launches(recipe, rows=accepted)
    upload = copy_to_verifier((staging.window_header, buffers.header), (tokens, target))
    card.device.submit((upload, *window, Notify(Stream.VERIFIER, f"window {position} {accepted}")))
    assert len(card.device.completions()) == 1
    logits = card.device._payload.tensor(plan.verifier.window.logits)  # type: ignore[attr-defined]
    return [bytes(row.numpy()) for row in logits.view(plan.verifier.max_rows, -1)[: len(ids)]]


@pytest.fixture(scope="module", params=["qwen35moe", "qwen3next", "qwen3moe"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """A file, and the logits of every token behind the prompt, read one by one."""
    path = write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch=request.param)
    with real_card(path, PlanOptions(256)) as card:
        card.serve(IDS[:READ], max_tokens=1)
        rows = [run_window(card, IDS[at : at + 1], position=at, accepted=1)[0] for at in range(READ, len(IDS))]
    return path, rows


@pytest.mark.parametrize("accepted", range(ROWS + 1))
def test_what_follows_a_draft_has_the_bits_of_no_draft(model: tuple[Path, list[bytes]], accepted: int) -> None:
    path, expected = model
    with real_card(path, PlanOptions(256, chunk_tokens=16, window_rows=ROWS)) as card:
        card.serve(IDS[:READ], max_tokens=1)
        right, right_end = IDS[READ : READ + accepted], READ + accepted
        wrong = tuple((token + 5) % 300 for token in IDS[right_end : READ + ROWS])
        seen = run_window(card, right + wrong, position=READ, accepted=accepted)
        assert seen[:accepted] == expected[:accepted]
        assert not wrong or seen[accepted] != expected[accepted]
        rows = seen[:accepted]
        for at in range(right_end, len(IDS), 3):
            ids = IDS[at : at + 3]
            rows += run_window(card, ids, position=at, accepted=len(ids))
        assert rows == expected


def test_a_commit_of_one_row_too_many_is_seen(model: tuple[Path, list[bytes]]) -> None:
    path, expected = model
    with real_card(path, PlanOptions(256, chunk_tokens=16, window_rows=ROWS)) as card:
        card.serve(IDS[:READ], max_tokens=1)
        wrong = (IDS[READ], (IDS[READ + 1] + 5) % 300, 7, 8)
        run_window(card, wrong, position=READ, accepted=2)
        after = run_window(card, IDS[READ + 1 : READ + 3], position=READ + 1, accepted=2)
        has_state = any(extent.size_bytes for extent in card.planned.plan.state)
        assert (after == expected[1:3]) == (not has_state)
