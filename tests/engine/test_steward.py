"""The steward over the twin without bytes: order, bounds, cancels, drains, failures. Steps run inline; tasks still take
turns in any order, so nothing here may depend on which of two ready tasks goes first."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
import trio

from strata.core.errors import DeviceError, RequestError
from strata.core.inventory import ModelInventory
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.cuts import BLOCK_TOKENS
from strata.core.serving.request import GenerationRequest
from strata.engine.steward import BROKEN, Steward, read_line
from strata.engine.thread import DeviceThread, run_inline
from strata.engine.updates import Broken, Finished, Progress, ReadFacts, Text, Timings, Update
from strata.terminator import Emission
from tests.engine.symbolic_card import Card, hybrid_inventory, small_inventory, symbolic_card

OPTIONS = PlanOptions(4096, chunk_tokens=256, ring_slots=5, num_cache_slots=7)
END_ID = 2


@dataclass
class Letters:
    """Token n is one letter; stops at a letter when told to."""

    stop: str = ""
    held: str = ""

    def push(self, token_id: int) -> Emission:
        letter = chr(ord("A") + token_id)
        return Emission("", True) if letter == self.stop else Emission(letter, False)

    def flush(self) -> str:
        return self.held


@dataclass
class Site:
    """A steward and what it is given; `replies` are the ids that windows will sample, one after the other."""

    card: Card
    steward: Steward
    replies: list[int]
    steps: list[Callable[[], object]] = field(default_factory=list)


@asynccontextmanager
async def site(
    replies: list[int],
    *,
    max_queued: int = 4,
    letters: Letters | None = None,
    inventory: ModelInventory | None = None,
    **rest: object,
) -> AsyncIterator[Site]:
    card = symbolic_card(inventory or small_inventory(), OPTIONS, arena_bytes=1 << 21, **rest)  # type: ignore[arg-type]
    advance = card.runner.advance

    def played(*, is_cancelled: bool) -> object:
        card.play()
        if replies and type(card.runner._state).__name__ == "Windowing":
            staged = card.payload.host(card.plan.staging.result)
            staged[:8] = replies.pop(0).to_bytes(8, "little")
        return advance(is_cancelled=is_cancelled)

    card.runner.advance = played  # type: ignore[method-assign, assignment]
    card.runner.start = lambda: None  # type: ignore[method-assign]
    steward = Steward(
        card.runner,
        terminators=frozenset({END_ID}),
        make_terminator=lambda request: letters or Letters(),
        run_step=run_inline,
        clock=trio.current_time,
        max_queued=max_queued,
        chunk_tokens=256,
        ring_slots=5,
    )
    async with trio.open_nursery() as nursery:
        steward.start()
        nursery.start_soon(steward.run)
        yield Site(card, steward, replies)
        nursery.cancel_scope.cancel()


def ask(num_tokens: int = 300, max_tokens: int = 4) -> GenerationRequest:
    return GenerationRequest("r", tuple(i % 31 for i in range(num_tokens)), max_tokens)


async def everything(ticket) -> list[Update]:
    with trio.fail_after(60):
        return [update async for update in ticket.updates()]


def text_of(updates: list[Update]) -> str:
    return "".join(update.text for update in updates if isinstance(update, Text))


async def test_a_reply_is_its_texts_and_then_how_it_ended():
    async with site([0, 1, 3, 4]) as one:
        updates = await everything(one.steward.submit(ask()))
    assert text_of(updates) == "ABDE"
    assert isinstance(updates[0], Progress)
    last = updates[-1]
    assert isinstance(last, Finished)
    assert last.reason == "length"
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.cached_tokens) == (300, 4, 0)
    assert (last.timings.prompt_n, last.timings.predicted_n) == (300, 4)
    assert (last.timings.read.read_from, last.timings.read.chunk_tokens, last.timings.read.ring_slots) == (0, 256, 5)
    assert last.timings.read.ring_entries > 0
    assert read_line(last.timings).startswith("read 300 tokens from 0: chunk 256, ring 5, ")


@pytest.mark.parametrize(
    ("replies", "letters", "text", "reason", "tokens"),
    [
        ([0, END_ID, 1], Letters(held="~"), "A~", "stop", 2),
        ([END_ID], Letters(), "", "stop", 1),
        ([0, 1, 3, 4], Letters(stop="D"), "AB", "stop", 3),
        ([0, 1, 3, END_ID], Letters(), "ABD", "stop", 4),
        ([0, 1, 3, 4], Letters(held="~"), "ABDE~", "length", 4),
        ([0, 1, 3, 4], Letters(stop="E"), "ABD", "stop", 4),
    ],
)
async def test_the_first_reason_to_end_wins(replies, letters, text, reason, tokens):
    async with site(replies, letters=letters) as one:
        updates = await everything(one.steward.submit(ask()))
    assert text_of(updates) == text
    assert isinstance(updates[-1], Finished)
    assert (updates[-1].reason, updates[-1].usage.completion_tokens) == (reason, tokens)


async def test_requests_are_served_in_the_order_they_came():
    async with site([]) as one:
        ended: list[int] = []

        async def read(number: int, ticket) -> None:
            await everything(ticket)
            ended.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(read, number, one.steward.submit(ask(50 * number + 1)))
        assert ended == [0, 1, 2, 3]


async def test_a_full_line_refuses_and_a_cancelled_place_in_it_is_free_again():
    async with site([], max_queued=2) as one:
        tickets = [one.steward.submit(ask()) for _ in range(3)]  # one will run, two wait
        with pytest.raises(RequestError, match=r"the limit is 2 waiting") as refused:
            one.steward.submit(ask())
        assert (refused.value.status, refused.value.code) == (503, "queue_full")
        tickets[1].cancel()
        tickets.append(one.steward.submit(ask()))
        assert await everything(tickets[1]) == []
        for ticket in (tickets[0], tickets[2], tickets[3]):
            assert isinstance((await everything(ticket))[-1], Finished)
        assert one.steward.statistics().num_cancelled == 1


async def test_a_request_cancelled_in_line_never_starts():
    async with site([]) as one:
        first, second = one.steward.submit(ask()), one.steward.submit(ask(700))
        second.cancel()
        await everything(first)
        num_commands = one.card.device.statistics().num_commands
        assert await everything(second) == []
        assert one.card.device.statistics().num_commands == num_commands


async def test_a_cancel_ends_a_read_within_a_layer_and_frees_the_card():
    async with site([]) as one:
        ticket = one.steward.submit(ask(3000))
        cancelled_at: list[int] = []
        with trio.fail_after(60):
            async for _ in ticket.updates():
                ticket.cancel()
                cancelled_at.append(one.card.device.statistics().num_launches)
        # One step may have been under way: at most the experts of a layer, its combine, and the layer after it.
        assert one.card.device.statistics().num_launches - cancelled_at[0] <= 12
        assert one.steward.statistics().num_cancelled == 1
        assert isinstance((await everything(one.steward.submit(ask())))[-1], Finished)


async def test_tokens_that_were_read_stay_read_when_recurrent_state_is_given_up():
    """The session is lost with the chunk that was cut short; the counter of tokens read must not run backwards."""
    async with site([5, 6], inventory=hybrid_inventory()) as one:
        await everything(one.steward.submit(ask(300, max_tokens=2)))
        before = one.steward.statistics().prompt_tokens
        longer = GenerationRequest("r", (*ask(300).prompt_ids, 5, *range(30), *ask(900).prompt_ids), 4)
        ticket = one.steward.submit(longer)
        with trio.fail_after(60):
            async for update in ticket.updates():
                assert isinstance(update, Progress)
                assert update.fresh_tokens == len(longer.prompt_ids) - 301  # the session was extended
                if update.read_tokens:
                    ticket.cancel()
        assert one.steward.statistics().num_cancelled == 1
        read = one.steward.statistics().prompt_tokens - before
        assert read > 256 - BLOCK_TOKENS  # a chunk, which ends where a block does
        again = await everything(one.steward.submit(longer))
        assert isinstance(again[-1], Finished) and again[-1].usage.cached_tokens == 0


async def test_a_failed_command_breaks_one_request_and_not_the_next():
    failing = {"at": -1}

    def faults(index: int, command: object) -> None:
        if index == failing["at"]:
            raise DeviceError("planted", command)

    async with site([], faults=faults) as one:
        failing["at"] = one.card.device.statistics().num_commands + 20
        updates = await everything(one.steward.submit(ask()))
        assert updates[-1] == BROKEN
        assert isinstance((await everything(one.steward.submit(ask())))[-1], Finished)
        statistics = one.steward.statistics()
        assert (statistics.num_broken, statistics.num_finished, statistics.num_running) == (1, 1, 0)


async def test_a_fault_of_ours_breaks_one_request_and_not_the_next():
    async with site([]) as one:
        advance = one.card.runner.advance

        def faulty(*, is_cancelled: bool) -> object:
            one.card.runner.advance = advance  # type: ignore[method-assign]
            raise IndexError("planted")

        one.card.runner.advance = faulty  # type: ignore[method-assign, assignment]
        assert (await everything(one.steward.submit(ask())))[-1] == BROKEN
        assert isinstance((await everything(one.steward.submit(ask())))[-1], Finished)


async def test_a_queue_of_none_still_serves_one_at_a_time():
    async with site([], max_queued=0) as one:
        first = one.steward.submit(ask())
        with pytest.raises(RequestError, match="limit is 0"):
            one.steward.submit(ask())
        assert isinstance((await everything(first))[-1], Finished)
        assert isinstance((await everything(one.steward.submit(ask())))[-1], Finished)


async def test_a_lost_device_ends_the_steward_and_answers_everybody():
    def faults(index: int, command: object) -> None:
        if failing:
            raise DeviceError("gone", command)

    failing: list[bool] = []
    with pytest.RaisesGroup(pytest.RaisesExc(DeviceError, match="gone")):
        async with site([], faults=faults) as one:
            running, waiting = one.steward.submit(ask()), one.steward.submit(ask())
            failing.append(True)
            for ticket in (running, waiting):
                last = (await everything(ticket))[-1]
                assert isinstance(last, Broken)
            with pytest.raises(RequestError, match="shutting down"):
                one.steward.submit(ask())
            await trio.sleep_forever()


async def test_draining_finishes_what_was_accepted_and_refuses_the_rest():
    async with site([]) as one:
        accepted = [one.steward.submit(ask()), one.steward.submit(ask())]
        one.steward.drain()
        with pytest.raises(RequestError) as refused:
            one.steward.submit(ask())
        assert (refused.value.status, refused.value.code) == (503, "shutting_down")
        for ticket in accepted:
            assert isinstance((await everything(ticket))[-1], Finished)


async def test_a_reader_who_never_reads_does_not_hold_the_engine():
    async with site([]) as one:
        one.steward.submit(ask(300, max_tokens=200))
        assert isinstance((await everything(one.steward.submit(ask())))[-1], Finished)


async def test_the_device_thread_is_one_thread_and_its_step_is_never_abandoned():
    import threading

    thread = DeviceThread()
    release = threading.Event()
    names = {await thread.run(lambda: threading.current_thread().name) for _ in range(3)}
    assert len(names) == 1
    ended: list[bool] = []
    with trio.move_on_after(0) as scope:
        trio.lowlevel.current_trio_token().run_sync_soon(release.set)
        await thread.run(lambda: ended.append(release.wait()))
    assert ended == [True]
    assert scope.cancel_called
    thread.close()


def test_the_line_of_a_read_says_what_was_parked_and_what_came_back():
    read = ReadFacts(100, chunk_tokens=256, ring_slots=5, no_room="off", parked_bytes=3 << 20, unparked_tokens=80)
    line = read_line(Timings(30, 100.0, 5, 50.0, replace(read, unparked_bytes=1 << 20)))
    assert ", parked 3.0 MiB, 80 tokens came back, 1.0 MiB, " in line
    assert "parked" not in read_line(Timings(30, 100.0, 5, 50.0, replace(read, parked_bytes=0, unparked_tokens=0)))


def test_the_line_of_a_read_says_where_it_went_on_from_a_checkpoint():
    read = ReadFacts(100, chunk_tokens=256, ring_slots=5, no_room="off", checkpoint_tokens=100)
    assert ", on from the checkpoint at 100, " in read_line(Timings(30, 100.0, 5, 50.0, read))
    assert "checkpoint" not in read_line(Timings(30, 100.0, 5, 50.0, replace(read, checkpoint_tokens=0)))
