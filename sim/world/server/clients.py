"""Plays a visit over a connection, and names how each of its acts came out."""

import json
import math
from collections import Counter
from dataclasses import dataclass, field

import trio

from sim.world.checks import WorldFault
from sim.world.server.asks import Ask, RightReply, right_reply
from sim.world.server.caller import Caller, End, Pace, Seen
from sim.world.server.odd import NOTHING
from sim.world.server.site import Site
from sim.world.server.verdicts import DONE, Excuses, error_code, events_of, judge, partial_text_is_right
from sim.world.server.visits import Act, Call, Framing, Look, Manner, Pipeline, Try, Visit
from strata.server.connection import FINISHING_S
from strata.server.connections import REFUSAL_S
from strata.server.serving import CLOSING_S

FRAMING_HEADERS = {
    Framing.LENGTH: {},
    Framing.CHUNKED: {"Transfer-Encoding": "chunked"},
    Framing.EXPECT: {"Expect": "100-continue"},
}
LEAVING = (Manner.LEAVE, Manner.LEAVE_IN_STREAM, Manner.HALF_CLOSE)
NOTICING_S = 0.01
"""A client that left is noticed at once; the server's tasks only have to take their turns."""
ROOMY_BYTES = 1 << 22
"""All bodies of a world together are less."""


@dataclass(slots=True)
class Tally:
    """`outcomes` of requests by name; `sometimes`: what a campaign wants to have seen."""

    outcomes: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)


