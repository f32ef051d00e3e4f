"""One way to move a world: `Driver.apply(decision)`, the same for every front end.

After each decision the books and the twin agree. `finish` then shows safety, liveness and quiescence: failures stop,
what is open ends within a bounded number of steps, and the card is what it was at start: one more long read opens a
loan and is answered rightly, and so is a request that reuses it.

The driver plays the client and the reply (`strata.engine.reply`): it says when a reply ends and what a broken request
does next, and holds every token against `expected.py`.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256

from sim.world.card import Card, Faults, make_card
from sim.world.checkpoints import CheckpointWatch
from sim.world.checks import AtStart, BookWatch, check_rest, is_out, look
from sim.world.decisions import Begin
from sim.world.drafted import DrafterWatch
from sim.world.errors import WorldFault
from sim.world.geometry import Geometry
from sim.world.loan_watch import LoanWatch
from sim.world.notes import name_of, note_loans, note_state
from sim.world.parked import Expectation, ParkedWatch, state_bytes
from sim.world.play import PROBE_TOKENS, Play
from sim.world.replies import ReplyWatch
from sim.world.restart import next_card
from sim.world.sites import site_of
from strata.core.errors import DeviceError, Refusal
from strata.core.lending.loan import LoanPhase
from strata.core.memory.policy import NEVER
from strata.core.programs import MAX_WINDOW_ROWS
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Idle, Reading, ShortReading, State, Windowing
from strata.engine.runner import HasClosed, HasMoved, HasRead, HasSampled
from strata.trace.recording import Keep


class Driver(Play):
    """On one card. `keep` gets what the card was asked for (`strata.trace`)."""

    def __init__(
        self,
        geometry: Geometry,
        *,
        is_recording: bool = False,
        is_counting_pairs: bool = False,
        keep: Keep | None = None,
    ) -> None:
        card = make_card(geometry, is_counting_pairs=is_counting_pairs, keep=keep)
        if isinstance(card, Refusal):
            raise ValueError(f"no world: this geometry has no plan: {card.reason}")
        super().__init__()
        self._is_kept = keep is not None
        self._commands_before = 0  # of servers that have ended
        if is_recording:
            card.device.history = []
        self._serve(card)

    def _serve(self, card: Card) -> None:
        """A server is ready, and holds nothing."""
        self.card = card
        card.device.word_of = partial(site_of, card)
        self._start: AtStart = look(card)
        self._held: tuple[int, ...] = ()  # the ids whose cells K/V surely holds
        self._request: GenerationRequest | None = None
        self._reply: ReplyWatch | None = None
        self._is_torn = False  # some layers have read what lies behind them, others not
        self._books = BookWatch(card)
        self._drafter = DrafterWatch(card)
        self._parked = ParkedWatch(card, self._drafter)
        self._checkpoints = CheckpointWatch(card)
        self._takeover: Expectation | None = None
        self._loans = LoanWatch(card, self._start)
        self._is_cancelled = False

    @property
    def cards(self) -> tuple[Card]:
        return (self.card,)

    @property
    def has_token(self) -> bool:
        return self._reply is not None and bool(self._reply.tokens)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Positions of the session at which its state is kept."""
        return self._checkpoints.positions

    @property
    def where(self) -> str:
        return name_of(self.card.runner._state)

    @property
    def is_handing_over(self) -> bool:
        """Bytes of a loan are on their way, there or back, or blobs are exchanged."""
        state = self.card.runner._state
        return not isinstance(state, Idle | Reading) and (state.at.is_lending or bool(state.at.cache.moving))

    @property
    def num_steps(self) -> int:
        """Events and commands applied, those of the start included: they are judged like any others."""
        return self.num_events + self._commands_before + self.card.device.statistics().num_commands

    @property
    def faults(self) -> Faults:
        return self.card.device.faults

    def digest(self) -> str:
        """Of every command since start; only when recording."""
        assert self.card.device.history is not None
        return sha256("\n".join(map(repr, self.card.device.history)).encode()).hexdigest()

    def _leave(self) -> None:
        self.sometimes["cancelled while segments are out"] += is_out(self.card)
        self.sometimes[f"cancelled in {self.where}"] += 1

    def _restart(self, pick: int) -> None:
        """A trace of commands is one server's, so where one is kept nothing ends."""
        if self._is_kept:
            return
        before, commands = self.card.geometry, self.card.device.statistics().num_commands
        if (card := next_card(self.card, pick)) is not None:
            self._commands_before += commands
            self._serve(card)
            self.sometimes["restarted with other options"] += card.geometry != before

    def finish(self) -> None:
        self._calm()
        if self.is_lost:
            return
        self._drain()
        limit = self.card.geometry.context_tokens
        for salt, fresh in enumerate(self._probes(limit - 3), 0x5A17):
            loans = self.sometimes["loan opened"]
            self.apply(Begin(fresh, salt=salt, max_tokens=2))
            self._drain()
        if self.card.plan.lendable and not self.card.lent.num_segments and self.sometimes["loan opened"] == loans:
            raise WorldFault("a long read at the end of the world opened no loan")
        self.apply(Begin(1, shared=fresh, salt=0x5A30, max_tokens=1))
        self._drain()
        if self.card.geometry.num_checkpoints:  # the one before, edited
            self.apply(Begin(2, shared=fresh // 2, base=1, salt=0x5A1C, max_tokens=1))
            self._drain()
        if (
            self.card.geometry.drafts
        ):  # as far as the context goes, where a drafter has no cell for its last step any more
            self.apply(Begin(limit - MAX_WINDOW_ROWS, salt=0x5A1D, max_tokens=MAX_WINDOW_ROWS))
            self._drain()
        if self.card.geometry.parked_bytes:  # another conversation, back to the one before, and back again
            self.apply(Begin(self._other(fresh), salt=0x5A19, max_tokens=1))
            self._drain()
            for salt in (0x5A1A, 0x5A1B):
                self.apply(Begin(2, shared=limit, base=2, salt=salt, max_tokens=1))
                self._drain()
        if self.card.geometry.parked_bytes and self.card.geometry.kept_row_bytes:  # all of one, behind a part of it
            parked = self._other(fresh)
            for begin in (Begin(parked, salt=0x5A1E), Begin(0, shared=parked // 2, base=1), Begin(2, parked, base=2)):
                self.apply(begin)
                self._drain()

    def _probes(self, most: int) -> list[int]:
        """Fresh tokens of reads that take one more of everything: an elastic loan where there is another, and a room,
        which a longer read may not have. What each of them must lend is checked as for any request."""
        geometry = self.card.geometry
        thresholds = [least for least in (geometry.room_min_tokens, geometry.repeat_min_tokens) if least != NEVER]
        return [*dict.fromkeys(min(most, max(2, least)) for least in thresholds), min(most, PROBE_TOKENS)]

    def _begin(self, decision: Begin) -> None:
        request = self._ask(decision, self._held)
        self._reply = ReplyWatch(self.card.geometry, request, self._drafter)
        resumable = self._checkpoints.best(self._held, request.prompt_ids)
        self._takeover = takeover = self._parked.expect(
            self._held, request.prompt_ids, resumable=resumable, is_torn=self._is_torn
        )
        self._checkpoints.note_begun(request.prompt_ids)
        self._loans.expect(len(request.prompt_ids) - takeover.read_from)
        self.sometimes["prefix reused"] += takeover.kept > 0
        is_extended = takeover.kept > 0 and not takeover.resumed and not self.card.geometry.can_rewind
        self.sometimes["recurrent state extended"] += is_extended
        self.sometimes["parked prefix found"] += takeover.found is not None
        self.sometimes["nothing to read"] += self._loans.due.fresh_tokens == 1
        self._guarded(lambda: self._started(takeover))

    def _started(self, takeover: Expectation) -> None:
        assert self._request is not None
        cached = self.card.runner.begin(self._request)
        if cached != takeover.read_from:
            raise WorldFault(
                f"the request takes over {cached} tokens; {takeover.read_from} of its prompt are on the card or parked"
            )
        self._parked.check_begun(takeover)
        if not isinstance(self.card.runner._state, Parking):
            self._keep(takeover)

    def _keep(self, takeover: Expectation) -> None:
        """Cells behind `kept` are safe, or given up."""
        self._held, self._is_torn = takeover.held[: takeover.kept], False
        self._checkpoints.note_kept(takeover.kept)

    def _advance(self) -> None:
        assert self._request is not None and self._reply is not None
        if self._reply.tokens:
            self._checkpoints.note_landed()
            if self._reply.is_full:
                self._end()
            else:
                self.card.runner.resume(*self._reply.go_on())
            return
        before = self.card.runner._state
        if self._is_cancelled and isinstance(before, Reading | ShortReading) and not self.card.geometry.can_rewind:
            self._is_torn = True
            self.sometimes["recurrent state lost"] += 1
        try:
            outcome = self.card.runner.advance(is_cancelled=self._is_cancelled)
        finally:
            if self.card.runner._state is not before:  # what was awaited has come, whatever failed behind it
                self._note_moved(before)
        if self.card.runner._state is not before:  # a window that has sampled is looked at with the next step
            self._checkpoints.note_landed()
        match outcome:
            case HasClosed():
                if not self._is_cancelled:
                    raise WorldFault("a request that nobody gave up was closed without a token")
                if isinstance(before, Windowing):  # its window is done, so the cells that it fed hold
                    self._held = self._reply.note_window(self.card.runner._sampled, self.sometimes)
                self._close()
            case HasMoved():
                pass
            case HasRead(read_tokens):
                if not len(self._held) <= read_tokens < len(self._request.prompt_ids):
                    raise WorldFault(f"{read_tokens} tokens are read of {len(self._request.prompt_ids)}")
                has_moved_on = isinstance(before, Reading | ShortReading) and read_tokens > len(self._held)
                self._held = self._request.prompt_ids[:read_tokens]
                if has_moved_on:  # behind a conversation that came back nothing was read yet
                    self.sometimes["checkpoint kept"] += self._checkpoints.note_read(read_tokens)
                    if self.card.plan.staged and isinstance(self.card.runner._state, ShortReading | Windowing):
                        self._checkpoints.note_landed()  # the window asked on the same stream
            case HasSampled(token_ids):
                self._held = self._reply.note_window(token_ids, self.sometimes)
        self._checkpoints.check()

    def _note_moved(self, before: State) -> None:
        """A conversation has arrived, in host memory or on the card."""
        takeover, is_idle = self._takeover, isinstance(self.card.runner._state, Idle)
        assert takeover is not None
        self._parked.note_arrived(before, takeover)
        if isinstance(before, Parking):
            self.sometimes["parked"] += 1
            if not is_idle:
                self._keep(takeover)
        elif isinstance(before, Restoring):
            self.sometimes["restored"] += 1
            self._held = takeover.prompt[: takeover.read_from]
            restored_bytes = 0
            if takeover.found is None:
                self.sometimes["checkpoint used"] += 1
                self._checkpoints.note_used(takeover.resumed)
            else:
                restored_bytes = state_bytes(self.card.geometry, takeover.read_from - takeover.num_sure)
            if self.card.runner.read_facts().unparked_bytes != restored_bytes:
                raise WorldFault(f"{self.card.runner.read_facts()}: the card lacked {restored_bytes} B")

    def _end(self, *, num_taken: int | None = None) -> None:
        assert self._reply is not None
        self._reply.check_drafts(self.card.runner.draft_facts())
        self.card.runner.end(num_taken=num_taken)
        self._close()

    def _end_early(self) -> None:
        """A stop string ends a reply with any of the tokens of its last window."""
        assert self._reply is not None
        num_tokens = len(self._reply.tokens)
        num_taken = 1 + self._reply.num_sampled % num_tokens
        self._held = self._held[: len(self._held) - num_tokens + num_taken]
        self.sometimes["reply ends inside a window"] += num_taken < num_tokens
        self._end(num_taken=num_taken)

    def _close(self) -> None:
        is_answered = self._reply is not None and self._reply.num_sampled > 0
        self._request = self._reply = self._takeover = None
        self._is_cancelled = False
        if self.card.runner._state.at.is_lending:
            raise WorldFault("nothing is open, and a loan is")
        check_rest(self.card, self._start)
        self._drafter.check_rest(self._held, is_torn=self._is_torn)
        self._parked.check_rest()
        self._checkpoints.check_rest(self._held)
        self.sometimes["checkpoint evicted"] = self._checkpoints.num_evicted
        self._loans.check_rest(is_answered=is_answered)

    def _guarded(self, move: Callable[[], None]) -> None:
        self.num_events += 1
        before, fired = self.card.runner._state, self.faults.num_fired
        overtakings = self.card.device.num_overtakings
        num_words = len(self.card.device.journal.words)
        try:
            move()
        except DeviceError as error:
            self._judge(error)
            self._recover(name_of(before))
        self._accuse()
        if self.faults.num_fired > fired:
            self.sometimes[f"fault in {name_of(before)}"] += 1
            self._note_struck()
        self.sometimes["stream overtook"] += self.card.device.num_overtakings > overtakings
        self._books.check()
        note_state(self.sometimes, before, self.card.runner._state)
        words = self.card.device.journal.words[num_words:]
        note_loans(self.sometimes, self.card, words)
        self._loans.check_lent(words)

    def _note_struck(self) -> None:
        """What failures met, and whether the world goes on behind them."""
        for word in self.faults.struck:
            if word and not self.is_lost:
                self.sometimes[f"survived a fault at {word}"] += 1
        self.faults.struck.clear()

    def _recover(self, where: str) -> None:
        self._loans.has_failed = True
        fired, loan = self.faults.num_fired, self.card.runner._state.at.loan
        self.sometimes["refill failed and was repeated"] += loan is not None and loan.phase is LoanPhase.RESTORING
        if not self._is_mended(self.card.runner.recover):
            self.sometimes["device lost"] += 1
            return
        self._held, self._is_torn = (), False
        self._parked.note_recovered()
        self._checkpoints.note_recovered()
        self.sometimes[f"recovered from {where}"] += 1
        self.sometimes["recovery repeated"] += self.faults.num_fired > fired
        self._close()
