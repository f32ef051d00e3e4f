"""A table may be published before the blobs that it names are there."""

MODULE = "sim.world.card"
FRAGMENT = """\
        if command.publishes is not None:
            check_published"""
REPLACEMENT = """\
        if False:
            check_published"""
SOURCE = "lending.md 4.1, table upload after refill"
LETS_LIVE = ("table_before_refill",)
