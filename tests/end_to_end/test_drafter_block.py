"""The drafter's bytes in the host master: what the twin holds copies against is what the file says, from one file and
from two, and a reply does not depend on whether there is a drafter."""

import sys
from pathlib import Path

import pytest

from strata.commands.api_client import connect, get_json
from strata.commands.child_server import child_server
from strata.config.values import Mtp
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import blob_content, weight_content
from strata.manifest import pack_manifest
from strata.model.pack_reader import PackReader
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.lend_model import BLOCK_BYTES, NUM_EXPERTS, NUM_LAYERS, LendPair

pytestmark = pytest.mark.slow

OPTIONS = PlanOptions(512, chunk_tokens=256, ring_slots=12, num_cache_slots=40)
IDS = tuple((i * i * i + 7 * i) % 311 for i in range(300))


def block_of(card: RealCard) -> list[bytes]:
    return [bytes(card.device.host(home)) for home in card.planned.plan.pack.block]


def blobs_of_file(card: RealCard) -> list[bytes]:
    blobs = []
    with PackReader(card.planned.spec) as reader:
        for expert in range(NUM_EXPERTS):
            target = bytearray(card.planned.plan.pack.block[expert].size_bytes)
            reader.read_blob(layer=NUM_LAYERS, expert=expert, target=memoryview(target))
            blobs.append(bytes(target))
    return blobs


def test_the_block_is_in_the_pack_and_changes_no_reply(lend_model: Path, lend_pair: LendPair) -> None:
    with real_card(lend_model, OPTIONS) as card:
        assert card.planned.plan.pack.block == ()
        expected = (card.serve(IDS), list(card.logits))
    blocks = []
    for model, mtp in ((lend_model, Mtp()), (lend_pair.trunk, Mtp(str(lend_pair.drafter)))):
        with real_card(model, OPTIONS, mtp=mtp) as card:
            assert (card.serve(IDS), card.logits) == expected
            blocks.append(block_of(card))
            assert blocks[-1] == blobs_of_file(card)
    assert len(set(blocks[0])) == NUM_EXPERTS and blocks[0] == blocks[1]


def test_a_server_with_a_drafter_says_what_one_without_says(lend_pair: LendPair) -> None:
    replies, owners = [], []
    for options in ((), ("--mtp", str(lend_pair.drafter), "--spec", "2")):
        command = [sys.executable, "-m", "strata", "serve", str(lend_pair.trunk), "--port", "0", "--vram", "16MiB"]
        with child_server([*command, "--ctx", "1024", *options]) as server, connect(server.url) as client:
            reply = client.post("/v1/completions", json={"prompt": "to and fro " * 30, "max_tokens": 6, "seed": 3})
            assert reply.status_code == 200, reply.text
            replies.append(reply.json()["choices"])
            owners.append({row["owner"]: row["size_bytes"] for row in get_json(client, "/debug/card")["rows"]})
            assert server.stop() == 0
    assert replies[0] == replies[1]
    assert "block" not in owners[0] and owners[1]["block"] == BLOCK_BYTES


def test_the_manifest_names_the_drafter_as_the_layer_behind_the_trunk(lend_model: Path) -> None:
    with real_card(lend_model, OPTIONS, mtp=Mtp()) as card:
        plan = card.planned.plan
        names = dict(pack_manifest(plan))
    assert [names[home] for home in plan.pack.block] == [blob_content(NUM_LAYERS, e) for e in range(NUM_EXPERTS)]
    assert plan.inventory.drafter is not None
    for item in plan.inventory.drafter.weights:
        assert names[plan.pack.weights[item.name]] == weight_content(item.name)
    assert len(names) == len(set(names.values())) == len(plan.pack.weights) + 9 * NUM_EXPERTS
