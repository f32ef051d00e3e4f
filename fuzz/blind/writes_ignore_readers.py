"""The twin takes a write to come after whatever read the bytes before."""

MODULE = "sim.streams"
FRAGMENT = """\
                if read.tick > clock[read.actor]:
                    refuse_order(by, read"""
REPLACEMENT = """\
                if False:
                    refuse_order(by, read"""
SOURCE = "docs/design.md 3, write needs all reads <= C"
LETS_LIVE = ("ring_copy_skips_wait",)
