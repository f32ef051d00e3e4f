"""What `plan` and `inspect` say of a drafter, as text and as numbers. Knows sizes only."""

from strata.core.inventory import DrafterInventory
from strata.sizes import format_bytes


def drafter_line(drafter: DrafterInventory, *, num_experts_used: int) -> str:
    """The block, what of it a draft reads, and whose head it uses."""
    if drafter.block_bytes:
        block = (
            f"block of {drafter.num_experts} experts x {drafter.blob_bytes:,} B = {format_bytes(drafter.block_bytes)}, "
            f"{format_bytes(token_bytes(drafter, num_experts_used=num_experts_used))} a token"
        )
    else:
        block = "no block (a dense FFN)"
    head_bytes = sum(item.size_bytes for item in drafter.heads)
    head = f"draft head of its own, {format_bytes(head_bytes)}" if head_bytes else "the model's output head"
    return f"{block}; {format_bytes(weight_bytes(drafter))} of weights; {head}"


def drafter_json(drafter: DrafterInventory | None, *, num_experts_used: int) -> dict[str, int] | None:
    """Every number of `drafter_line`."""
    if drafter is None:
        return None
    return {
        "num_experts": drafter.num_experts,
        "blob_bytes": drafter.blob_bytes,
        "block_bytes": drafter.block_bytes,
        "token_bytes": token_bytes(drafter, num_experts_used=num_experts_used),
        "weight_bytes": weight_bytes(drafter),
        "head_bytes": sum(item.size_bytes for item in drafter.heads),
    }


def token_bytes(drafter: DrafterInventory, *, num_experts_used: int) -> int:
    """Bytes of the experts that one drafted token goes through."""
    return min(num_experts_used, drafter.num_experts) * drafter.blob_bytes


def weight_bytes(drafter: DrafterInventory) -> int:
    return sum(item.size_bytes for item in drafter.weights)
