"""Every chunk is read as if it were the first."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "Upload(staging.prompt_header, pack_header(start))"
REPLACEMENT = "Upload(staging.prompt_header, pack_header(0))"
SOURCE = "lending.md 5, invariant 40"
