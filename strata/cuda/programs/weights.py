"""Dense tensors on a card: vectors as they lie, matrices behind their addresses, products with biases."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.triton import launch_dense, launch_rows
from kernels.triton.formats import F32
from kernels.triton.sizes import LINEAR_ADDED, LINEAR_F32, LINEAR_GROUPED, GroupedSize, for_card
from strata.cuda.card import CardLimits
from strata.cuda.programs.constants import Constants
from strata.cuda.programs.model import CardModel, DenseMatrix
from strata.cuda.programs.views import typed
from strata.device import Memory


@dataclass(frozen=True, slots=True)
class DenseWeights:
    model: CardModel
    constants: Constants
    limits: CardLimits

    def has(self, name: str) -> bool:
        return name in self.model.dense

    def vector(self, memory: Memory, name: str) -> Tensor:
        """f32, all its numbers in a row, where they lie; also of a matrix that no product reads."""
        matrix = self.model.dense[name]
        assert matrix.type_id == F32, (name, matrix)
        return typed(memory.read(matrix.home), torch.float32, matrix.rows * matrix.columns)

    def address(self, memory: Memory, name: str) -> tuple[Tensor, DenseMatrix]:
        """int64 [1] for a kernel that follows it, once the launch is known to declare what lies there."""
        matrix = self.model.dense[name]
        memory.read(matrix.home)
        return self.constants.addresses[name], matrix

    def project(
        self,
        memory: Memory,
        x: Tensor,
        stem: str,
        out: Tensor,
        *,
        is_added: bool = False,
        is_exact: bool = False,
    ) -> None:
        """out = x W^T, or += with `is_added`, plus the bias where the model has one. `stem`: a name without `.weight`.

        x: [rows, columns], of a window f32, of a chunk f16, or f32 with `is_exact`: neither x nor W is rounded then.
        out: f32 [rows, W's rows], which may lie apart."""
        addresses, matrix = self.address(memory, f"{stem}.weight")
        assert (x.shape[1], out.shape[1]) == (matrix.columns, matrix.rows), (stem, x.shape, out.shape, matrix)
        where = (x, addresses, self.constants.grids, matrix.type_id, out)
        if x.dtype is torch.float32 and not is_exact:
            launch_dense.linear_window(*where, is_added=is_added)
        else:
            size = self._prompt_size(is_added=is_added, is_exact=is_exact)
            launch_dense.linear_prompt(*where, is_added=is_added, size=size)
        if self.has(f"{stem}.bias"):
            launch_rows.add_bias(out, self.vector(memory, f"{stem}.bias"))

    def _prompt_size(self, *, is_added: bool, is_exact: bool) -> GroupedSize:
        if is_exact:
            return LINEAR_F32
        return for_card(LINEAR_ADDED if is_added else LINEAR_GROUPED, shared_bytes=self.limits.shared_bytes)
