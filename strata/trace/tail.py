"""The last entries of a run that may be endless, in bounded memory.

    entries that were cut off --> CardState --prelude--> | entries that are kept |

What falls off the old end is applied to a state of the card, so that what is kept can be replayed: the trace begins
with the commands that lead there, and a note "cut" stands behind them.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from strata.core.serving.request import GenerationRequest
from strata.trace.card_state import CardState
from strata.trace.command_trace import CardSizes, CommandTrace
from strata.trace.entries import Entry, Noted, Refused
from strata.trace.places import Places
from strata.trace.prelude import prelude

MAX_PROMPT_IDS = 1 << 20
"""Token ids of prompts that are kept at once. Beyond it the oldest prompts are known by their length only."""


class Tail:
    """At most `max_entries` are kept, and ids of prompts up to MAX_PROMPT_IDS."""

    def __init__(self, sizes: CardSizes, places: Places, serving: Mapping[str, Any], *, max_entries: int) -> None:
        assert max_entries >= 1
        self._sizes, self._places, self._serving = sizes, places, serving
        self._max_entries = max_entries
        self._entries: deque[Entry] = deque()
        self._before = CardState(sizes)
        self._prompts: dict[int, tuple[int, ...]] = {}
        self._num_prompt_ids = 0
        self._num_requests = 0
        self.num_skipped = 0

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, entry: Entry) -> None:
        if len(self._entries) == self._max_entries:
            oldest = self._entries.popleft()
            if isinstance(oldest, Noted):
                self._drop_prompt(oldest)
            elif not isinstance(oldest, Refused):
                self._before.apply(oldest)
            self.num_skipped += 1
        self._entries.append(entry)

    def begin(self, request: GenerationRequest) -> None:
        """Keep a request whole: ids, sampling, limits. Its text is in no trace, since none reaches the engine."""
        self._num_requests += 1
        self._prompts[self._num_requests] = request.prompt_ids
        self._num_prompt_ids += len(request.prompt_ids)
        while self._num_prompt_ids > MAX_PROMPT_IDS and len(self._prompts) > 1:
            self._forget(next(iter(self._prompts)))
        facts = {
            "request": self._num_requests,
            "prompt_tokens": len(request.prompt_ids),
            "max_tokens": request.max_tokens,
            "sampling": sampling_facts(request),
        }
        self.keep(Noted("begin", facts))

    def trace(self, origin: Mapping[str, Any]) -> CommandTrace:
        """As it is now; keeping goes on."""
        kept = tuple(self._with_prompt(entry) for entry in self._entries)
        before: tuple[Entry, ...] = ()
        if self.num_skipped:
            before = (*prelude(self._before, self._places), Noted("cut", {"entries": self.num_skipped}))
        return CommandTrace(
            self._sizes, self._places, (*before, *kept), self._serving, origin, skipped=self.num_skipped
        )

    def _with_prompt(self, entry: Entry) -> Entry:
        if isinstance(entry, Noted) and entry.what == "begin":
            ids = self._prompts.get(entry.facts["request"])
            if ids is not None:
                return replace(entry, facts={**entry.facts, "prompt_ids": list(ids)})
        return entry

    def _drop_prompt(self, note: Noted) -> None:
        if note.what == "begin" and note.facts["request"] in self._prompts:
            self._forget(note.facts["request"])

    def _forget(self, request: int) -> None:
        self._num_prompt_ids -= len(self._prompts.pop(request))


def sampling_facts(request: GenerationRequest) -> dict[str, Any]:
    """Every field of the request's sampling as a JSON value."""
    sampling = request.sampling
    values = {name: getattr(sampling, name) for name in sampling.__slots__}
    return values | {"logit_bias": [list(pair) for pair in sampling.logit_bias]}
