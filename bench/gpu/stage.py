"""Where contenders run: how long a call takes there, and how much memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from regard.errors import UnavailableError

_Run = Callable[[], object]


class Stage(Protocol):
    """What a race asks of a machine."""

    name: str
    device: str
    backends: dict[str, SDPBackend]  # torch's own kernels by the names of contenders

    def seconds(self, run: _Run, calls: int) -> float:
        """Of one call, taken over several in a row."""
        ...

    def captured(self, run: _Run) -> _Run:
        """The same call without its host's part, as a graph that is replayed."""
        ...

    def peak(self, run: Callable[[], Sequence[Tensor]]) -> int | None:
        """Bytes at the worst moment of a call, beyond what was there before and the tensors it
        returns; None where nobody counts them."""
        ...

    def free(self) -> int:
        """Bytes that a contender may take."""
        ...


class Cuda:
    """The GPU, by its own events: host work that is done ahead costs nothing."""

    device = "cuda"
    backends = {  # noqa: RUF012 - never changed
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
    }

    def __init__(self) -> None:
        self.name = torch.cuda.get_device_name()

    def seconds(self, run: _Run, calls: int) -> float:
        """Several calls in a row, as a model makes them. One more goes ahead of the clock: the GPU
        then has something to do while the host prepares the next, as it has in a model."""
        start, end = _event(), _event()
        run()
        start.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3 / calls

    def captured(self, run: _Run) -> _Run:
        """A CUDA graph, which keeps what the call returned."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            written = run()

        def replay() -> object:
            graph.replay()
            return written

        return replay

    def peak(self, run: Callable[[], Sequence[Tensor]]) -> int:
        """By torch's own count, which workspaces of libraries are part of."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        returned = run()
        torch.cuda.synchronize()
        held = sum(tensor.nbytes for tensor in returned)
        return torch.cuda.max_memory_allocated() - before - held

    def free(self) -> int:
        """What is free on the GPU once torch has handed back what it only keeps."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]


def cuda() -> Cuda:
    """The GPU, or one line that says what is needed."""
    if not torch.cuda.is_available():
        raise UnavailableError(
            "`python -m bench gpu` needs an NVIDIA GPU (compute capability 8.0 or newer) and a "
            f"torch built for CUDA; this is torch {torch.__version__} and it finds none"
        )
    return Cuda()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
