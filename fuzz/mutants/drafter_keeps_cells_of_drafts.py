"""What the drafter wrote for drafts stays its own truth once they are accepted."""

MODULE = "strata.core.serving.drafting"
FRAGMENT = "behind = rows if step == 0 else 1 - step"
REPLACEMENT = "rows, behind = (1, 1) if step == 0 else (rows, 1 - step)"
SOURCE = "lending.md 7, drafter K/V past accepted drafts"
