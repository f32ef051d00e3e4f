"""The card's half of boot: a CUDA body, a packed model in its host memory, and programs over the kernels, joined.

Imported only when a card was asked for: it needs triton and the driver's binding. What decides lies elsewhere; here
one part's values become another's, and the start is refused where the card could not keep what the plan promises.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels.triton.launch_delta import DeltaShape
from kernels.triton.launch_experts import ExpertShape
from strata.core.errors import ConfigError
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.units import GIB
from strata.cuda.card import CardLimits
from strata.cuda.device import CudaDevice
from strata.cuda.lock import LOCK_FOLDER
from strata.cuda.open import MakeViews, open_device
from strata.cuda.programs.build import build_card_programs
from strata.cuda.programs.model import CardDrafter, CardModel, DenseMatrix
from strata.device import Device, DeviceDescription, Programs
from strata.host_memory import available_bytes
from strata.model.card_form import CardBlob, CardForm, card_form
from strata.model.card_work import card_work
from strata.model.packed_reader import PackedReader
from strata.model.program_reads import draft_embedding, draft_head, draft_norm
from strata.model.rope_frequencies import rope_frequencies
from strata.model.spec import Gating, HeadMap, ModelSpec, RecurrentSpec, RopePairing
from strata.planning import PlannedModel, lends

ORDINAL = 0
"""Of the card that serves, among those that CUDA_VISIBLE_DEVICES leaves."""


def open_card(
    planned: PlannedModel,
    *,
    api: Any = None,
    make_views: MakeViews | None = None,
    torch_device: str | None = None,
    lock_folder: Path = LOCK_FOLDER,
    laps: dict[str, float] | None = None,
) -> CudaDevice:
    """A card with the model's weights, packed, in its pinned host memory; nothing is mapped yet. Reads the whole file
    once. `api`, `make_views` and `torch_device` stand in for the driver, torch's views and torch's name of the card.
    Where the plan lends, a lock in `lock_folder` keeps every other process that would off the card. `laps` gets
    seconds: of taking all memory, and of packing the weights.

    Raises ConfigError where there is no such card, or card or host have too little memory."""
    plan, on_card = planned.plan, torch.device(torch_device or f"cuda:{ORDINAL}")
    began_s = time.monotonic()
    _check_host_memory(plan.pack.size_bytes + plan.staging.size_bytes + parked_space_bytes(plan))
    form = card_form(planned.spec)
    device = open_device(
        partial(_programs, card_model(planned, form), on_card),
        arena_bytes=plan.arena_bytes,
        segment_bytes=planned.config.segment_bytes,
        pack_bytes=plan.pack.size_bytes,
        staging_bytes=plan.staging.size_bytes,
        behind_bytes=plan.behind_bytes,
        parked_bytes=parked_space_bytes(plan),
        max_pinned_bytes=plan.pack.pinned_bytes,
        ordinal=ORDINAL,
        lock_folder=lock_folder if lends(plan) else None,
        api=api,
        make_views=make_views,
    )
    with ExitStack() as until_filled:
        until_filled.callback(device.close)
        _check_pinning(device, plan.pack.pinned_bytes)
        taken_s = time.monotonic()
        fill_packed(device, planned, form, packing=on_card)
        if laps is not None:
            laps.update(memory=taken_s - began_s, weights=time.monotonic() - taken_s)
        device.seal()
        until_filled.pop_all()
    return device


def rest_of(device: Device) -> Callable[[], None]:
    """How to wait for a card of `open_card`."""
    assert isinstance(device, CudaDevice), device
    return device.rest


def card_model(planned: PlannedModel, form: CardForm) -> CardModel:
    """What the programs are told. Reads the rope's factors from the file, where it has some."""
    spec, options = planned.spec, planned.plan.options
    work = card_work(spec, context_tokens=options.context_tokens)
    return CardModel(
        hidden_size=spec.hidden_size,
        num_heads=spec.num_heads,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        vocab_size=spec.vocab_size,
        context_tokens=options.context_tokens,
        kv_format=options.kv_format,
        rms_epsilon=spec.rms_epsilon,
        attention_scale=spec.attention_scale,
        is_neox=spec.rope.pairing is RopePairing.NEOX,
        frequencies=rope_frequencies(spec),
        num_experts_used=spec.num_experts_used,
        expert_weights_scale=spec.expert_weights_scale,
        is_sigmoid=spec.gating is Gating.SIGMOID,
        normalizes_expert_weights=spec.normalizes_expert_weights,
        ffn_norm=spec.ffn_norm,
        output_stem=spec.output_name.removesuffix(".weight"),
        dense={
            name: DenseMatrix(matrix.type_id, matrix.rows, matrix.columns, planned.plan.weights[name])
            for name, matrix in form.dense.items()
        },
        recurrent=None if spec.recurrent is None else _delta_shape(spec.recurrent),
        has_attention_gate=spec.has_attention_gate,
        experts=tuple(
            None if blob is None else _expert_shape(spec, blob, num_experts=spec.num_experts_of(layer))
            for layer, blob in enumerate(form.blobs)
        ),
        prompt_work=work.prompt,
        window_work=work.window,
        draft_work=work.draft,
        drafter=None if spec.drafter is None else _drafter(spec),
        asks_windows=bool(planned.plan.staged),
    )


