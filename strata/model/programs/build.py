"""The programs of `strata.core.programs` for one model, on the CPU reference.

Decides nothing: what is launched, on which extents and when, is the core's business. What a program may read beside
its buffers is in `strata.model.program_reads`.
"""

from collections.abc import Mapping

from kernels.reference.scratch import Scratch
from strata.core.extent import Extent
from strata.core.kv import KvFormat
from strata.core.programs import (
    ATTENTION,
    COMBINE,
    COMMIT,
    DRAFT_HEAD,
    DRAFT_INPUT,
    DRAFT_KV,
    EMBED,
    EXPERTS,
    FFN,
    HEAD,
    RECURRENT,
    ROUTER,
    SAMPLE,
    SHARED,
)
from strata.device import Program, Programs
from strata.model.programs.drafting import DraftPrograms
from strata.model.programs.feed_forward import FeedForwardPrograms
from strata.model.programs.layers import LayerPrograms
from strata.model.programs.recurrent import RecurrentPrograms
from strata.model.programs.weights import DenseWeights
from strata.model.programs.window import WindowPrograms
from strata.model.spec import ModelSpec


def build_programs(
    spec: ModelSpec,
    dense: Mapping[str, Extent],
    *,
    kv_format: KvFormat,
    context_tokens: int,
    arena_address: int,
    arena_bytes: int,
    scratch: Scratch | None = None,
) -> Programs:
    """`dense`: where the bytes of each tensor of `spec.dense` lie in the arena. `context_tokens`: positions that a
    layer's K/V extent is laid out for. `arena_address`, `arena_bytes`: an expert read there counts as a hit.

    The programs share one `scratch`, so one device runs them, one at a time."""
    scratch = Scratch() if scratch is None else scratch
    weights = DenseWeights(spec, dense, scratch)
    layers = LayerPrograms(spec, weights, scratch, kv_format, context_tokens, arena_address, arena_bytes)
    feed_forward = FeedForwardPrograms(spec, weights, scratch)
    window = WindowPrograms(spec, weights, scratch)
    programs: dict[str, Program] = {
        EMBED: layers.embed,
        ATTENTION: layers.attention,
        ROUTER: layers.router,
        EXPERTS: layers.experts,
        COMBINE: layers.combine,
        FFN: feed_forward.ffn,
        SHARED: feed_forward.shared,
        HEAD: window.head,
        SAMPLE: window.sample,
    }
    if spec.drafter is not None:
        drafting = DraftPrograms(spec, weights, scratch)
        programs[DRAFT_INPUT] = drafting.draft_input
        programs[DRAFT_KV] = layers.draft_kv
        programs[DRAFT_HEAD] = drafting.draft_head
    if spec.recurrent is not None:
        recurrent = RecurrentPrograms(spec, spec.recurrent, weights, scratch)
        programs |= {RECURRENT: recurrent.recurrent, COMMIT: recurrent.commit}
    return programs
