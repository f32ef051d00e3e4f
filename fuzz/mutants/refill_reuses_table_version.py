"""The full table has the number of the cleared one."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
version = at.table_version + 1
        orders = refill("""
REPLACEMENT = """\
version = at.table_version
        orders = refill("""
SOURCE = "docs/design.md 3, table(version)"
