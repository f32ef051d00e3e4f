"""How weights move: matrices by orthogonalized momentum (Muon: Jordan et al. 2024, kellerjordan.github.io/posts/muon),
everything else by AdamW. Experts are matrices each by itself; embedding, head and routers are no such maps.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

MUON_RATE, ADAM_RATE, EMBEDDING_RATE = 0.02, 2e-3, 4e-3
"""Peak rates, scaled by the schedule."""
MOMENTUM = 0.95
DECAY = 0.02
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def is_matrix(name: str, value: Tensor) -> bool:
    ends = ("token_embd.weight", "output.weight", "ffn_gate_inp.weight", "ssm_conv1d.weight", "ssm_beta.weight")
    return value.ndim > 1 and not name.endswith((*ends, "ssm_alpha.weight"))


def is_head_or_embedding(name: str) -> bool:
    return name in ("token_embd.weight", "output.weight")


class Optimizer:
    """Of parameters that live on one device."""

    def __init__(self, weights: Mapping[str, Tensor], *, uses_muon: bool) -> None:
        matrices = {name: each for name, each in weights.items() if uses_muon and is_matrix(name, each)}
        others = {name: each for name, each in weights.items() if name not in matrices}
        ends = [each for name, each in others.items() if is_head_or_embedding(name)]
        rest = [each for name, each in others.items() if not is_head_or_embedding(name)]
        is_fused = next(iter(weights.values())).is_cuda
        groups = [{"params": ends, "lr": 0.0, "peak": EMBEDDING_RATE}, {"params": rest, "lr": 0.0, "peak": ADAM_RATE}]
        self.adam = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=is_fused)
        by_size: dict[tuple[int, ...], list[Tensor]] = {}
        for each in matrices.values():
            by_size.setdefault(tuple(each.shape[-2:]), []).append(each)
        self.groups = list(by_size.values())
        self.momenta = [[torch.zeros_like(each) for each in group] for group in self.groups]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """`rate`: the schedule's share of the peak rates. Gradients are used up."""
        for group in self.adam.param_groups:
            group["lr"] = rate * group["peak"]
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for weights, momenta in zip(self.groups, self.momenta, strict=True):
            self._orthogonal_step(weights, momenta, rate * MUON_RATE)

    def _orthogonal_step(self, weights: list[Tensor], momenta: list[Tensor], rate: float) -> None:
        """All matrices of one size at once."""
        grads = [each.grad for each in weights if each.grad is not None]
        assert len(grads) == len(weights), "a matrix took no part in the loss"
        for each in weights:
            each.grad = None
        torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(grads, momenta, MOMENTUM)
        sizes = [each.shape for each in weights]
        stacked = orthogonalize(torch.cat([each.reshape(-1, *each.shape[-2:]) for each in ahead]))
        counts = [each.numel() // (each.shape[-1] * each.shape[-2]) for each in weights]
        rows, columns = sizes[0][-2:]
        scale = max(1.0, rows / columns) ** 0.5
        for weight, moved in zip(weights, stacked.split(counts), strict=True):
            weight.mul_(1 - rate * DECAY).add_(moved.view(weight.shape).to(weight.dtype), alpha=-rate * scale)

    def state_dict(self) -> dict[str, object]:
        return {"adam": self.adam.state_dict(), "momenta": self.momenta}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        self.adam.load_state_dict(state["adam"])  # type: ignore[arg-type]
        for mine, stored in zip(self.momenta, state["momenta"], strict=True):  # type: ignore[call-overload]
            for each, value in zip(mine, stored, strict=True):
                each.copy_(value)


def orthogonalize(gradient: Tensor, steps: int = 5) -> Tensor:
    """The nearest matrices with singular values around 1, by Newton-Schulz iteration. gradient: [n, rows, columns]."""
    a, b, c = _COEFFICIENTS
    x = gradient.to(torch.bfloat16 if gradient.is_cuda else torch.float32)
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if is_tall else x
