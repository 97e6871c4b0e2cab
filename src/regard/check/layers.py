"""The place: what each mixing module measurably sees, and the first module that moves a row whose
inputs stayed.

Modules are called again inside the model's own run, with one row of their input changed: the rows
of the output that move are a column of the module's real mask, whatever computes it.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

from regard.check.batch import GivenBatch
from regard.check.rules import RunPair
from regard.check.runs import EXACT, KeepDouble, Runner, as_double, as_rows, plain, rows_of

_COLUMNS = 16  # of a module's mask, where the text is longer
_FADED = 1e-6  # of the row that moves most: a state that decays, no window
_ROUNDED = 4  # units in the last place that a row of a module's own precision may move by


@dataclass
class MixingLayer:
    """A module that mixes positions: what it sees, as measured and as declared."""

    name: str
    kind: type
    length: int
    sequence: int = 0  # in which it was measured
    columns: dict[int, Tensor] = field(default_factory=dict)  # key → (L,) bool: rows that moved
    within: dict[int, list[int]] = field(default_factory=dict)  # key → its document's positions
    real: list[int] = field(default_factory=list)  # positions without padding
    declared: str = ""
    strength: float = 0.0  # movement of rows that see a key, in the median
    fades: bool = False  # rows further back move less and less, until nothing is left
    unmeasured: str = ""

    @property
    def sees(self) -> str:
        """In words: causal, window 7, all, prefix 3, …"""
        if self.unmeasured:
            return self.unmeasured
        if self.fades:
            return "all, fading" if self.is_two_sided else "causal, fading"
        words = _sight(self.columns, self.within)
        if len({own[0] for own in self.within.values()}) < 2:
            return words
        if "runs" not in words:
            return f"{words} within documents"
        return _sight(self.columns, dict.fromkeys(self.within, self.real)) + " across documents"

    @property
    def reach(self) -> int:
        """How many positions a row sees to one side, itself counted, as far as was measured."""
        return 1 + max((abs(row - key) for row, key in self.cells()), default=0)

    @property
    def room(self) -> int:
        """How many it could see."""
        return 1 + max((own[-1] - key for key, own in self.within.items()), default=0)

    @property
    def is_two_sided(self) -> bool:
        """Whether a row sees a later key."""
        return any(row < key for row, key in self.cells())

    def cells(self) -> list[tuple[int, int]]:
        """(row, key) of all that moved."""
        columns = self.columns.items()
        return [(row, key) for key, rows in columns for row in rows.nonzero().flatten().tolist()]


def _sight(columns: dict[int, Tensor], within: dict[int, list[int]]) -> str:
    """The pattern of a mask of which some columns are known, as its first description that fits."""
    seen = {key: {*x.nonzero().flatten().tolist(), key} for key, x in columns.items()}
    far = max((abs(row - key) for key, rows in seen.items() for row in rows), default=0)
    prefix = 1 + max((key for key, rows in seen.items() if min(rows) < key), default=0)
    chunk = min((max(rows) + 1 for rows in seen.values()), default=1)
    patterns: dict[str, Callable[[int, int], bool]] = {
        "itself": lambda row, key: row == key,
        "all": lambda row, key: True,
        "causal": lambda row, key: row >= key,
        f"window {far + 1}": lambda row, key: 0 <= row - key <= far,
        f"window {far + 1} to both sides": lambda row, key: abs(row - key) <= far,
        f"prefix {prefix}": lambda row, key: row >= key or key < prefix,
        f"chunk {chunk}": lambda row, key: row >= key and row // chunk == key // chunk,
    }
    for words, sees in patterns.items():
        if all(
            {row for row in within[key] if sees(row, key)} == rows for key, rows in seen.items()
        ):
            return words
    ahead = sum(row < key for key, rows in seen.items() for row in rows)
    return f"runs, {ahead} cells of them ahead of the row" if ahead else "causal in runs"


@contextmanager
def _hooked(model: Any, **hooks: Callable[[str], Any]) -> Iterator[None]:
    """Hooks on every named module: before= and after=, made of its name."""
    with ExitStack() as stack:
        for name, module in plain(model).named_modules():
            if name and "before" in hooks:
                before = hooks["before"](name)
                handle = module.register_forward_pre_hook(before, with_kwargs=True)
                stack.callback(handle.remove)
            if name:
                after = hooks["after"](name)
                handle = module.register_forward_hook(after, with_kwargs=True, always_call=True)
                stack.callback(handle.remove)
        yield


class Mixers:
    """Finds the modules of a model that mix positions, and what each sees, while it runs."""

    def __init__(self, runner: Runner, batch: GivenBatch, by_layer: bool) -> None:
        self.runner, self.batch, self.by_layer = runner, batch, by_layer
        self.sequence = int(batch.real.sum(1).argmax())  # in which they are measured
        self.layers: dict[str, MixingLayer] = {}
        self._entered: set[str] = set()
        self._is_busy = False
        self._silent: dict[str, type] = {}

    @property
    def watching(self) -> Any:
        """Within one run of the model each mixing module is called again in its place."""
        return _hooked(self.runner.model, after=self._after)

    def blind(self) -> list[str]:
        """Modules of a class that mixes elsewhere, whose own rows here do not even move."""
        kinds = {layer.kind for layer in self.layers.values()}
        return [name for name, kind in self._silent.items() if kind in kinds]

    def _after(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            if self._is_busy or name in self._entered or _is_plain(module) or output is None:
                return
            self._entered.add(name)
            self._is_busy = True
            try:
                with torch.no_grad():
                    self._measure(name, module, (args, kwargs), output)
            finally:
                self._is_busy = False

        return hook

    def _measure(self, name: str, module: nn.Module, given: Any, output: Any) -> None:
        inside = [layer for path, layer in self.layers.items() if path.startswith(name + ".")]
        if len(inside) > 1:
            return
        call = _Recall(self, module, given, output, self.by_layer and not inside)
        if call.before is None:
            return
        keys = call.keys()
        middle = keys[len(keys) // 2]
        if inside and not call.sees_more(middle, inside[0].columns.get(middle)):
            return  # listed where it sees more than the mixer within
        few = sorted({keys[0], middle, keys[-1]})
        others = [n for n in range(call.shape[1]) if n not in few]
        far, again = call.moved(others), call.moved([])
        if again is not None and bool(again.any()):  # its input was written over, say
            call.before = call.rows([])
            far, again = call.moved(others), call.moved([])
        if far is None or again is None:  # not one to call again
            return
        if not bool(far[few].any()):
            if not bool(far.any()) and not type(module).__module__.startswith("torch."):
                self._silent[name] = type(module)
            return
        layer = MixingLayer(name, type(module), call.shape[1], self.sequence, real=call.real)
        if bool(again.any()):
            layer.unmeasured = "not known: called again, it gives other rows"
            keys = []
        strengths = []
        for key in keys:
            far = call.moved([key])
            if far is None:
                continue
            layer.columns[key], layer.within[key] = far > 0, call.within(key)
            ahead, behind = far[:key], far[key + 1 :]
            for seen in (ahead[ahead > 0], behind[behind > 0]):
                if len(seen):
                    layer.fades |= float(seen.min()) < _FADED * float(seen.max())
                    strengths.append(float(seen.median()))
        layer.strength = sorted(strengths)[len(strengths) // 2] if strengths else 0.0
        self.layers[name] = layer


def _is_plain(module: nn.Module) -> bool:
    """A layer of torch that treats every row by itself."""
    is_torch = type(module).__module__.startswith("torch.nn.modules")
    mixes = (nn.modules.conv._ConvNd, nn.RNNBase, nn.MultiheadAttention)
    return is_torch and not any(module.children()) and not isinstance(module, mixes)


class _Recall:
    """One call of a module: the rows it was given, and those that it gives for other ones."""

    def __init__(
        self, mixers: Mixers, module: nn.Module, given: Any, output: Any, in_double: bool
    ) -> None:
        self.mixers, self.module, self.given = mixers, module, given
        self.exact = mixers.runner.exact
        if in_double:  # on a copy of its own
            self.module, self.exact = copy.deepcopy(module, {id(mixers): mixers}).double(), True
            self.given = tree_map(as_double, given)
        shapes = [(x, _shape_of(x, mixers.batch)) for x in tree_flatten(self.given)[0]]
        known = [(x, shape) for x, shape in shapes if shape]
        known.sort(key=lambda each: tuple(each[0].shape[:2]) not in (each[1], each[1][::-1]))
        self.x: Any = known[0][0] if known else None
        self.shape = known[0][1] if known else (0, 0)
        self.before: Tensor | None = None
        if self.x is not None:
            self.before = self.rows([]) if in_double else self._of_sequence(output)

    @property
    def real(self) -> list[int]:
        """Positions that are no padding."""
        batch = self.mixers.batch
        is_row = self.shape == batch.shape
        real = batch.real[self.mixers.sequence] if is_row else torch.ones(self.shape[1])
        places: list[int] = real.nonzero().flatten().tolist()
        return places

    def keys(self) -> list[int]:
        """Positions that are changed one at a time: spread, and the first few as they come."""
        places, is_text = self.real, self.shape == self.mixers.batch.shape
        if len(places) <= (2 * _COLUMNS if is_text else _COLUMNS // 2):
            return places
        step = (len(places) - 1) / (_COLUMNS - 5)
        spread = {round(n * step) for n in range(_COLUMNS - 4)}
        return [places[n] for n in sorted({*spread, 1, 2, 3, len(places) - 2})]

    def within(self, key: int) -> list[int]:
        """Positions of the document of one."""
        documents = self.mixers.batch.documents
        if documents is None or self.shape != self.mixers.batch.shape:
            return self.real
        ids = documents[self.mixers.sequence]
        return [row for row in self.real if ids[row] == ids[key]]

    def rows(self, places: list[int]) -> Tensor | None:
        """(L, F) of the output for one sequence, where these rows of it hold something else."""
        x, s = self.x.contiguous().clone(), self.mixers.sequence
        if places:
            view = as_rows(x, *self.shape)
            assert view is not None and view.data_ptr() == x.data_ptr()
            dice = torch.Generator().manual_seed(len(places))
            noise = torch.randn((len(places), view.shape[-1]), generator=dice, dtype=torch.float64)
            view[s, places] += (noise * 3 * (float(view[s].double().std()) or 1.0)).to(view)

        def other(y: Any) -> Any:
            if "cache" in type(y).__name__.lower():
                return None  # it would be appended to once more
            return x if _is_same(y, self.x) else y

        args, kwargs = tree_map(other, self.given, is_leaf=lambda y: "Cache" in type(y).__name__)
        self.mixers.runner.restore()
        with KeepDouble() if self.exact else nullcontext():
            try:
                output = self.module(*args, **kwargs)
            except Exception:  # noqa: BLE001 - another package's, outside its model's flow
                return None
        return self._of_sequence(output)

    def _of_sequence(self, output: Any) -> Tensor | None:
        rows = rows_of(output, *self.shape)[0]
        return None if rows is None or rows.shape[1] < 2 else rows[self.mixers.sequence]

    def moved(self, places: list[int]) -> Tensor | None:
        """(L,) how far the rows of the output move in shares of the largest; 0 within rounding, and
        at padding, whose rows nothing reads."""
        after, before, batch = self.rows(places), self.before, self.mixers.batch
        if before is None or after is None or after.shape != before.shape:
            return None
        far = (after.double() - before.double()).abs().amax(-1)
        far = far / (float(before.double().abs().max()) or 1.0)
        if self.shape == batch.shape:
            far = torch.where(batch.real[self.mixers.sequence].to(far.device), far, 0.0)
        least = EXACT if self.exact else _ROUNDED * torch.finfo(before.dtype).eps
        return torch.where(far > least, far, 0.0).cpu()

    def sees_more(self, key: int, known: Tensor | None) -> bool:
        """Whether other rows move with a position than those that are known to."""
        far = self.moved([key])
        if far is None or known is None or len(far) != len(known):
            return False
        more = (far > 0) & ~known
        more[key] = False
        return bool(more.any())


def _is_same(x: Any, y: Tensor) -> bool:
    """Queries, keys and values may be one tensor, or equal ones."""
    is_like = isinstance(x, Tensor) and x.shape == y.shape and x.dtype == y.dtype
    return is_like and (x is y or torch.equal(x, y))


def _shape_of(x: Any, batch: GivenBatch) -> tuple[int, int] | None:
    """(B, L) of a tensor of rows: the batch's positions, or others such as patches of a picture."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return None
    count, length = batch.shape
    if length == 1:
        return (count, x.shape[1]) if x.ndim == 3 and len(x) == count and x.shape[1] > 1 else None
    if x.ndim < 3:
        return (count, length) if x.ndim == 2 and len(x) == count * length else None
    wanted = {
        (count, length, x.shape[-1]),
        (length, count, x.shape[-1]),
        (count, x.shape[1], length),
    }
    return (count, length) if x.ndim == 3 and tuple(x.shape) in wanted else None


