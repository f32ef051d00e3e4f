"""From a decision to a request: which ids a prompt has, and what it shares with what came before."""

from collections.abc import Sequence

from sim.world.decisions import Begin
from sim.world.geometry import VOCAB_SIZE
from strata.core.serving.request import GenerationRequest, SamplingParams

BIAS = 1.5


def request_of(
    decision: Begin, *, context_tokens: int, held: tuple[int, ...], prompts: Sequence[tuple[int, ...]]
) -> GenerationRequest:
    """`held`: ids of the session; `prompts`: earlier ones, newest first. Cut so that prompt and reply fit the context,
    with one fresh id at least where nothing is shared."""
    base = held if decision.base == 0 else ()
    if decision.base and prompts:
        base = prompts[(decision.base - 1) % len(prompts)]
    shared = base[: min(decision.shared, context_tokens - 2)]
    num_fresh = max(1 - len(shared), min(decision.fresh, context_tokens - 1 - len(shared)))
    first = decision.salt * 31 + len(shared)
    ids = (*shared, *[token % VOCAB_SIZE for token in range(first, first + 7 * num_fresh, 7)])
    sampling = SamplingParams(
        seed=decision.salt,
        min_tokens=decision.salt % 3,
        logit_bias=((decision.bias % VOCAB_SIZE, BIAS),) if decision.bias else (),
    )
    return GenerationRequest("r", ids, max(1, min(decision.max_tokens, context_tokens - len(ids))), sampling)
