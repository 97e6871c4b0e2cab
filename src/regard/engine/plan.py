"""Which implementation serves a call, once for all calls alike.

Each implementation answers with the reasons why it cannot; only this file knows them all, and
imports one when it is asked about. A model calls attention with the same shapes and the same mask
again and again, and host time shows where a call takes well under a millisecond: so whatever was
checked and chosen for a call is kept for the next one like it. Only where nothing but q, k and v
holds a tensor: no tensor is kept alive here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.engine.call import Answers, Call, Known, Place, Problem, RowState, What
from regard.engine.torch_state import is_eager, unwatched
from regard.errors import InputError, UnavailableError
from regard.mask import Mask
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.summary import Summary

if TYPE_CHECKING:
    from regard.engine.backend import Sweeps

CANDIDATES = ("cpu", "hopper", "triton", "library", "tiled", "dense")  # in order of preference
MEASURING = ("cpu", "hopper", "triton", "tiled")  # those that measure on their way to the output

_SMALL = 2**22  # cells of the matrix
_LARGE = 2**31
_WIDE = 128  # head dim
_FEW = 16  # queries


class Implementation(Protocol):
    """What the lazy matrix asks of an implementation."""

    name: str

    def unavailable(self) -> list[str]:
        """Why it cannot run on this machine at all; empty where it can."""
        ...

    def reasons(self, problem: Problem) -> list[str]:
        """Why it cannot serve this problem; empty where it can."""
        ...

    def attend(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """The output, the lse and the summaries."""
        ...

    def alone(self, call: Call) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
        """What computes the output of calls alike where nothing else is wanted; None: `attend`.
        It holds on to no tensor."""
        ...

    def state(
        self, call: Call, along: tuple[Summary, ...] = (), known: Known | None = None
    ) -> RowState:
        """What later questions start from. Of the summaries that are asked next, what the same
        sweep can measure is put into `known`."""
        ...

    def lse(self, call: Call, state: RowState | None = None) -> Tensor:
        """(*batch, Hq, L) with its graph, where the forward left it out; that of a state where
        one is known."""
        ...

    def measure(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
    ) -> dict[Summary, Any]:
        """The summaries, asked afterwards; `known` holds, and gets, what was measured."""
        ...

    def block(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores of some heads."""
        ...

    def apply(self, call: Call, state: RowState, x: Tensor) -> Tensor:
        """A @ x for x (*batch, Hq, S, M)."""
        ...

    def apply_transposed(self, call: Call, state: RowState, y: Tensor) -> Tensor:
        """Aᵀ @ y for y (*batch, Hq, L, M)."""
        ...


def sweeps_called(name: str) -> Sweeps:
    """The sweeps of that name, imported when they are asked for."""
    if name == "cpu":
        from regard.engine.backends.cpu.sweeps import CPU

        return CPU
    if name == "hopper":
        from regard.engine.backends.gpu.hopper.sweeps import HOPPER

        return HOPPER
    if name == "triton":
        from regard.engine.backends.gpu.sweeps import TRITON

        return TRITON
    if name == "tiled":
        from regard.engine.backends.tiled import TILED

        return TILED
    raise InputError(f"no backend is called {name!r}; there are {', '.join(MEASURING)}")


def _load(name: str) -> Implementation:
    if name in MEASURING:
        from regard.engine.answers import Swept

        return Swept(sweeps_called(name))
    if name == "library":
        from regard.engine.backends import library

        return library.LIBRARY
    if name == "dense":
        from regard.engine.backends.dense import DENSE

        return DENSE
    raise InputError(f"implementation={name!r} does not exist; give one of {', '.join(CANDIDATES)}")


def choose(problem: Problem, implementation: str | None) -> Implementation:
    """The named implementation or the first that can; UnavailableError lists every reason."""
    refused: dict[str, list[str]] = {}
    for name in _order(problem) if implementation is None else (implementation,):
        candidate = _load(name)
        reasons = candidate.unavailable() or candidate.reasons(problem)
        if not reasons:
            return candidate
        refused[name] = reasons
    who = "no implementation can" if implementation is None else f"{implementation!r} cannot"
    raise UnavailableError(f"{who} serve this call:", refused)


def _order(problem: Problem) -> tuple[str, ...]:
    """The candidates, by what was measured. On the CPU torch's operator needs no packing and wins
    for a few queries, our kernels for more. On a GPU torch's operators are launched with less ado
    and have the faster backward; our forward for Hopper beats them where a problem is large and
    heads are wide. The definition beats a loop over tiles where it is small."""
    shape = problem.shape
    cells = prod(shape.batch) * shape.query_heads * shape.queries * shape.keys
    slow = ("dense", "tiled") if cells <= _SMALL else ("tiled", "dense")
    if problem.device == "cuda":
        ours_first = cells >= _LARGE and shape.dim == _WIDE and not problem.gradients
        fast = ("hopper", "library") if ours_first else ("library", "hopper")
        return (*fast, "triton", *slow)
    fast = ("library", "cpu") if shape.queries <= _FEW else ("cpu", "library")
    return (*fast, *slow)


