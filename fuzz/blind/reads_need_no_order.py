"""The twin takes a read to come after whatever was written before it."""

MODULE = "sim.streams"
FRAGMENT = """\
            if write is not None and write.tick > clock[write.actor]:
                refuse_order(by, write, side, "reads bytes", "wrote")"""
REPLACEMENT = "            pass"
SOURCE = "docs/design.md 3, read needs last_write <= C"
LETS_LIVE = ("reader_skips_wait",)
