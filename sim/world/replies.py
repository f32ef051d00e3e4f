"""One reply, held token by token against what the model says, and its windows against the drafts they must have."""

from collections import Counter

from sim.world.card import TERMINATORS
from sim.world.drafted import DrafterWatch
from sim.world.errors import WorldFault
from sim.world.expected import Expected
from sim.world.geometry import Geometry
from sim.world.looked_up import expected_drafts, expected_rows
from strata.core.serving.request import GenerationRequest
from strata.engine.updates import DraftFacts


class ReplyWatch:
    """`tokens` were sampled, and are not answered yet; `num_sampled` are those of the whole reply."""

    def __init__(self, geometry: Geometry, request: GenerationRequest, drafter: DrafterWatch) -> None:
        self._drafter = drafter
        self._window_rows, self._max_tokens = geometry.window_rows, request.max_tokens
        self._expected = Expected(geometry, request, TERMINATORS)
        self.tokens: tuple[int, ...] = ()
        self.num_sampled = 0
        self._drafts: tuple[int, ...] = ()  # of the window under way
        self._facts = DraftFacts()

    @property
    def is_full(self) -> bool:
        return self.num_sampled == self._max_tokens

    def go_on(self) -> tuple[int, ...]:
        """The tokens that the reply takes; the next window feeds the last of them."""
        tokens, self.tokens = self.tokens, ()
        self._expected.take(tokens[-1])
        ids, num_left = self._expected.ids, self._max_tokens - self.num_sampled
        if self._drafter.is_on:
            self._drafts = self._drafter.draft(tuple(ids), num_left=num_left)
        else:
            self._drafts = expected_drafts(ids, most=min(self._window_rows, num_left) - 1)
        return tokens

    def note_window(self, tokens: tuple[int, ...], sometimes: Counter[str]) -> tuple[int, ...]:
        """A window gave `tokens`; the ids whose cells the session then holds."""
        for index, token in enumerate(tokens):
            if index:
                self._expected.take(tokens[index - 1])
            right = self._expected.next_token()
            if token != right:
                raise WorldFault(f"token {self.num_sampled} of the reply is {token}, the model says {right}")
            self.num_sampled += 1
        self._drafter.check_drafts()
        if len(tokens) != (rows := expected_rows(tokens, self._drafts, TERMINATORS)):
            raise WorldFault(f"{len(tokens)} rows stand of a window with the drafts {self._drafts}, not {rows}")
        self.tokens, num_accepted = tokens, len(tokens) - 1
        self._facts = DraftFacts(self._facts.num_drafts + len(self._drafts), self._facts.num_accepted + num_accepted)
        sometimes["window answered"] += 1
        whose = "drafter's " if self._drafter.is_on else ""
        sometimes[f"{whose}draft accepted"] += num_accepted > 0
        sometimes[f"{whose}draft taken back"] += num_accepted < len(self._drafts)
        return tuple(self._expected.ids)

    def check_drafts(self, facts: DraftFacts) -> None:
        """What the engine says of its drafts, at the end of a reply that nothing failed in."""
        if facts != self._facts:
            raise WorldFault(f"the engine counts {facts}, {self._facts} are right")
