"""`strata plan`: the memory map and geometry that `serve` would choose, or the refusal with the missing bytes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from strata.commands.card_map import OwnedBytes, render_map
from strata.commands.drafter_text import drafter_json, drafter_line
from strata.config.values import ServeConfig
from strata.core.errors import Refusal
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import NEVER, LendingPolicy
from strata.core.memory.read_plan import ReadPlan
from strata.core.memory.shapes import kv_layout_of
from strata.core.serving.checkpoints import num_checkpoints, parked_space_bytes
from strata.planning import plan_model
from strata.sizes import format_bytes


def run(config: ServeConfig, *, is_json: bool) -> int:
    """Raises ConfigError with the reasons when there is no such plan."""
    planned = plan_model(config)
    if is_json:
        print(json.dumps(plan_json(planned.plan), indent=2))
    else:
        print("\n".join(plan_lines(planned.plan)))
    return 0


def plan_json(plan: Plan) -> dict[str, Any]:
    """Every number of `plan_lines`, in bytes, tokens and counts. `lent_slots` and `lent_bytes`: of the cache, for the
    longest read."""
    longest = longest_read(plan)
    return {
        "arena_bytes": plan.arena_bytes,
        "used_bytes": plan.end_bytes,
        "context_tokens": plan.options.context_tokens,
        "kv_format": plan.options.kv_format.value,
        "kv_token_bytes": kv_token_bytes(plan),
        "chunk_tokens": plan.prompt.chunk_tokens,
        "ring_slots": len(plan.prompt.ring),
        "ring_stride_bytes": plan.inventory.stride_bytes,
        "cache_slots": len(plan.slots),
        "lent_slots": len(longest.lent),
        "lent_bytes": longest.lent_extent.size_bytes,
        "expert_pairs": plan.inventory.num_pairs,
        "expert_bytes": plan.inventory.expert_bytes,
        "drafter": drafter_json(plan.inventory.drafter, num_experts_used=plan.inventory.num_experts_used),
        "room_slots": len(plan.room),
        "loans": [loan_json(name, read) for name, read in loans_of(plan)],
        "slab_bytes": plan.prompt.slab_bytes,
        "slab_more_cache_slots": _more_slots(plan),
        "pack_bytes": plan.pack.size_bytes,
        "pinned_bytes": plan.pack.pinned_bytes,
        "pageable_bytes": plan.pack.pageable_bytes,
        "pageable_blobs": plan.pack.num_pageable_blobs,
        "staged_blobs": sum(map(len, plan.staged)),
        "staging_slots": len(plan.verifier.staged),
        "staging_bytes": plan.staging.size_bytes,
        "parked_bytes": plan.options.parked_bytes,
        "checkpoints": num_checkpoints(plan),
        "checkpoint_bytes": parked_space_bytes(plan) - plan.options.parked_bytes,
        "regions": [
            {
                "owner": region.name,
                "offset_bytes": region.extent.offset_bytes,
                "size_bytes": region.extent.size_bytes,
            }
            for region in plan.regions
        ],
    }


def longest_read(plan: Plan) -> ReadPlan:
    """With all that it may borrow but the room; `plan.prompt` is its layout."""
    return plan.read(plan.options.context_tokens, has_segments=plan.zone is not None)


def loans_of(plan: Plan) -> list[tuple[str, ReadPlan]]:
    """The longest read, with each loan that is switched on in and out."""
    policy, tokens = plan.options.policy, plan.options.context_tokens
    ways = [("cache slots" if plan.lendable else "none", False)]
    if plan.zone is not None:
        ways.append(("segments", True))
    rows = [(name, plan.read(tokens, has_segments=has_segments)) for name, has_segments in ways]
    if policy.room_min_tokens != NEVER:
        rows += [
            (f"{name} + room", plan.read(tokens, has_segments=has_segments, has_room=True).with_room(plan.room))
            for name, has_segments in ways
            if not _has_block(plan, name)
        ]
    return rows


def _has_block(plan: Plan, name: str) -> bool:
    """The block is away with the segments, so it is no room."""
    return name == "segments" and plan.options.policy.lends_block


def loan_json(name: str, read: ReadPlan) -> dict[str, Any]:
    return {
        "loans": name,
        "chunk_tokens": read.layout.chunk_tokens,
        "ring_slots": len(read.layout.ring),
        "room_slots": len(read.layout.ring) - read.num_rule_slots,
        "lent_slots": len(read.lent),
        "prompt_bytes": read.extent.size_bytes,
    }


def loan_lines(plan: Plan) -> Iterator[str]:
    """Nothing where there is only one way to read."""
    rows = loans_of(plan)
    if len(rows) == 1:
        return
    width = max(len(name) for name, _ in rows)
    for number, (name, read) in enumerate(rows):
        rule, room = read.num_rule_slots, len(read.layout.ring) - read.num_rule_slots
        ring = f"{rule} + {room}" if room else f"{rule}"
        yield (
            f"{'loans' if number == 0 else '':<10}{name:<{width}}  chunk {read.layout.chunk_tokens:,}, ring {ring}, "
            f"{len(read.lent):,} slots lent, {format_bytes(read.extent.size_bytes)} for the prompt"
        )
    if plan.zone is not None:
        parts = ", ".join(f"{part.name} {format_bytes(part.extent.size_bytes)}" for part in plan.zone.parts)
        yield f"          segments: {plan.zone.num_segments} of {format_bytes(plan.zone.segment_bytes)}: {parts}"
        yield f"          segments are lent to {_takers(plan.options.policy)}"


def slab_line(plan: Plan) -> str:
    """What is won where programs of a chunk work in the tail of what it borrows."""
    size, more = format_bytes(plan.prompt.slab_bytes), _more_slots(plan)
    return f"slab      {size} of scratch behind the longest read's ring, {more:,} more cache slots than without"


def _more_slots(plan: Plan) -> int:
    """Cache slots that the same card has beyond those it would have with a region for scratch; 0 without a slab."""
    if not plan.prompt.slab_bytes:
        return 0
    without = plan_card(plan.inventory, plan.arena_bytes, replace(plan.options, has_slab=False))
    return len(plan.slots) - (0 if isinstance(without, Refusal) else len(without.slots))


def _takers(policy: LendingPolicy) -> str:
    """Who reads on lent segments. The server starts with them out, so the first request has them whatever it reads."""
    if policy.repeat_min_tokens == NEVER:
        return "the first request after the start alone; STRATA_PREFILL_REPEAT_LOAN=1 lends them to long ones again"
    return f"the first request after the start, and to those of {policy.repeat_min_tokens:,} fresh tokens and more"


def pinning_lines(plan: Plan) -> Iterator[str]:
    """What is pinned of the weights, and what windows do about the rest."""
    pack = plan.pack
    yield f"          {format_bytes(pack.pinned_bytes)} of it pinned, {format_bytes(pack.pageable_bytes)} pageable"
    if not plan.staged:
        blobs = f"{pack.num_pageable_blobs:,} experts and" if pack.num_pageable_blobs else "no expert,"
        yield f"          not pinned: {blobs} dense weights; all have a place on the card: windows are graphs"
        return
    num_slots, num_staged = len(plan.verifier.staged), sum(map(len, plan.staged))
    yield (
        f"          windows run eagerly by layer: of {num_staged:,} pageable blobs without a slot, those that a layer "
        f"needs are staged into {num_slots:,} slots x {plan.inventory.stride_bytes:,} B"
    )


def kv_token_bytes(plan: Plan) -> int:
    """K and V of one position in all layers that have them."""
    return kv_layout_of(plan.inventory, plan.options).position_bytes * sum(layer.size_bytes > 0 for layer in plan.kv)


def lending_line(plan: Plan) -> str:
    """Where a read gets its bytes from, with all that it may borrow."""
    if plan.lendable is None:
        return "in an arena of their own"
    longest, moved = longest_read(plan), f" and {plan.zone.num_segments} moved segments" if plan.zone else ""
    return f"on {len(longest.lent)} lent slots{moved}, {format_bytes(longest.extent.size_bytes)}, at the longest read"


def plan_lines(plan: Plan) -> list[str]:
    inventory, prompt = plan.inventory, plan.prompt
    rows = [OwnedBytes(region.name, region.extent.offset_bytes, region.extent.size_bytes) for region in plan.regions]
    rows.append(OwnedBytes("", plan.end_bytes, plan.arena_bytes - plan.end_bytes))
    lines = [
        f"card      {format_bytes(plan.arena_bytes)}, of which {format_bytes(plan.end_bytes)} planned",
        f"context   {plan.options.context_tokens:,} tokens, K/V as {plan.options.kv_format}, "
        f"{kv_token_bytes(plan):,} B a token",
        f"prompt    chunks of {prompt.chunk_tokens:,} tokens, ring of {len(prompt.ring)} slots "
        f"x {inventory.stride_bytes:,} B, {lending_line(plan)}",
    ]
    if plan.no_loan:
        lines.append(f"          {plan.no_loan}")
    lines += loan_lines(plan)
    if plan.prompt.slab_bytes:
        lines.append(slab_line(plan))
    if inventory.num_pairs:
        lines.append(
            f"experts   {inventory.num_pairs:,} blobs, {format_bytes(inventory.expert_bytes)}; "
            f"{len(plan.slots):,} resident, {plan.num_missing_pairs:,} read over the link"
        )
    if inventory.drafter is not None:
        lines.append(f"drafter   {drafter_line(inventory.drafter, num_experts_used=inventory.num_experts_used)}")
        lines.append(f"          the block has room for {len(plan.room):,} ring slots")
    lines.append(
        f"host      {format_bytes(plan.pack.size_bytes)} of weights, {format_bytes(plan.staging.size_bytes)} staging, "
        f"{format_bytes(plan.options.parked_bytes)} for parked conversations"
    )
    if plan.pack.pageable_bytes:
        lines += pinning_lines(plan)
    if any(inventory.state_bytes):
        lines.append(
            f"          {num_checkpoints(plan):,} checkpoints of recurrent state, "
            f"{format_bytes(parked_space_bytes(plan) - plan.options.parked_bytes)}"
        )
    return [*lines, "", *render_map(rows)]
