"""The last byte of a weight does not come home."""

MODULE = "strata.core.serving.masters"
FRAGMENT = """\
            home = master.home.part(offset_bytes=skipped, size_bytes=end - start)
"""
REPLACEMENT = """\
            end -= 1
            home = master.home.part(offset_bytes=skipped, size_bytes=end - start)
"""
SOURCE = "lending.md 5, invariant 21"
