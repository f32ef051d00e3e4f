"""A swap that was ordered behind the act that closes a room is not mended where that act fails."""

MODULE = "strata.core.serving.standing"
FRAGMENT = "assert self.is_broken or not"
REPLACEMENT = "assert not"
SOURCE = "docs/design.md 9, a swap may be ordered behind the act that closes a room"