def _drafter(spec: ModelSpec) -> CardDrafter:
    assert spec.drafts_behind_output_norm, "the other choice is for comparisons on the CPU reference"
    return CardDrafter(
        layer=spec.num_layers,
        embedding=draft_embedding(spec),
        norm=draft_norm(spec),
        head_stem=draft_head(spec).removesuffix(".weight"),
    )


def fill_packed(device: CudaDevice, planned: PlannedModel, form: CardForm, *, packing: torch.device) -> None:
    """Every weight from the file, packed on `packing`, to its place in the host master. Raises ConfigError where a card
    has no room for that beside its arena."""
    try:
        _fill_packed(device, planned, form, packing)
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"vram refused: weights are packed on the card, and beside the arena of {planned.plan.arena_bytes:,} B it "
            f"has too little left: {str(error).splitlines()[0]}; lower --vram by a GiB"
        ) from error


def _fill_packed(device: CudaDevice, planned: PlannedModel, form: CardForm, packing: torch.device) -> None:
    pack = planned.plan.pack
    with PackedReader(planned.spec, form, device=packing) as reader:
        for name, home in pack.weights.items():
            reader.read_dense(name, device.host(home))
        for layer, row in enumerate((*pack.blobs, pack.block)):
            if row:
                reader.read_blobs(layer=layer, targets=[device.host(home) for home in row])
    if packing.type == "cuda":
        torch.cuda.empty_cache()  # what packing took of the card is no part of the arena


def _programs(
    model: CardModel, torch_device: torch.device, description: DeviceDescription, limits: CardLimits
) -> Programs:
    return build_card_programs(model, description, limits, device=torch_device)


def _expert_shape(spec: ModelSpec, blob: CardBlob, *, num_experts: int) -> ExpertShape:
    return ExpertShape(
        hidden_size=spec.hidden_size,
        ffn_size=blob.gate.rows,
        num_experts=num_experts,
        num_used=spec.num_experts_used,
        gate_type=blob.gate.type_id,
        up_type=blob.up.type_id,
        down_type=blob.down.type_id,
        gate_start=blob.gate.offset_bytes,
        up_start=blob.up.offset_bytes,
        down_start=blob.down.offset_bytes,
    )


def _delta_shape(recurrent: RecurrentSpec) -> DeltaShape:
    return DeltaShape(
        key_heads=recurrent.num_key_heads,
        heads=recurrent.num_value_heads,
        width=recurrent.head_width,
        taps=recurrent.num_conv_taps,
        is_tiled=recurrent.head_map is HeadMap.TILED,
    )


def _check_pinning(device: CudaDevice, planned_bytes: int) -> None:
    """Windows read missing experts from the pack by address, and a card that follows an address into memory that is not
    pinned is lost: as much must be pinned as was planned."""
    missing_bytes = planned_bytes - device.pinned_pack_bytes
    if missing_bytes > 0:
        pack_line, *_ = device.describe_pinning()
        budget_gib = device.pinned_pack_bytes * 1000 // GIB / 1000
        raise ConfigError(
            f"device=cuda refused: the card reads the weights from pinned host memory, {planned_bytes:,} B of it, of "
            f"which {device.pinned_pack_bytes:,} B could be pinned: {missing_bytes:,} B are missing ({pack_line}); see "
            f"`strata doctor`, or give --resident-budget-gib {budget_gib}: then experts "
            "beyond it are copied to the card before the layer that needs them"
        )


def _check_host_memory(needed_bytes: int) -> None:
    left_bytes = available_bytes()
    if left_bytes is not None and needed_bytes > left_bytes:
        raise ConfigError(
            f"device=cuda refused: weights, staging, parked conversations and checkpoints take {needed_bytes:,} B of "
            f"pinned host memory, {left_bytes:,} B are available; lower --parked-mib or --checkpoint-mib, take a "
            "smaller model or give the host more memory"
        )
