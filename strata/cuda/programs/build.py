"""The programs of `strata.core.programs` for one model on a card, over `kernels/triton`. Decides nothing: what is
launched, on which extents and when, is the core's business."""

import torch

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
from strata.cuda.card import CardLimits
from strata.cuda.programs.constants import put_constants
from strata.cuda.programs.drafting import DraftPrograms
from strata.cuda.programs.layers import LayerPrograms
from strata.cuda.programs.mixture import MixturePrograms
from strata.cuda.programs.model import CardModel
from strata.cuda.programs.recurrent import RecurrentPrograms
from strata.cuda.programs.weights import DenseWeights
from strata.cuda.programs.window import WindowPrograms
from strata.device import DeviceDescription, Program, Programs


def build_card_programs(
    model: CardModel, description: DeviceDescription, limits: CardLimits, *, device: torch.device
) -> Programs:
    """Puts the constants onto `device`, torch's name of the card, before it returns."""
    constants = put_constants(model, arena_address=description.arena_address, device=device)
    weights = DenseWeights(model, constants, limits)
    layers, window = LayerPrograms(model, weights), WindowPrograms(model, weights)
    mixture = MixturePrograms(model, weights, description.arena_address, description.range_bytes)
    programs: dict[str, Program] = {
        EMBED: layers.embed,
        ATTENTION: layers.attention,
        FFN: layers.ffn,
        ROUTER: mixture.router,
        SHARED: mixture.shared,
        EXPERTS: mixture.experts,
        COMBINE: mixture.combine,
        HEAD: window.head,
        SAMPLE: window.sample,
    }
    if model.drafter is not None:
        drafting = DraftPrograms(model, model.drafter, weights)
        programs[DRAFT_INPUT], programs[DRAFT_HEAD] = drafting.draft_input, drafting.draft_head
        programs[DRAFT_KV] = layers.draft_kv
    if model.recurrent is not None:
        recurrent = RecurrentPrograms(model, model.recurrent, weights)
        programs |= {RECURRENT: recurrent.recurrent, COMMIT: recurrent.commit}
    return programs