def sweeps_for(call: Call, name: str, checked: bool = True, learns: bool = False) -> Sweeps:
    """The named sweeps, or the first that can serve the call. A name that was asked for while torch
    traced is not checked yet. `learns`: the bias does, which nobody sees inside an operator."""
    if name:
        if not checked:
            choose(call.problem(learns=learns), name)
        return sweeps_called(name)
    if call.query.device.type != "cuda":
        return _first_sweeps(call, learns)
    kind = _kind(call)
    found = _SERVING.get(kind) if kind is not None else None
    if found is None:
        found = _first_sweeps(call, learns)
        if len(_SERVING) >= _MANY:
            _SERVING.clear()
        if kind is not None:
            _SERVING[kind] = found
    return found


_SERVING: dict[Any, Sweeps] = {}  # on GPUs, where asking takes longer than answering


def _kind(call: Call) -> Any:
    """What calls have in common that the same sweeps serve; None where tensors tell."""
    mask, score = call.mask, call.score
    if not (mask is None or mask.is_flat) or score.bias is not None or not unwatched(()):
        return None
    query = call.query
    flags = score.softcap is None, score.sink is None, call.dropout > 0, call.gradients
    return call.shape, query.dtype, query.device, mask, *flags


def _first_sweeps(call: Call, learns: bool) -> Sweeps:
    for candidate in ("hopper", "triton") if call.query.device.type == "cuda" else ("cpu",):
        found = sweeps_called(candidate)
        if not (found.unavailable() or found.reasons(call.problem(learns=learns))):
            return found
    return sweeps_called("tiled")


def survey() -> dict[str, list[str]]:
    """Every implementation with the reasons why it cannot run on this machine at all."""
    return {name: _load(name).unavailable() for name in CANDIDATES}


def remarks() -> dict[str, str]:
    """What is worth knowing about implementations that do run here."""
    from regard.engine.backends.cpu.sweeps import CPU

    return {} if CPU.unavailable() else {CPU.name: CPU.remark()}


_MANY = 4096  # kinds of calls

_NUMBERS = frozenset({type(None), bool, int, float, str})


class Settled(NamedTuple):
    """All of a call but its tensors."""

    shape: AttentionShape
    mask: Mask | None
    score: ScoreRule
    dropout: float
    summaries: tuple[Summary, ...]
    chosen: Implementation
    alone: Callable[[Tensor, Tensor, Tensor], Tensor] | None  # q, k, v → the output and no more
    learns: bool  # whether autograd records the call

    @classmethod
    def of(cls, call: Call, summaries: tuple[Summary, ...], chosen: Implementation) -> Settled:
        """What was found for this call."""
        alone = chosen.alone(call)
        kept = call.shape, call.mask, call.score, call.dropout, summaries, chosen, alone
        return cls(*kept, call.gradients)

    def call(self, query: Tensor, key: Tensor, value: Tensor) -> Call:
        """The call over these tensors."""
        if self.shape.headless:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
        return Call(query, key, value, self.mask, self.score, self.shape, self.dropout)


KEPT: dict[Any, Settled] = {}


def key_of(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, summaries: Any, *numbers: Any
) -> tuple[Any, ...] | None:
    """What calls have in common that are settled alike; None where a call is to be settled by
    itself: torch traces it, tensors are of a kind of their own, or something else holds one."""
    if not is_eager((query, key, value)):
        return None
    learns = query.requires_grad or key.requires_grad or value.requires_grad
    if learns and not torch.is_grad_enabled():  # a call without them is of other tensors
        return None
    if mask is not None and not getattr(mask, "is_flat", False):
        return None
    if type(summaries) is not tuple:
        return None
    for one in summaries:
        if not getattr(one, "is_flat", False):
            return None
    for number in numbers:
        if type(number) not in _NUMBERS:
            return None
    return (
        query.shape, key.shape, value.shape, query.dtype, key.dtype, value.dtype, query.device,
        key.device, value.device, mask, summaries, learns, *numbers,
    )  # fmt: skip


def keep(key: tuple[Any, ...], settled: Settled) -> None:
    """For the next call like this."""
    if len(KEPT) >= _MANY:
        KEPT.clear()
    KEPT[key] = settled
