"""Slots are lent before the table without them has arrived."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "        return Lending(at, request, read.layout, takes_segments), cleared.then(notice)"
REPLACEMENT = (
    "        state, opened = self._commit(at, request, read.layout, takes_segments=takes_segments)\n"
    "        return state, Orders(\n"
    "            cleared.uploads + opened.uploads, cleared.commands + opened.commands, "
    "opened.awaits, opened.acts\n"
    "        )"
)
SOURCE = "lending.md 4.1, lend waits for the table upload"
