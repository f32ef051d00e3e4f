"""Every oracle of a simulated server fires: one promise of the real code is broken on purpose, and a world says so."""

import trio

from sim.world.geometry import Geometry
from sim.world.server.asks import Ask
from sim.world.server.caller import Pace
from sim.world.server.site import SiteOptions
from sim.world.server.visits import Call, Failure, Manner, Visit
from sim.world.server.world import WorldPlan, run_world
from strata.engine.reply import Reply
from strata.engine.runner import Runner
from strata.engine.steward import Steward
from strata.engine.ticket import RequestTicket
from strata.engine.updates import Text
from strata.server import generation, lifetime, schemas_sampling
from strata.server.bodies import BodyShare
from strata.server.connection import Connection
from strata.server.connections import Connections
from strata.server.feed import UpdateFeed
from strata.server.ports import ServerLimits
from strata.server.sse import EventStream

GEOMETRY = Geometry(
    (4097, 0, 5003),
    num_experts=12,
    context_tokens=700,
    arena_bytes=1 << 17,
    segment_bytes=1 << 14,
    max_chunk_tokens=256,
    ring_slots=3,
    min_cache_slots=2,
)
LIMITS = ServerLimits(shutdown_grace_s=2.0, write_deadline_s=5.0)
LONG = Ask((("user", "a" * 300),), max_tokens=8, seed=1)
STREAM = Ask((("user", "a" * 300),), max_tokens=8, seed=1, is_stream=True, is_usage_wanted=True)
STALLED = Visit(0.0, (Call(STREAM, Manner.STALL, after_s=400.0),), capacity_bytes=64)


def world(*visits, failures=(), signals_s=(), max_queued=16, limits=LIMITS):
    options = SiteOptions(GEOMETRY, limits, max_queued)
    return WorldPlan("test", options, visits, failures, signals_s=signals_s)


def visit(*asks, start_s=0.0, **manner):
    return Visit(start_s, tuple(Call(ask, **manner) for ask in asks), think_s=0.1)


def found_in(plan):
    return "\n".join(run_world(plan).faults_found)


def test_an_unbroken_server_is_accused_of_nothing():
    plans = (
        world(visit(LONG, STREAM)),
        world(visit(STREAM, manner=Manner.LEAVE, after_s=0.1), visit(LONG, manner=Manner.HALF_CLOSE, after_s=0.1)),
        world(STALLED),
        world(visit(LONG), failures=(Failure(0.0, 40, is_refused=True),)),
        world(visit(STREAM), signals_s=(0.05, 0.1)),
        world(*(visit(LONG) for _ in range(4)), max_queued=1),
    )
    for plan in plans:
        assert run_world(plan).faults_found == ()


def test_a_text_that_is_lost(monkeypatch):
    render, texts = EventStream._render, []

    def lose_third(self, update):
        texts.extend([update] * isinstance(update, Text))
        return [] if len(texts) == 3 and update is texts[-1] else render(self, update)

    monkeypatch.setattr(EventStream, "_render", lose_third)
    assert "right is" in found_in(world(visit(STREAM)))


def test_a_parameter_that_does_not_reach_the_sampler(monkeypatch):
    monkeypatch.setattr(schemas_sampling, "_parse_logit_bias", lambda entries, vocab_size: ())
    ask = Ask((("user", "b"),), max_tokens=8, bias=((7, 1.5),))
    assert "right is" in found_in(world(visit(ask)))


def test_a_stream_that_ends_without_a_word(monkeypatch):
    async def vanish(self, *, deadline):
        raise trio.ClosedResourceError

    monkeypatch.setattr(UpdateFeed, "receive", vanish)
    assert found_in(world(visit(STREAM)))


def test_a_request_that_is_never_let_go_of(monkeypatch):
    """Its client waits for ever."""
    monkeypatch.setattr(RequestTicket, "close", lambda self, last: None)
    assert "does not end" in found_in(world(visit(LONG)))


