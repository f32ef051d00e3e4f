"""What a start captures: windows of every width, drafts behind them, commits, and windows that read. A stage without a
head samples nothing, so it has only the last. And what it reads once.

Windows that must stage blobs run layer by layer; they are captured all the same, since on a card a kernel is compiled
when it is first launched or captured.
"""

from collections.abc import Iterator

from strata.core.commands import Launch
from strata.core.memory.planner import Plan
from strata.core.serving.drafting import draft_graph, draft_launches
from strata.core.serving.launches import Recipe, window_launches
from strata.core.serving.recurrent_state import commit_launches
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.core.serving.short_reads import read_graph, read_launches
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
    for rows in _read_rows(plan):
        yield read_graph(rows), read_launches(recipe, rows=rows, table_version=FIRST_TABLE_VERSION)


def _read_rows(plan: Plan) -> range:
    """How many rows a window that reads may have; none where chunks read all. A stage without a head has no others."""
    reads = plan.options.policy.short_read_tokens > 0 or not plan.inventory.has_head
    return range(1, 1 + (plan.verifier.max_rows if reads else 0))


def touching(plan: Plan) -> list[GenerationRequest]:
    """Requests that share nothing, one for each way to read."""
    greedy = SamplingParams(temperature=0.0)
    short_tokens, most_tokens = plan.options.policy.short_read_tokens, plan.options.context_tokens - 1
    long = GenerationRequest("touch", (0,) * min(max(3, short_tokens + 1), most_tokens), 1, greedy)
    return [GenerationRequest("touch", (1,) * min(3, most_tokens), 1, greedy), long] if short_tokens else [long]
