"""Combine does not declare what the experts left."""

MODULE = "strata.core.serving.launches"
FRAGMENT = """\
            lane.rows_of(buffers.expert_rows, rows),
            lane.rows_of(buffers.router_weights, rows),"""
REPLACEMENT = "            lane.rows_of(buffers.router_weights, rows),"
SOURCE = "docs/design.md 3, every command lists what it reads"
