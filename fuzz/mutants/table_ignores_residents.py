"""Every window reads all blobs from the pack."""

MODULE = "strata.core.serving.table"
FRAGMENT = "places.arena + slot.extent.offset_bytes if slot else"
REPLACEMENT = "places.pack + home.offset_bytes if slot else"
SOURCE = "lending.md 2, address table"
