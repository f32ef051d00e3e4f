"""The fake that the other tests lean on does what the protocol says."""

import pytest
import trio

from strata.core.errors import RequestError
from strata.core.serving.request import GenerationRequest
from strata.engine.ports import Engine, Ticket
from strata.engine.updates import Broken, Finished, Progress, Text
from tests.server.scripted_engine import Break, End, Explode, Hold, Read, Say, ScriptedEngine, Vanish, say


def request(name="r"):
    return GenerationRequest(name, prompt_ids=(1, 2, 3), max_tokens=8)


async def drained(ticket):
    return [update async for update in ticket.updates()]


async def test_it_has_the_shape_of_the_port(nursery):
    engine: Engine = ScriptedEngine(say("a"))
    ticket: Ticket = engine.submit(request())
    assert engine.statistics().num_queued == 1
    assert callable(ticket.cancel) and ticket.updates()


async def test_a_script_becomes_updates_in_order(nursery):
    engine = ScriptedEngine(lambda _: (Read(1, 3), Say("a"), End("length")))
    nursery.start_soon(engine.run)
    progress, text, finished = await drained(engine.submit(request()))
    assert progress == Progress(1, 3) and text == Text("a")
    assert isinstance(finished, Finished) and finished.reason == "length" and finished.usage.completion_tokens == 1


@pytest.mark.parametrize(("fault", "updates"), [(Break("x", "y"), [Broken("x", "y")]), (Vanish(), [])])
async def test_a_fault_ends_the_updates(fault, updates, nursery):
    engine = ScriptedEngine(lambda _: (fault,))
    nursery.start_soon(engine.run)
    assert await drained(engine.submit(request())) == updates


async def test_an_exploding_script_raises_from_updates(nursery):
    engine = ScriptedEngine(lambda _: (Explode(KeyError("bug")),))
    nursery.start_soon(engine.run)
    with pytest.raises(KeyError, match="bug"):
        await drained(engine.submit(request()))


async def test_tickets_run_one_at_a_time_in_order_and_cancelled_ones_never_start(nursery):
    held = trio.Event()
    engine = ScriptedEngine(lambda _: (Hold(held), End()))
    first, second, third = (engine.submit(request(name)) for name in "abc")
    nursery.start_soon(engine.run)
    await engine.wait_for(lambda now: now.num_running == 1 and now.num_queued == 2)
    second.cancel()
    second.cancel()
    held.set()
    assert [len(await drained(ticket)) for ticket in (first, second, third)] == [1, 0, 1]
    assert engine.started == ["a", "c"]
    now = engine.statistics()
    assert (now.num_finished, now.num_cancelled, now.num_running, now.num_queued) == (2, 1, 0, 0)


async def test_a_full_queue_refuses():
    engine = ScriptedEngine(say("a"), max_queued=1)
    engine.submit(request())
    with pytest.raises(RequestError, match="queue is full") as refusal:
        engine.submit(request())
    assert (refusal.value.status, refusal.value.code) == (503, "queue_full")
