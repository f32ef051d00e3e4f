"""The ring has one slot more than the block has room for."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "read = read.with_room(plan.room)"
REPLACEMENT = "read = read.with_room((*plan.room, replace(plan.room[-1], offset_bytes=plan.room[-1].end_bytes)))"
SOURCE = "lending.md 5, invariant 22"
