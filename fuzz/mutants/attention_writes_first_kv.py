"""Attention of every layer is given the K/V of layer 0."""

MODULE = "strata.core.serving.launches"
FRAGMENT = """\
    kv = Access(recipe.plan.kv[layer], "kv")
"""
REPLACEMENT = """\
    kv = Access(recipe.plan.kv[0], "kv")
"""
SOURCE = "lending.md 5, invariant 44"
