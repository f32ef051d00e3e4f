"""The table gives every layer the slots of layer 0."""

MODULE = "strata.core.serving.table"
FRAGMENT = "words[(layer - layers.start) * num_experts + expert]"
REPLACEMENT = "words[expert]"
SOURCE = "lending.md 2, address table"