def test_a_reply_that_nobody_reads_and_nobody_ends(monkeypatch):
    """The client left, and whoever comes next waits behind it in line."""
    monkeypatch.setattr(generation, "_cancel_unless_ended", lambda feed, ticket: None)
    leaving = visit(STREAM, start_s=0.01, manner=Manner.LEAVE, after_s=0.01)
    assert "still worked on" in found_in(world(visit(LONG), leaving))


def test_a_client_that_leaves_behind_a_pipelined_request_unseen(monkeypatch):
    async def look_away(self):
        await trio.sleep_forever()

    leaving = visit(LONG, manner=Manner.LEAVE, after_s=0.05, behind="/health")
    assert found_in(world(leaving)) == ""
    monkeypatch.setattr(Connection, "_watch", look_away)
    assert "still worked on" in found_in(world(leaving))


def test_an_answer_for_nobody_who_waits(monkeypatch):
    monkeypatch.setattr(Steward, "_abandon", lambda self, last: self._line.clear())
    failures = tuple(Failure(0.0, after, is_refused=True) for after in range(30, 60))
    assert found_in(world(visit(LONG), visit(STREAM, start_s=0.01), failures=failures))


def test_a_line_without_an_end(monkeypatch):
    monkeypatch.setattr(Steward, "_drop_cancelled", lambda self: setattr(self, "_max_queued", 99))
    assert "the limit is" in found_in(world(*(visit(LONG) for _ in range(6)), max_queued=1))


def test_a_line_that_is_too_short(monkeypatch):
    monkeypatch.setattr(Steward, "_drop_cancelled", lambda self: setattr(self, "_max_queued", 0))
    assert "queue refused" in found_in(world(*(visit(LONG) for _ in range(4)), max_queued=8))


def test_a_client_that_never_reads_and_is_never_dropped(monkeypatch):
    monkeypatch.setattr(Connection, "_write_piece", lambda self, piece: self._peer.send_all(piece))
    monkeypatch.setattr(Connections, "end", lambda self: None)
    assert "told to stop" in found_in(world(STALLED, signals_s=(1.0,)))


def test_an_idle_connection_that_holds_the_end(monkeypatch):
    monkeypatch.setattr(Connections, "retire", lambda self: None)
    waiting = Visit(0.0, (Call(LONG), Call(LONG)), think_s=60.0)
    assert "told to stop" in found_in(world(waiting, signals_s=(20.0,)))


def test_a_close_that_takes_the_answer_away(monkeypatch):
    """Without the time to finish, a client in the middle of its body is reset and loses its 413."""
    monkeypatch.setattr(Connection, "_is_peer_sending", lambda self: False)
    long_body = Ask((("user", "a" * 600),), max_tokens=1)
    slow = Visit(0.0, (Call(long_body, sends=Pace(50, rest_s=0.01)),), capacity_bytes=512)
    limits = ServerLimits(max_body_bytes=64, max_total_body_bytes=64)
    kept = "nothing explains the error 413"
    assert kept not in found_in(world(slow, limits=limits))
    monkeypatch.undo()
    assert kept in found_in(world(slow, limits=limits))


def test_bytes_of_a_body_that_are_never_given_back(monkeypatch):
    monkeypatch.setattr(BodyShare, "release", lambda self: None)
    assert "bodies are held" in found_in(world(visit(LONG)))


def test_an_exception_that_an_edge_swallows(monkeypatch):
    def fail(self, token_id):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Reply, "_take", fail)
    assert "broken by a fault of the server" in found_in(world(visit(LONG)))


def test_a_failure_that_is_not_mended(monkeypatch):
    def forget(self):
        self._awaits = ()

    monkeypatch.setattr(Runner, "_recover_once", forget)
    assert found_in(world(visit(LONG, LONG), failures=(Failure(0.0, 60, is_refused=True),)))


def test_a_signal_that_is_overheard(monkeypatch):
    async def overhear(*_):
        await trio.sleep_forever()

    monkeypatch.setattr(lifetime, "_watch_signals", overhear)
    assert "does not end" in found_in(world(visit(LONG), signals_s=(0.2,)))
