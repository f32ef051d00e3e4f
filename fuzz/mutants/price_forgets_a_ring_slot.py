"""The loan is priced for one ring slot less than is carved."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=rule,"
REPLACEMENT = "price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=rule - 1,"
SOURCE = "lending.md 5, invariant 11"
