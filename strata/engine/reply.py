"""One request, from its first chunk to the end of its reply."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from strata.core.serving.request import GenerationRequest
from strata.engine.runner import HasClosed, HasMoved, HasRead, HasSampled, Runner
from strata.engine.thread import StepRunner
from strata.engine.ticket import RequestTicket
from strata.engine.updates import Finished, Progress, Timings, Usage
from strata.terminator import Terminator


@dataclass(slots=True)
class Reply:
    """`clock` gives seconds. `progress_s` is the time of the last layer or token: what readiness is judged by."""

    ticket: RequestTicket
    terminator: Terminator
    terminators: frozenset[int]
    runner: Runner
    run_step: StepRunner
    clock: Callable[[], float]
    num_sampled: int = 0
    num_read: int = 0  # prompt tokens that went through all layers for this request
    cached_tokens: int = 0  # prompt tokens that need not be read
    began_s: float = field(init=False)
    first_window_s: float | None = None
    progress_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self.progress_s = self.clock()

    @property
    def request(self) -> GenerationRequest:
        return self.ticket.request

    async def run(self) -> Finished | None:
        """None when the client left. Raises DeviceError; the device is then not at rest."""
        self.cached_tokens = await self.run_step(lambda: self.runner.begin(self.request))
        while True:
            outcome = await self.run_step(lambda: self.runner.advance(is_cancelled=self.ticket.is_cancelled))
            self.progress_s = self.clock()
            match outcome:
                case HasClosed():
                    return None
                case HasMoved():
                    pass
                case HasRead(read_tokens):
                    self._note_read(read_tokens)
                case HasSampled(token_ids):
                    num_taken, reason = self._take_all(token_ids)
                    if reason is not None:
                        await self.run_step(partial(self.runner.end, num_taken=num_taken))
                        return self._finished(reason)
                    await self.run_step(partial(self.runner.resume, *token_ids))

    def _note_read(self, read_tokens: int) -> None:
        prompt_tokens = len(self.request.prompt_ids)
        # A session with recurrent state holds nothing once it is given up; what was read for it was read all the same.
        self.num_read = max(self.num_read, read_tokens - self.cached_tokens)
        if read_tokens == prompt_tokens - 1 and self.first_window_s is None:
            self.first_window_s = self.progress_s
        self.ticket.progress(Progress(self.num_read, prompt_tokens - self.cached_tokens))

    def _take_all(self, token_ids: tuple[int, ...]) -> tuple[int, str | None]:
        """How many tokens of a window the reply takes, and why it ends with the last of them, if it does."""
        for num_taken, token_id in enumerate(token_ids, 1):
            reason = self._take(token_id)
            if reason is not None:
                return num_taken, reason
        return len(token_ids), None

    def _take(self, token_id: int) -> str | None:
        """Emit what the token adds, and say why the reply ends with it, if it does. The first reason wins: a token that
        ends a reply is never text; a stop string beats the length limit."""
        if not self.num_sampled:
            self.num_read = len(self.request.prompt_ids) - self.cached_tokens
        self.num_sampled += 1
        if token_id in self.terminators:
            self.ticket.text(self.terminator.flush())
            return "stop"
        emission = self.terminator.push(token_id)
        self.ticket.text(emission.text)
        if emission.is_stopped:
            return "stop"
        if self.num_sampled == self.request.max_tokens:
            self.ticket.text(self.terminator.flush())
            return "length"
        return None

    def _finished(self, reason: str) -> Finished:
        prompt_tokens = len(self.request.prompt_ids)
        drafts, cache = self.runner.draft_facts(), self.runner.cache_facts()
        split_s = self.began_s if self.first_window_s is None else self.first_window_s
        timings = Timings(
            prompt_n=prompt_tokens - self.cached_tokens,
            prompt_ms=1e3 * (split_s - self.began_s),
            predicted_n=self.num_sampled,
            predicted_ms=1e3 * (self.progress_s - split_s),
            read=self.runner.read_facts(),
            draft_n=drafts.num_drafts,
            draft_n_accepted=drafts.num_accepted,
            expert_n=cache.num_reads,
            expert_n_hit=cache.num_hits,
            swap_n=cache.num_swaps,
        )
        return Finished(reason, Usage(prompt_tokens, self.num_sampled, self.cached_tokens), timings)
