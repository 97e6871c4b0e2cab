"""A stage without a GPU, so that races can be run and looked at here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch import Tensor
from torch.nn.attention import SDPBackend


class Host:
    """The CPU as a stage; the plain formula stands for cuDNN."""

    device = "cpu"
    name = "a processor"

    def __init__(self, free: int = 2**30, peak: int | None = None) -> None:
        self._free, self._peak = free, peak
        self.calls: list[int] = []
        self.backends = {"cudnn": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}

    def seconds(self, run: Callable[[], object], calls: int) -> float:
        self.calls.append(calls)
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls

    def captured(self, run: Callable[[], object]) -> Callable[[], object]:
        return run

    def peak(self, run: Callable[[], Sequence[Tensor]]) -> int | None:
        run()
        return self._peak

    def free(self) -> int:
        return self._free
