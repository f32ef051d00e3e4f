"""Experts take whatever lies at their address."""

MODULE = "sim.world.programs"
FRAGMENT = "            if bytes(memory.view(addresses[expert], len(blob))) != blob:"
REPLACEMENT = "            if False:"
SOURCE = "lending.md 5, invariant 3"
LETS_LIVE = ("addresses_point_into_pack",)
