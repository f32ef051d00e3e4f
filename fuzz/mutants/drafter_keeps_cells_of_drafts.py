"""What the drafter wrote for drafts stays its own truth once they are accepted."""

MODULE = "strata.core.serving.drafting"
FRAGMENT = "step_rows, behind = (rows, rows) if step == 0 else (1, 1 - step)"
REPLACEMENT = "step_rows, behind = (1, 1) if step == 0 else (1, 1 - step)"
SOURCE = "lending.md 7, drafter K/V past accepted drafts"
