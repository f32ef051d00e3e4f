"""Windows that read a prompt count the experts that they read, as those of a reply do."""

MODULE = "strata.core.serving.launches"
FRAGMENT = "is_counted=not are_kept"
REPLACEMENT = "is_counted=True"
SOURCE = "docs/design.md 4, swaps: heat is the share of decode windows"
