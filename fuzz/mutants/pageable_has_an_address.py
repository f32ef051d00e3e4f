"""A blob that is neither pinned nor resident has the address in the table that it would have if it were pinned."""

MODULE = "strata.core.serving.table"
FRAGMENT = "if slot or plan.pack.is_pinned(home):"
REPLACEMENT = "if slot or home:"
SOURCE = "docs/design.md 5, pageable blobs: no address that a kernel may follow"
