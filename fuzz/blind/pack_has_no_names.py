"""The twin does not compare copies out of the pack with the manifest."""

MODULE = "sim.host"
FRAGMENT = "if name is not None and content is not None and name != content:"
REPLACEMENT = "if False:"
SOURCE = "docs/design.md 3, expected content comes from the manifest"
LETS_LIVE = ("weights_from_wrong_place",)
