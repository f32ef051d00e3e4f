"""What a start captures: windows of every width, drafts behind them, commits, and windows that read. A stage without a
head samples nothing, so it has only the last."""

from collections.abc import Iterator

from strata.core.commands import Launch
from strata.core.serving.drafting import draft_graph, draft_launches
from strata.core.serving.launches import Recipe, window_launches
from strata.core.serving.recurrent_state import commit_launches
from strata.core.serving.short_reads import read_graph, read_launches, read_rows
from strata.core.serving.startup import FIRST_TABLE_VERSION
from strata.core.serving.windows import commit_graph, window_graph


def start_graphs(recipe: Recipe) -> Iterator[tuple[str, tuple[Launch, ...]]]:
    """Each graph's name and launches, with everything at home and the first table."""
    plan = recipe.plan
    for rows in range(1, 1 + (plan.options.window_rows if plan.inventory.has_head else 0)):
        yield window_graph(rows), window_launches(recipe, rows=rows, table_version=FIRST_TABLE_VERSION)
        if plan.draft is not None:
            yield draft_graph(rows), draft_launches(recipe, rows=rows)
        if committed := commit_launches(recipe, rows=rows):
            yield commit_graph(rows), committed
    for rows in read_rows(plan):
        yield read_graph(rows), read_launches(recipe, rows=rows, table_version=FIRST_TABLE_VERSION)
