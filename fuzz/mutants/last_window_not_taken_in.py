"""Behind the last window of a reply the drafter has no cells."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return orders.then(take_in(self.recipe, position=behind, rows=rows)) if is_taken_in else orders"
REPLACEMENT = "return orders"
SOURCE = "docs/design.md, decision 130"
