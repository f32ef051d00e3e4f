"""What programs read that never changes, put onto the card once, before anything is served: some kilobytes of torch's
memory beside the arena. A captured graph keeps their addresses, so they live as long as the programs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.triton.packing import grid_table
from strata.cuda.programs.model import CardModel

CELL_WORDS = 32  # of 8 bytes: every address that a kernel is given starts on the 256-byte grid


@dataclass(frozen=True, slots=True)
class Constants:
    """grids: uint32, `packing.grid_table`; frequencies: f64 [pairs]; addresses[name]: int64 [1], where W lies."""

    grids: Tensor
    frequencies: Tensor
    addresses: dict[str, Tensor]


def put_constants(model: CardModel, *, arena_address: int, device: torch.device) -> Constants:
    cells = torch.zeros(len(model.dense), CELL_WORDS, dtype=torch.int64)
    cells[:, 0] = torch.tensor([arena_address + matrix.home.offset_bytes for matrix in model.dense.values()])
    on_card = cells.to(device)
    return Constants(
        grids=torch.from_numpy(grid_table().view("int32")).to(device).view(torch.uint32),
        frequencies=torch.tensor(model.frequencies, dtype=torch.float64).to(device),
        addresses={name: on_card[index, :1] for index, name in enumerate(model.dense)},
    )
