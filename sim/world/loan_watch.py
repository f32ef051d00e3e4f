"""Follows one request after another: what each must lend, and whether the card saw that (`loan_checks.py`)."""

from collections.abc import Sequence

from sim.world.card import Card
from sim.world.checks import AtStart, check_loan, is_out
from sim.world.loan_checks import (
    Due,
    Journal,
    check_acts,
    check_chunk,
    check_homes,
    check_reader,
    check_ring,
    what_is_due,
)
from sim.world.loans import CACHE, comes, goes
from sim.world.slab_checks import check_workplaces


class LoanWatch:
    """`has_failed`: something failed since the request began, so only what holds always is asked of it."""

    def __init__(self, card: Card, start: AtStart) -> None:
        self._card, self._start = card, start
        self.due = Due(0, were_out=False, takes_segments=False, opens_room=False)
        self.has_failed = False

    def expect(self, fresh_tokens: int) -> None:
        """A request begins that reads so many tokens, the window's one included."""
        card = self._card
        self.due = what_is_due(card.geometry, card.lent, fresh_tokens=fresh_tokens, were_out=is_out(card))
        card.device.journal, self.has_failed = Journal(), False

    def check_lent(self, words: Sequence[str]) -> None:
        """`words`: the acts of the move that is over. Is what the cache gave, if it gave, what the read needs?"""
        if goes(CACHE) not in words or comes(CACHE) in words:
            return
        geometry = self._card.geometry
        keeps_start = self.due.were_out and geometry.retains_startup
        path_tokens = geometry.context_tokens if keeps_start else self.due.fresh_tokens - 1
        check_loan(self._card, self._start, path_tokens=path_tokens)

    def check_rest(self, *, is_answered: bool) -> None:
        """The request is over. `is_answered`: it had a token, so whatever was due has happened."""
        if self.has_failed:
            return
        journal, geometry, lent = self._card.device.journal, self._card.geometry, self._card.lent
        check_acts(journal, lent, self.due, is_whole=is_answered)
        check_ring(journal, geometry, lent, self.due)
        if is_answered:
            check_reader(journal, self.due)
        check_homes(journal, lent, self.due)
        check_workplaces(journal.workplaces, journal.entries, geometry, lent, self._start.owners)
        if self._card.plan.lendable is not None:  # else reads have an arena of their own, and one geometry
            start_chunk_tokens = self._card.plan.prompt.chunk_tokens
            check_chunk(journal, geometry, self.due, start_chunk_tokens=start_chunk_tokens)
