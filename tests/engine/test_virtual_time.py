"""What a card should reach, asserted in the twin's virtual time, with the link and the launches of an H200. The model
has eight layers of the shape of a 30B one; its blobs cost no bytes here.
"""

from dataclasses import dataclass, replace
from functools import cache

import pytest

from sim.clock import Pace, ProgramPace, Times, VirtualClock
from strata.core import programs
from strata.core.commands import Access, Copy, CopyPair, Stream, size_of
from strata.core.inventory import DrafterInventory, ModelInventory, WeightItem
from strata.core.memory.policy import NEVER, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving import layers
from strata.core.serving.states import Closing, Lending, Reading
from strata.core.units import MIB
from strata.engine.runner import HasSampled
from strata.engine.updates import ReadFacts
from tests.engine.symbolic_card import PROGRAMS, Card, prompt, symbolic_card

NUM_LAYERS, NUM_EXPERTS, BLOB_BYTES = 8, 128, 2_654_208
CHUNK_TOKENS, NUM_CHUNKS = 2048, 2
BLOCK_BYTES = 675 * MIB
ARENA_BYTES = 48 * 64 * MIB
NS_PER_MS = 1_000_000


def scaled_inventory() -> ModelInventory:
    """With a drafter whose block has 675 MiB less what does not fill an expert."""
    weights = [
        WeightItem("token_embd.weight", 200 * MIB),
        *(WeightItem(f"blk.{i}", 20 * MIB) for i in range(NUM_LAYERS)),
    ]
    return ModelInventory(
        architecture="scaled",
        num_layers=NUM_LAYERS,
        hidden_size=2048,
        num_heads=32,
        num_kv_heads=4,
        head_dim=128,
        vocab_size=31,
        context_tokens=8192,
        num_experts=NUM_EXPERTS,
        num_experts_used=8,
        weights=tuple(weights),
        blob_bytes=(BLOB_BYTES,) * NUM_LAYERS,
        drafter=DrafterInventory(NUM_EXPERTS, BLOCK_BYTES // NUM_EXPERTS, (WeightItem("mtp.attn", 20 * MIB),)),
    )


def pace(*, window_ns: int = 0, expert_row_ns: int = 3) -> Pace:
    """Programs of one launch; experts as 200 TFLOP/s give them, where one row in sixteen chose each, or slower.
    `window_ns` is added to each window: these have eight layers of 48, and no expert of them is read over the link."""
    computing = dict.fromkeys(PROGRAMS, ProgramPace(20_000, 30))
    computing |= {
        programs.EXPERTS: ProgramPace(30_000, expert_row_ns),
        programs.HEAD: ProgramPace(20_000 + window_ns, 30),
    }
    return Pace(computing)


ELASTIC = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True)
HEAD_BYTES, SEGMENT_BYTES, NUM_MOVED = 1472 * MIB, 64 * MIB, 32


def elastic_inventory() -> ModelInventory:
    """With a head of its own, so that block and head have 2 GiB of segments that move."""
    plain = scaled_inventory()
    return replace(plain, weights=(*plain.weights, WeightItem("output.weight", HEAD_BYTES)), heads=("output.weight",))


@dataclass(frozen=True)
class Served:
    """A request, by default of two streaming chunks. `read_ns`: when the host knew both prompt streams to be through;
    `sampled_ns`: that each window had answered; the request began at 0."""

    card: Card
    facts: ReadFacts
    before: Times
    after: Times
    read_ns: int
    sampled_ns: tuple[int, ...]

    @property
    def slot_stall_ns(self) -> int:
        """How long the copy stream stood still for slots whose readers were not through."""
        return self.after.stalled_ns[Stream.COPY] - self.before.stalled_ns[Stream.COPY]

    @property
    def pairs(self) -> list[CopyPair]:
        return [pair for command in self.card.commands if isinstance(command, Copy) for pair in command.pairs]