class Client:
    def __init__(self, site: Site, visit: Visit, name: str, tally: Tally) -> None:
        self._site, self._visit, self._name, self._tally = site, visit, name, tally
        self._patience_s = min(site.options.limits.write_deadline_s, site.options.limits.idle_connection_s)
        self._has_stalled = self._is_reused = False
        self._faults_before = 0
        self._began_s, self._sent_s = 0.0, math.inf

    async def run(self) -> None:
        await trio.sleep(self._visit.start_s)
        try:
            await self._visit_site()
        except WorldFault as fault:
            self._site.accuse(f"{self._name}: {fault}")
        self._site.journal.note(self._name, "is gone")

    async def _visit_site(self) -> None:
        visit, site = self._visit, self._site
        try:
            wire = await site.network.connect(capacity_bytes=visit.capacity_bytes, is_reset_lossy=visit.is_reset_lossy)
        except OSError:
            if not site.is_stopping:
                raise WorldFault("nobody listens") from None
            self._count("connection refused")
            return
        caller = Caller(wire, self._name, site.journal)
        for index, act in enumerate(visit.acts):
            if index:
                await trio.sleep(visit.think_s)
                self._is_reused = True
            site.note_act(1)
            is_reusable = await self._perform(act, caller)
            site.note_act(-1)
            if not is_reusable:
                break
        caller.leave(is_reset=False)

    async def _perform(self, act: Act, caller: Caller) -> bool:
        """Whether the connection may carry one more request."""
        self._faults_before = self._site.num_faults
        self._began_s, self._sent_s = trio.current_time(), math.inf
        match act:
            case Call(ask):
                request = ask.request(context_tokens=self._site.options.geometry.context_tokens)
                self._site.askers[request] += 1
                is_reusable = await self._call(act, caller)
                self._site.askers[request] -= 1
                if act.manner in LEAVING:
                    await trio.sleep(self._site.options.text_s[1] + NOTICING_S)
                    self._site.check_wanted(request)
                return is_reusable
            case Look(path):
                await caller.ask("GET", path, headers=self._key())
                self._sent_s = trio.current_time()
                self._judge_page(path, await caller.reply(Seen()))
            case Pipeline(first, second):
                await self._pipeline(caller, first, second)
            case Try():
                await self._try(act, caller)
                return False
        return caller.next_cycle()

    async def _call(self, call: Call, caller: Caller) -> bool:
        ask, geometry = call.ask, self._site.options.geometry
        right, seen = right_reply(ask, geometry), Seen()
        headers = self._key() | FRAMING_HEADERS[call.framing]
        is_chunked = call.framing is Framing.CHUNKED
        await caller.ask("POST", ask.path, ask.body(), headers=headers, is_chunked=is_chunked, pace=call.sends)
        if call.behind is not None:
            await caller.send(self._page(call.behind))
        self._sent_s = trio.current_time()
        match call.manner:
            case Manner.STAY:
                await caller.reply(seen, pace=call.reads)
                self._count(judge(ask, right, seen, self._excuses()))
                self._note_reply(ask, seen)
                is_reusable = await self._is_reusable(ask, seen, caller)
                if is_reusable and call.behind is not None:
                    await self._read_behind(call.behind, caller)
                    return caller.next_cycle()
                return is_reusable
            case Manner.STALL:
                await trio.sleep(call.after_s)
                self._has_stalled = call.after_s > self._patience_s
                await caller.reply(seen)
                self._count(f"stalled, {judge(ask, right, seen, self._excuses())}")
                # To the server a reply is over that lies in the buffers, and from then on the connection idles.
                return await self._is_reusable(ask, seen, caller) and call.after_s < self._idle_s()
            case Manner.HALF_CLOSE:
                await self._read_for(call.after_s, caller, seen)
                await caller.half_close()
                if seen.end is not End.WHOLE:
                    await caller.reply(seen)
                self._count_left(ask, right, seen, "half-closed")
            case Manner.LEAVE:
                await self._read_for(call.after_s, caller, seen)
                self._count_left(ask, right, seen, "left")
                caller.leave(is_reset=call.is_reset)
            case Manner.LEAVE_IN_STREAM:
                pace = Pace(call.reads.piece_bytes, call.reads.rest_s, call.after_pieces)
                await caller.reply(seen, pace=pace)
                self._count_left(ask, right, seen, "left in stream")
                caller.leave(is_reset=call.is_reset)
        return False

    async def _is_reusable(self, ask: Ask, seen: Seen, caller: Caller) -> bool:
        """Behind a stream that broke, the server closes the connection, which the headers could not say."""
        if ask.is_stream and seen.status == 200 and events_of(seen.body)[-1:] != [DONE]:
            await caller.await_end()
            return False
        return caller.next_cycle()

    async def _read_for(self, seconds: float, caller: Caller, seen: Seen) -> None:
        with trio.move_on_after(seconds):
            await caller.reply(seen)

    async def _pipeline(self, caller: Caller, first: str, second: str) -> None:
        await caller.send(self._page(first) + self._page(second))
        self._sent_s = trio.current_time()
        caller.expect_reply_to("GET")
        self._judge_page(first, await caller.reply(Seen()))
        if caller.next_cycle():
            await self._read_behind(second, caller)

    async def _read_behind(self, path: str, caller: Caller) -> None:
        """To the server a pipelined request comes when its turn has come; told to stop, it takes none more."""
        self._sent_s = trio.current_time()
        caller.expect_reply_to("GET")
        self._judge_page(path, await caller.reply(Seen()))

    async def _try(self, act: Try, caller: Caller) -> None:
        odd = act.odd
        await caller.send(odd.data, pace=act.sends)
        self._sent_s = trio.current_time()
        caller.expect_reply_to(odd.method)
        seen = await caller.reply(Seen())
        answer = (seen.status, error_code(seen) if seen.status >= 400 and seen.body else "")
        if answer in odd.answers or (odd.waits and self._is_late()):
            self._count(f"{odd.name}: {seen.status}")
        elif answer == NOTHING and not (b"\r\n\r\n" not in odd.data and self._sending_s() >= self._idle_s()):
            self._count_silence(seen, odd.name)
        elif answer == NOTHING:
            self._count("no reply to a slow head")
        elif self._excuses().explain(*answer):
            self._count(answer[1])
        else:
            raise WorldFault(f"{odd.name} is answered {answer} {seen.end}, right are {odd.answers}")

    def _judge_page(self, path: str, seen: Seen) -> None:
        if seen.status == 0:
            self._count_silence(seen, path)
        elif seen.status == 200 and seen.end is End.WHOLE:
            if not seen.headers["content-type"].startswith("text/plain"):
                json.loads(seen.body)
            self._count(path)
        elif path == "/ready" and seen.status == 503 and b'"status"' in seen.body:
            self._count(f"/ready {json.loads(seen.body)['status']}")
        elif seen.status == 503 and error_code(seen) == "too_many_connections" and self._excuses().may_overflow:
            self._count("too_many_connections")
        else:
            raise WorldFault(f"{path} is answered {seen.status} {seen.end} {seen.body!r}")

    def _count_silence(self, seen: Seen, what: str) -> None:
        """No reply: the server was told to stop before the request came, or the connection had been idle too long."""
        excuses = self._excuses()
        if not (excuses.may_be_silent or excuses.may_cut):
            raise WorldFault(f"{what}: no reply at all, the connection is {seen.end}")
        self._count(f"no reply, {seen.end}")

    def _count_left(self, ask: Ask, right: RightReply, seen: Seen, how: str) -> None:
        partial_text_is_right(ask, right, seen)
        if seen.status > 200:
            self._count(f"{how}, {judge(ask, right, seen, self._excuses()) if seen.end is End.WHOLE else seen.status}")
        else:
            self._count(f"{how} {'with a reply' if seen.end is End.WHOLE else 'before its end'}")

    def _note_reply(self, ask: Ask, seen: Seen) -> None:
        if seen.status == 200 and not ask.is_stream and seen.end is End.WHOLE:
            cached = json.loads(seen.body)["usage"]["prompt_tokens_details"]["cached_tokens"]
            self._tally.sometimes["prefix reused"] += cached > 0
        if ask.is_stream and seen.status == 200:
            events = events_of(seen.body)
            self._tally.sometimes["a comment in a stream"] += ":" in events
            self._tally.sometimes["a stream ends well while draining"] += (
                events[-1:] == [DONE] and self._site.is_stopping
            )

    def _excuses(self) -> Excuses:
        site = self._site
        limits = site.options.limits
        is_hurried = len(site.signalled_s) > 1
        has_no_grace = trio.current_time() >= site.stopping_since_s + limits.shutdown_grace_s + CLOSING_S
        return Excuses(
            may_break=site.num_faults > self._faults_before,
            may_drain=site.is_stopping,
            may_overflow=site.network.num_connections > limits.max_connections,
            may_overload=limits.max_total_body_bytes < ROOMY_BYTES,
            may_cut=self._has_stalled or is_hurried or has_no_grace,
            may_be_silent=self._is_late() or self._was_idle() or self._was_answered_while_sending(),
        )

    def _is_late(self) -> bool:
        """The request was not wholly out when the server was told to stop."""
        return self._sent_s >= self._site.stopping_since_s

    def _was_idle(self) -> bool:
        """Before this request the connection carried none for as long as it may."""
        return self._is_reused and self._visit.think_s >= self._idle_s()

    def _was_answered_while_sending(self) -> bool:
        """What a client still sends behind an early answer is dropped for FINISHING_S, or for REFUSAL_S where the
        connection was one too many; a client that is not done by then is cut, and may lose the answer."""
        has_overflown = self._site.network.num_connections > self._site.options.limits.max_connections
        return self._sending_s() >= (REFUSAL_S if has_overflown else FINISHING_S)

    def _sending_s(self) -> float:
        return self._sent_s - self._began_s

    def _idle_s(self) -> float:
        return self._site.options.limits.idle_connection_s

    def _page(self, path: str) -> bytes:
        key = "".join(f"{name}: {value}\r\n" for name, value in self._key().items())
        return f"GET {path} HTTP/1.1\r\nHost: world\r\n{key}\r\n".encode()

    def _key(self) -> dict[str, str]:
        key = self._site.options.limits.api_key
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def _count(self, outcome: str) -> None:
        self._site.journal.note(self._name, f"outcome {outcome}")
        self._tally.outcomes[outcome] += 1
