"""A blob that is neither pinned nor resident has the address in the table that it would have if it were pinned."""

MODULE = "strata.core.serving.table"
FRAGMENT = "if is_whole or pack.is_pinned(home) else 0"
REPLACEMENT = "if True else 0"
SOURCE = "docs/design.md 5, pageable blobs: no address that a kernel may follow"
