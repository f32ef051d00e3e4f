"""The ring does not get the room's last slot."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "read = read.with_room(plan.room)"
REPLACEMENT = "read = read.with_room(plan.room[:-1])"
SOURCE = "lending.md 3.1, floor(block / stride)"
