"""Reads so short that decode windows take them (`lending.md` 4, 4): no slot is lent and no chunk is laid out.

    fresh tokens   a b c d e f g        windows of 3 rows: read abc, read def; then the first window takes g

A window that reads goes through the layers as any other, over the same table, and samples nothing: its rows are the
prompt's, so all of them stand. The host gives each its position and tokens. Nobody counts which experts it reads: what
is hot is judged by decode windows alone (`memory/residency.py`).
"""

from strata.core.commands import Command, GraphLaunch, Launch, Stream
from strata.core.serving.drafting import fill_draft_kv, open_pair
from strata.core.serving.inputs import copy_to_verifier, pack_header, token_rows
from strata.core.serving.launches import Recipe, layer_launches, window_lane
from strata.core.serving.recurrent_state import clear_state
from strata.core.serving.steps import Orders, Upload


def read_graph(rows: int) -> str:
    return f"read {rows}"


def read_launches(recipe: Recipe, *, rows: int, table_version: int) -> tuple[Launch, ...]:
    """What is captured under `read_graph(rows)`; with a drafter, its K/V are filled too."""
    layers = layer_launches(recipe, rows=rows, table_version=table_version, are_kept=True)
    drafter = fill_draft_kv(recipe, window_lane(recipe.plan), rows=rows) if recipe.plan.draft else ()
    return (*layers, *drafter)


def read_window(
    recipe: Recipe, token_ids: tuple[int, ...], *, start: int, table_version: int, next_ids: tuple[int, ...] = ()
) -> Orders:
    """A row each for the tokens from `start` on; `next_ids`: the one behind each, for a drafter."""
    plan, rows = recipe.plan, len(token_ids)
    staging, buffers = plan.staging, plan.verifier.buffers
    launched: tuple[Command, ...] = (GraphLaunch(Stream.VERIFIER, read_graph(rows), table_version),)
    if plan.staged:
        launched = read_launches(recipe, rows=rows, table_version=table_version)
    given = [token_rows(staging.window_tokens, buffers.tokens, token_ids)]
    if plan.draft is not None:
        given.append(token_rows(staging.next_tokens, buffers.next_tokens, next_ids))
    commands: tuple[Command, ...] = (
        *(clear_state(plan, Stream.VERIFIER) if start == 0 else ()),
        copy_to_verifier((staging.window_header, buffers.header), *(way for _, way in given)),
        *open_pair(recipe, window_lane(plan), start=start),
        *launched,
    )
    return Orders((Upload(staging.window_header, pack_header(start)), *(upload for upload, _ in given)), commands)
