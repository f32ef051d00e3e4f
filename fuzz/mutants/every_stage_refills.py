"""Stages that lent nothing refill all of their slots."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
    acts: tuple[Act, ...] = give_back
"""
REPLACEMENT = """\
    elif plan.inventory.is_part:
        blobs = resident_blobs(plan)
        first += [CopyPair(plan.pack.blobs[s.layer][s.expert], blobs[s.layer, s.expert]) for s in plan.slots]
    acts: tuple[Act, ...] = give_back
"""
SOURCE = "lending.md 7, refilling every participant when one needed more"
