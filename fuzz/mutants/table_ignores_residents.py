"""Every window reads all blobs from the pack."""

MODULE = "strata.core.serving.table"
FRAGMENT = """\
for (layer, expert), blob in resident.items():
        words"""
REPLACEMENT = """\
for (layer, expert), blob in ():
        words"""
SOURCE = "lending.md 2, address table"
