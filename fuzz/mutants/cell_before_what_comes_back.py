"""A parked conversation comes back behind the end of the live one, whose last cell of the drafter stays."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "is_sure = plan.draft is None or can_rewind(plan.inventory.state_kinds)"
REPLACEMENT = "is_sure = True"
SOURCE = "docs/design.md, decision 130"
