"""Slots are lent before the table without them has arrived."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "        return Lending(at, request, read.layout), cleared.then(notice)"
REPLACEMENT = """\
        state, opened = self._commit(Lending(at, request, read.layout))
        return state, Orders(
            cleared.uploads + opened.uploads, cleared.commands + opened.commands, opened.awaits, opened.transfers
        )"""
SOURCE = "lending.md 4.1, lend waits for the table upload"
