"""The first window writes its cell over the one before."""

MODULE = "strata.core.serving.windows"
FRAGMENT = "Upload(staging.window_header, pack_header(position))"
REPLACEMENT = "Upload(staging.window_header, pack_header(position - 1))"
SOURCE = "cases B1"
