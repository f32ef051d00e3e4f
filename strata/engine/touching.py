"""What a device is asked before its first request, so that every program of it has run once."""

from strata.core.memory.planner import Plan
from strata.core.serving.request import GenerationRequest, SamplingParams

_GREEDY = SamplingParams(temperature=0.0)


def touching(plan: Plan) -> list[GenerationRequest]:
    """Requests that share nothing, one for each way to read."""
    short_tokens, most_tokens = plan.options.policy.short_read_tokens, plan.options.context_tokens - 1
    long = GenerationRequest("touch", (0,) * min(max(3, short_tokens + 1), most_tokens), 1, _GREEDY)
    return [GenerationRequest("touch", (1,) * min(3, most_tokens), 1, _GREEDY), long] if short_tokens else [long]
