"""Nobody asks whether what an address leads to is pinned."""

MODULE = "sim.scope"
FRAGMENT = "if pack_offset + size_bytes > pinned_bytes:"
REPLACEMENT = "if pack_offset + size_bytes > self._description.pack_bytes:"
SOURCE = "docs/design.md 5, pageable blobs: no address that a kernel may follow"
LETS_LIVE = ("staged_blob_read_from_the_pack",)
IN_LOANS = True
