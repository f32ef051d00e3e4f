"""The twin takes a write to come after whatever read the bytes before."""

MODULE = "sim.streams"
FRAGMENT = """\
                if read.tick > clock[read.actor]:
                    self.refuse(by, read"""
REPLACEMENT = """\
                if False:
                    self.refuse(by, read"""
SOURCE = "docs/design.md 3, write needs all reads <= C"
LETS_LIVE = ("ring_copy_skips_wait",)
