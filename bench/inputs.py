"""Random inputs in the shapes of qwen3moe 30B-A3B. Blobs are random bytes with sane scales: never zeros, never NaN."""

from dataclasses import dataclass

import torch

from kernels.triton.formats import packed_bytes, scales_bytes

LAYERS, EMBED, FFN, EXPERTS, USED = 48, 2048, 768, 128, 8
Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_XS, MXFP4 = 2, 3, 8, 12, 13, 14, 23, 39
IQ2_XS, IQ3_XXS = 17, 18


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """Byte offsets of the three matrices in a blob; gate is at 0."""

    up: int
    down: int
    size: int


def expert_layout(type_id: int) -> ExpertLayout:
    part = packed_bytes(type_id, rows=FFN, columns=EMBED)
    return ExpertLayout(up=part, down=2 * part, size=3 * part)


def random_blobs(layout: ExpertLayout, count: int, device: str, type_id: int) -> torch.Tensor:
    """uint8 [count, layout.size] in packed form."""
    blobs = torch.empty((count, layout.size), dtype=torch.uint8, device=device)
    blobs.view(torch.int64).random_(-(2**63), 2**63 - 1)
    for start, (num_rows, columns) in ((0, (FFN, EMBED)), (layout.up, (FFN, EMBED)), (layout.down, (EMBED, FFN))):
        set_scales(blobs[:, start : start + layout.up], type_id, rows=num_rows, columns=columns)
    return blobs


def set_scales(parts: torch.Tensor, type_id: int, *, rows: int, columns: int) -> None:
    """Write small f16 factors over those of the packed matrices `parts`: uint8 [count, part bytes]."""
    first, size = scales_bytes(type_id, rows=rows, columns=columns)
    scales = parts[:, first : first + size]
    if type_id in (Q4_0, Q8_0):
        scales.view(torch.float16).uniform_(0.001, 0.01)
    elif type_id == Q4_1:
        scales.view(torch.float16).uniform_(-0.01, 0.01)
    elif type_id in (Q4_K, Q5_K):
        scales.view(torch.float16).unflatten(1, (-1, 8))[:, :, :2].uniform_(0.0001, 0.001)
    elif type_id == IQ4_XS:
        scales.view(torch.float16).unflatten(1, (-1, 4))[:, :, 0].uniform_(0.00001, 0.0001)
    elif type_id == MXFP4:
        scales.random_(115, 122)
    elif type_id in (Q6_K, IQ2_XS, IQ3_XXS):
        parts[:, first + size :].view(torch.float16).uniform_(0.00001, 0.0001)


def random_choice(num_rows: int) -> torch.Tensor:
    """int32 [num_rows, USED]: distinct experts for each row."""
    return torch.rand(num_rows, EXPERTS).topk(USED, dim=1).indices.int()
