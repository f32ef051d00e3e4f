"""The room takes its first ring slot for the next one."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "first_slot=read.num_rule_slots)"
REPLACEMENT = "first_slot=read.num_rule_slots + 1)"
SOURCE = "lending.md 3.1, slot i lies at block_base + (i - rule) * stride"
