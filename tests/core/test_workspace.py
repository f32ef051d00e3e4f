"""Scratch has room for each workspace by itself, and areas of one workspace are apart."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strata.core.extent import Extent
from strata.core.memory.bump import Bump
from strata.core.memory.layout import carve_verifier
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import Recipe, window_launches
from strata.core.workspace import Work, WorkArea, carve_workspace, price_workspaces
from tests.engine.symbolic_card import dense_reads, prompt, small_inventory, symbolic_card

SIZES = st.integers(0, 5000)
WORKSPACES = st.lists(st.lists(st.tuples(SIZES, SIZES), max_size=5), max_size=4)


@given(WORKSPACES, st.integers(0, 40), st.integers(0, 10**6))
def test_every_workspace_fits_the_price_of_all_and_its_areas_are_apart(sizes, max_rows, grid):
    workspaces = [
        tuple(WorkArea(f"area {i}", row_bytes, fixed_bytes) for i, (row_bytes, fixed_bytes) in enumerate(areas))
        for areas in sizes
    ]
    scratch = Extent(256 * grid, price_workspaces(workspaces, max_rows=max_rows))
    for workspace in workspaces:
        areas = carve_workspace(workspace, scratch, max_rows=max_rows)
        assert [area.size_bytes for area in areas.values()] == [one.size_bytes(max_rows) for one in workspace]
        assert all(scratch.contains(area) and area.offset_bytes % 256 == 0 for area in areas.values())
        assert all(a.end_bytes <= b.offset_bytes for a, b in itertools.pairwise(areas.values()))


def working(**change):
    attention = Work(("attention",), (WorkArea("x", 40, 9),))
    moe = Work(("router", "experts"), (WorkArea("y", 3), WorkArea("z", 0, 5000)))
    work = {"prompt_work": (attention, moe)}
    return replace(small_inventory(), **{**work, "window_work": ((WorkArea("w", 700, 0),),), **change})


def test_a_window_has_scratch_of_its_own_rows():
    assert carve_verifier(Bump(), working(), PlanOptions(64, window_rows=3)).buffers.scratch.size_bytes == 2304


def test_launches_that_use_scratch_declare_it_and_the_twin_serves_with_it():
    """Under the twin's clocks: scratch of prompt and window are different bytes with an owner each."""
    model = working()
    card = symbolic_card(model, PlanOptions(900, chunk_tokens=256), arena_bytes=4 * 1024 * 1024)
    assert card.serve(prompt(600, max_tokens=3)) == 3
    recipe = Recipe(card.plan, dense_reads(model))
    scratch = card.plan.verifier.buffers.scratch
    users = {
        launch.program
        for launch in window_launches(recipe, rows=1, table_version=1)
        if any(access.extent == scratch for access in launch.writes)
    }
    assert users == {"attention", "router", "experts", "ffn", "sample"}
