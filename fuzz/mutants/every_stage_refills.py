"""Stages that lent nothing refill all of their slots."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
    acts: tuple[Act, ...] = give_back
"""
REPLACEMENT = """\
    elif plan.staging.window_rows.size_bytes:
        first += blobs_home(plan, at.cache.slots)
    acts: tuple[Act, ...] = give_back
"""
SOURCE = "lending.md 7, refilling every participant when one needed more"
