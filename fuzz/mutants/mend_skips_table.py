"""After a failure the table is not published anew."""

MODULE = "strata.core.serving.startup"
FRAGMENT = """\
    if not plan.table.size_bytes:
        return orders"""
REPLACEMENT = """\
    if not plan.table.size_bytes or version > FIRST_TABLE_VERSION:
        return orders"""
SOURCE = "lending.md 4, 8"
