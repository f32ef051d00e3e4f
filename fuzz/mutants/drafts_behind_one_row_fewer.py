"""Of the rows that stand the drafter takes in one fewer."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "drafts(self.plan, given, standing_rows=len(token_ids), table_version=version)"
REPLACEMENT = "drafts(self.plan, given, standing_rows=max(1, len(token_ids) - 1), table_version=version)"
SOURCE = "lending.md 4.1, row drafter; docs/design.md, Drafts"
