"""The drafter drafts where its last step has no cell any more."""

MODULE = "strata.core.serving.windows"
FRAGMENT = "has_cells = position + plan.options.window_rows - 3 < plan.options.context_tokens"
REPLACEMENT = "has_cells = position + plan.options.window_rows - 6 < plan.options.context_tokens"
SOURCE = "docs/design.md, Drafts"
