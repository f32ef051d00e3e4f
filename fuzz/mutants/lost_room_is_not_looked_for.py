"""After a failure the room is what the request knows of it."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "room = Room(plan.block, plan.room, first_slot=0) if is_out else None"
REPLACEMENT = "room = at.room"
SOURCE = "lending.md 4, 8"