def first_moved(runner: Runner, trial: RunPair) -> str:
    """The first module whose rows move though its inputs do not; "" where there is none."""
    before, after = (_seen(runner, trial, n) for n in (0, 1))
    for at, (inputs, outputs) in after.items():
        if at in before and not _differ(before[at][0], inputs, trial, runner.exact):
            if _differ(before[at][1], outputs, trial, runner.exact):
                return at[0]
    return ""


def _seen(runner: Runner, trial: RunPair, n: int) -> dict[tuple[str, int], Any]:
    """(inputs, outputs) of every module in one run of a trial, by name and how many times it was
    called, in the order in which they return: of each tensor the rows that must not move; of inputs
    without rows, such as masks, everything where both runs have the same shapes, else None."""
    run, still = trial.runs[n], trial.still[n]
    still = still[:, -run.sizes[-1] :] if run.sizes else still
    seen: dict[tuple[str, int], Any] = {}
    calls: Counter[str] = Counter()
    entered: list[list[Tensor | None]] = []

    def kept(given: Any, others: bool) -> list[Tensor | None]:
        some: list[Tensor | None] = []
        for x in tree_flatten(given)[0]:
            if not isinstance(x, Tensor) or not x.ndim:
                continue
            if run.batch.is_turned and x.shape[:2] == (still.shape[1], len(still)):
                x = x.transpose(0, 1)
            if x.shape[:2] == (1, still.shape[1]):  # of all sequences, as cosines of positions
                x = x.expand(len(still), *x.shape[1:])
            rows = as_rows(x.detach(), *still.shape)
            some.append(rows[still] if rows is not None else x.detach().clone() if others else None)
        return some

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        entered.append(kept((args, kwargs), trial.keeps_shape))

    def leave(name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            calls[name] += 1
            seen[name, calls[name]] = entered.pop(), kept(output, False)

        return hook

    runner.rows(run, _hooked(runner.model, before=lambda _: enter, after=leave))
    return seen


def _differ(before: Sequence[Any], after: Sequence[Any], trial: RunPair, exact: bool) -> bool:
    """Runs of different shapes are compared by what has the same rows in both."""
    for x, y in zip(before, after, strict=False):
        if x is None or y is None or x.shape != y.shape:
            if trial.keeps_shape and (x is not None or y is not None):
                return True
            continue
        scale = float(x.double().abs().nan_to_num(0.0, 0.0, 0.0).max()) if x.numel() else 0.0
        far = (x.double() - y.double()).abs().nan_to_num(0.0)
        least = EXACT if exact else 0.0
        if not exact and not trial.keeps_shape and x.is_floating_point():
            least = 4 * torch.finfo(x.dtype).eps  # sums over other parts
        if bool((far > scale * least).any()):
            return True
    return False
