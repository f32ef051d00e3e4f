"""Experts are read through the address row of the chunk before."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "    upload, commands = _upload_addresses(plan, chunk, row, places, wanted)"
REPLACEMENT = """\
    upload, commands = _upload_addresses(plan, chunk, row, places, wanted)
    commands = [] if chunk.start else commands"""
SOURCE = "lending.md 5, invariant 5"
