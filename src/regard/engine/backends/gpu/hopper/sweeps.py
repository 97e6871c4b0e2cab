"""The Triton sweeps with a forward of their own on Hopper GPUs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.launch import interpreting, too_old
from regard.engine.backends.gpu.seen import normal_form
from regard.engine.backends.gpu.sweeps import TritonSweeps
from regard.engine.call import Problem, RowState

if TYPE_CHECKING:
    from regard.engine.backends.gpu.forward import Found
    from regard.engine.backends.gpu.prune import Pruner

DTYPES = (torch.bfloat16, torch.float16)
DIMS = (64, 128)


class HopperSweeps(TritonSweeps):
    """Output and row statistics by the kernel for this GPU; every other sweep is Triton's. So is
    the forward where only the tensors tell that the kernel cannot serve: strides that the copy
    engine does not take, a scale outside (0, 1], rows that see two intervals, a few queries."""

    name = "hopper"

    def unavailable(self) -> list[str]:
        """Why the kernel cannot run here."""
        if find_spec("triton") is None:
            return ["Triton is not installed: pip install 'regard[gpu]'"]
        if interpreting():
            return ["Triton's interpreter runs no Gluon kernel"]
        if not torch.cuda.is_available():
            return ["there is no CUDA GPU here"]
        if lack := too_old():
            return [lack]
        found = torch.cuda.get_device_capability()
        if found[0] != 9:
            return [f"the GPU's compute capability is {found[0]}.{found[1]}; the kernel is for 9.0"]
        from regard.engine.backends.gpu.hopper.gluon import why_not

        lack = why_not()
        return [] if lack is None else [lack]

    def reasons(self, problem: Problem) -> list[str]:
        """What the kernel does not do."""
        shape = problem.shape
        seen = normal_form(problem.mask, shape.extent, problem.device)
        limits = {
            f"the tensors are {problem.dtype}, it takes bfloat16 and float16": (
                problem.dtype not in DTYPES
            ),
            f"head dim {shape.dim} is not 64 or 128": shape.dim not in DIMS,
            f"values of {shape.value_dim} beside a head dim of {shape.dim}: it takes equal ones": (
                shape.value_dim not in (0, shape.dim)
            ),
            f"it knows no bias, and this one is {problem.bias!r}": problem.bias is not None,
            "it has no soft cap": problem.softcap,
            "of masks it knows no Documents": seen.ids,
            "of masks it knows no boolean table": seen.table,
            "of masks it knows no scattered padding": seen.flags,
        }
        return super().reasons(problem) + [said for said, so in limits.items() if so]

    def _forward(
        self,
        bound: Bound,
        output: bool,
        names: set[str],
        given: RowState | None,
        pruner: Pruner | None,
    ) -> Found:
        """By the kernel, where it fits."""
        from regard.engine.backends.gpu.hopper.forward import fits, forward

        moved = bound.rule.places is not None and "away" in names  # it counts from one place
        if moved or not fits(bound, output, pruner):
            return super()._forward(bound, output, names, given, pruner)
        return forward(bound, output, names, given, pruner)


HOPPER = HopperSweeps()