@cache
def serve(
    *,
    ring_slots: int | None = None,
    has_room: bool = False,
    num_windows: int = 1,
    window_ns: int = 0,
    num_tokens: int = NUM_CHUNKS * CHUNK_TOKENS + 1,
    is_elastic: bool = False,
    expert_row_ns: int = 3,
    busy: Pace | None = None,
) -> Served:
    clock = VirtualClock(busy or pace(window_ns=window_ns, expert_row_ns=expert_row_ns))
    policy = ELASTIC if is_elastic else LendingPolicy(room_min_tokens=0 if has_room else NEVER)
    options = PlanOptions(
        8192,
        chunk_tokens=CHUNK_TOKENS,
        ring_slots=ring_slots,
        min_cache_slots=64,
        policy=policy,
        segment_bytes=SEGMENT_BYTES if is_elastic else 0,
    )
    inventory = elastic_inventory() if is_elastic else scaled_inventory()
    arena_bytes = ARENA_BYTES + (HEAD_BYTES // SEGMENT_BYTES + 1) * SEGMENT_BYTES * is_elastic
    card = symbolic_card(inventory, options, arena_bytes=arena_bytes, clock=clock)
    before = clock.times()
    del card.commands[:]
    read_ns, sampled_ns = 0, []
    card.runner.begin(prompt(num_tokens, max_tokens=num_windows))
    while len(sampled_ns) < num_windows:
        card.play()
        outcome = card.runner.advance(is_cancelled=False)
        if not isinstance(card.runner._state, Lending | Reading | Closing):
            read_ns = read_ns or clock.times().now_ns - before.now_ns - pace().launch_ns
        if isinstance(outcome, HasSampled):
            sampled_ns.append(clock.times().now_ns - before.now_ns)
            card.runner.resume(outcome.token_id) if len(sampled_ns) < num_windows else card.runner.end()
    return Served(card, card.runner.read_facts(), before, clock.times(), read_ns, tuple(sampled_ns))


@pytest.mark.slow
def test_ring_stall_falls_as_the_ring_grows() -> None:
    served = [serve(ring_slots=ring_slots) for ring_slots in (2, 4, 8, 16)]
    stalls = [each.slot_stall_ns / NS_PER_MS for each in served]
    reads = [each.read_ns / NS_PER_MS for each in served]
    assert stalls == sorted(stalls, reverse=True) and stalls[0] > 4 * stalls[-1]
    assert reads == sorted(reads, reverse=True)


@pytest.mark.slow
def test_a_read_is_no_slower_than_its_bytes_by_more_than_a_tenth() -> None:
    """Compute of these chunks takes half of the link's time, so a full ring hides it."""
    served = serve()
    streamed = [pair for pair in served.pairs if is_blob(pair)][: -served.facts.lent_slots]
    assert served.read_ns < 1.1 * link_ns(streamed)


def link_ns(pairs: list[CopyPair]) -> int:
    return sum(pace().copy_ns + -(-size_of(pair.target) * 1000 // pace().link_bytes_per_us) for pair in pairs)


def test_a_streaming_chunk_does_not_wait_for_the_host_at_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute of these chunks takes as long as the link, and the host 0.2 ms a program: kernels of a dozen, issued from
    Python. Where it awaits a layer before it orders the next, the card stands still that long, thrice a layer."""
    slow = pace()
    computing = {**slow.programs, programs.EXPERTS: ProgramPace(30_000, 12)}
    busy = replace(slow, programs=computing, launch_ns=200_000)
    idle_ms = []
    for num_ahead in (0, layers.LAYERS_AHEAD):
        monkeypatch.setattr(layers, "LAYERS_AHEAD", num_ahead)
        idle_ms.append(_idle_ns(serve.__wrapped__(busy=busy)) / NS_PER_MS)
    waiting, ahead = idle_ms
    assert waiting > NUM_CHUNKS * NUM_LAYERS * 0.3
    assert ahead < waiting / 2, "the host is seen at a chunk's ends alone"


def _idle_ns(served: Served) -> int:
    """How long the prompt stream had nothing to do: neither computed nor waited for the link."""
    busy_ns, stalled_ns = (
        getattr(served.after, kind)[Stream.PROMPT] - getattr(served.before, kind)[Stream.PROMPT]
        for kind in ("busy_ns", "stalled_ns")
    )
    return served.read_ns - busy_ns - stalled_ns


@pytest.mark.slow
def test_a_decode_window_is_one_launch_and_costs_the_same_each_time() -> None:
    served = serve(num_windows=4)
    statistics = served.card.device.statistics()
    assert statistics.num_graph_launches == 4
    first, *windows = (b - a for a, b in zip(served.sampled_ns, served.sampled_ns[1:], strict=False))
    assert windows == [first, first]
    num_nodes = 2 + 4 * NUM_LAYERS + 1
    assert first >= num_nodes * (pace().graph_node_ns + 20_000) + pace().launch_ns


@pytest.mark.slow
def test_bytes_over_the_link_are_what_the_formula_says() -> None:
    """Each chunk streams every blob that is not resident while it is read; what was lent comes home once."""
    served = serve()
    num_lent, num_slots = served.facts.lent_slots, len(served.card.plan.slots)
    num_missing = NUM_LAYERS * NUM_EXPERTS - (num_slots - num_lent)
    blobs = [pair for pair in served.pairs if is_blob(pair)]
    assert num_lent > 0
    assert len(blobs) == NUM_CHUNKS * num_missing + num_lent
    assert {size_of(pair.target) for pair in blobs} == {BLOB_BYTES}
    inputs = [pair for pair in served.pairs if isinstance(pair.target, Access) and not is_blob(pair)]
    assert 0 < sum(size_of(pair.target) for pair in inputs) < BLOB_BYTES


def is_blob(pair: CopyPair) -> bool:
    return isinstance(pair.target, Access) and (pair.target.content or "").startswith("blob ")


@pytest.mark.slow
def test_lent_slots_are_home_as_soon_as_their_bytes_are_over_the_link() -> None:
    """Between the last chunk and the first answer there is nothing but the way home and the window itself."""
    served = serve(num_windows=4)
    home = [pair for pair in served.pairs if is_blob(pair)][-served.facts.lent_slots :]
    assert sum(size_of(pair.target) for pair in home) == served.facts.refilled_bytes > 500 * MIB
    window_ns = served.sampled_ns[1] - served.sampled_ns[0]
    waited_ns = served.sampled_ns[0] - served.read_ns
    assert abs(waited_ns - link_ns(home) - window_ns) < 0.1 * NS_PER_MS


WINDOW_NS = 12_700_000
"""A window of the whole model with 37% of its experts resident, as measured (docs/lending.md, figures of one H200)."""
VISIBLE_NS = 600_000


COMPUTING_ROW_NS = 24
"""A chunk computes for longer than the link carries its experts, as one of 8,192 tokens does on an H200."""


@pytest.mark.slow
@pytest.mark.parametrize("num_tokens", [301, 1025, 1500, NUM_CHUNKS * CHUNK_TOKENS + 1, 5001])
def test_a_room_makes_no_prompt_slower_and_shows_its_way_home_once_at_most(num_tokens: int) -> None:
    """Chunks that ask the router, chunks that stream, and one of each, where the link hardly rests: no order hides the
    block then, since on a card the first window reads over the link too, and none may cost more than its bytes."""
    plain, roomed = (serve(num_windows=2, has_room=has_room, num_tokens=num_tokens) for has_room in (False, True))
    assert roomed.facts.room_slots > 0 and roomed.facts.room_bytes > 0
    assert roomed.read_ns <= plain.read_ns
    home_ns = roomed.facts.room_bytes * 1000 // pace().link_bytes_per_us
    for before, after in zip(plain.sampled_ns, roomed.sampled_ns, strict=True):
        assert after - before < home_ns + NS_PER_MS


@pytest.mark.slow
@pytest.mark.parametrize("num_tokens", [NUM_CHUNKS * CHUNK_TOKENS + 1, 5001])
def test_where_the_link_never_rests_a_room_shows_less_than_half_of_its_way_home(num_tokens: int) -> None:
    """At the second token too: a third of the ring makes way, which neither comes home nor is read over the link."""
    plain, roomed = (serve(num_windows=2, has_room=has_room, num_tokens=num_tokens) for has_room in (False, True))
    assert roomed.facts.lent_slots < plain.facts.lent_slots
    assert roomed.facts.ring_slots > plain.facts.ring_slots
    home_ns = roomed.facts.room_bytes * 1000 // pace().link_bytes_per_us
    assert home_ns > 12 * NS_PER_MS
    for before, after in zip(plain.sampled_ns, roomed.sampled_ns, strict=True):
        assert after - before < home_ns / 2


@pytest.mark.slow
def test_the_way_home_of_a_whole_block_is_hidden_behind_the_last_chunk_and_the_first_window() -> None:
    """675 MiB take 12.9 ms over the link; what a client sees of it is below 0.6 ms at the second token too."""
    plain, roomed = (
        serve(num_windows=3, has_room=has_room, window_ns=WINDOW_NS, expert_row_ns=COMPUTING_ROW_NS)
        for has_room in (False, True)
    )
    assert roomed.facts.room_bytes > 600 * MIB
    for windows in range(3):
        assert roomed.sampled_ns[windows] - plain.sampled_ns[windows] < VISIBLE_NS


@pytest.mark.slow
def test_an_elastic_boundary_of_two_gib_takes_less_than_ten_ms_beyond_its_copies() -> None:
    """From the end of the read to the second token, by which every byte must be home."""
    served = serve(num_windows=4, window_ns=WINDOW_NS, is_elastic=True)
    assert served.facts.moved_segments >= NUM_MOVED
    home = [pair for pair in served.pairs if is_home(pair)]
    home_bytes = sum(size_of(pair.target) for pair in home)
    assert home_bytes == served.facts.refilled_bytes + served.facts.restored_bytes >= 2048 * MIB
    window_ns = served.sampled_ns[3] - served.sampled_ns[2]
    beyond_ns = served.sampled_ns[1] - served.read_ns - link_ns(home) - 2 * window_ns
    assert beyond_ns < 10 * NS_PER_MS
    first_ns = served.sampled_ns[0] - served.read_ns - window_ns
    assert first_ns > served.facts.moved_segments * (pace().map_ns + pace().unmap_ns)


def is_home(pair: CopyPair) -> bool:
    """Weights that go where they are at home."""
    is_weight = isinstance(pair.target, Access) and (pair.target.content or "").startswith(("blob ", "weight "))
    return is_weight and pair.target.owner != "prompt"  # type: ignore[union-attr]
