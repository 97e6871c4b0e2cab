"""All calls of one target on the probes."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from regard.learn.programs import probes
from regard.learn.programs.build import Sizes, Weights, build, of_globals, prepared
from regard.learn.programs.entry import Target
from regard.learn.programs.names import role
from regard.learn.programs.observation import Call, Observation
from regard.learn.programs.recipe import Array
from regard.learn.programs.sentences import MEMORY, StoppedError, said
from regard.learn.programs.tracing import traced

_CAUSAL: Final = re.compile(
    r"causal|tril\b|triu\b|autoregress|look.?ahead|subsequent", re.IGNORECASE
)
_BATCH_FIRST: Final = re.compile(
    r"^\s*(b|bs|bsz|n?_?batch\w*)\s*,[\w\s,]*=\s*[\w.]+\.(shape|size\(\))",
    re.IGNORECASE | re.MULTILINE,
)
_LARGE: Final = 80.0  # times an input: scores beyond what exp takes
_KEPT: Final = 1_000_000  # numbers of an output that is still looked at


class Session:
    """All calls of one target."""

    def __init__(self, seen: Observation, target: Target, module: Any, source: str, path: Path):
        self.seen, self.target, self.module, self.path = seen, target, module, path
        self.torch = self._wants_torch(source)
        self.lists = not re.search(r"^\s*(import|from) (torch|numpy|jax)\b", source, re.MULTILINE)
        self.says_batch = bool(_BATCH_FIRST.search(source))
        self.dtypes = [np.float64, np.float32] if self.torch else [np.float64]
        self.dtype: Any = np.float64
        self.thing: Any = None
        self.embed = probes.HEADS * probes.WIDTH
        self.passed: dict[str, Array] = {}  # weights given as arguments
        seen.entry, seen.kind, seen.signature = target.name, target.kind, target.signature
        seen.causal = bool(_CAUSAL.search(_statements(source)))
        seen.dropout = "dropout" in source.lower()

    def _wants_torch(self, source: str) -> bool:
        if self.target.kind == "module":
            return True
        text = _own_source(self.target, source)
        if re.search(r"\b(torch|F)\.|Tensor|nn\.", text):
            return True
        return (
            bool(re.search(r"^\s*(import|from) torch\b", source, re.MULTILINE))
            and "np." not in text
        )

    def run(self) -> None:
        if self.target.kind == "function":
            self._function()
        else:
            self._object()

    # functions

    def _function(self) -> None:
        roles = self.target.roles
        seen = self.seen
        weighted = "w_q" in roles or "w_qkv" in roles
        joined = "w_qkv" in roles or "w_kv" in roles  # taken apart in equal parts
        heads = probes.HEADS if "heads" in roles else 1
        seen.heads, seen.splits = heads, heads > 1
        if self.target.globals:
            held = of_globals(self.module)
            seen.weights, seen.named = held.by_role, held.named
            self.embed = next(iter(held.by_role.values())).shape[0]
            seen.heads = self._heads_of(vars(self.module), 1)
            seen.splits = seen.heads > 1
        if not weighted:
            self._all("q" not in roles)
            return
        every = [one for one in probes.weight_sizes(heads) if not joined or one[1] == one[2]]
        for sizes, turned in itertools.product(every, (False, True)):
            self._weighted(sizes, turned)
            if any(call.outs for call in seen.calls):
                break
        else:
            return
        if heads > 1 and sizes != every[-1]:
            first = replace(seen, calls=list(seen.calls))
            self._weighted(every[-1], turned)
            seen.square = replace(seen, calls=list(seen.calls))
            vars(seen).update(vars(first) | {"square": seen.square})

    def _weighted(self, sizes: tuple[int, int, int], turned: bool) -> None:
        """All calls with weights of these sizes."""
        self.passed = probes.given_weights(self.target.roles, sizes, turned)
        self.embed = sizes[0]
        self.seen.weights = {
            n: (w.T if turned and w.ndim == 2 else w) for n, w in self.passed.items()
        }
        self.seen.calls.clear()
        self._all("q" not in self.target.roles)

    # objects

    def _object(self) -> None:
        errors: list[str] = []
        seen = self.seen
        for embed in self._embeds():
            try:
                self.thing = self._made(embed)
            except BaseException as error:  # noqa: BLE001  reported as the file's problem
                text, _ = said(error, self.path)
                errors.append(text)
                continue
            self._materialise(embed)
            held = prepared(self.thing, self.target.kind)
            self._take(held, embed)
            seen.calls.clear()
            self._all("q" not in self.target.roles or "k" not in self.target.roles)
            if any(call.outs for call in seen.calls):
                self._with_dropout(embed)
                return
        if not seen.calls and errors:
            raise StoppedError(f"building {self.target.name} fails: {errors[0]}")

    def _embeds(self) -> list[int]:
        roles = self.target.build.values()
        width = probes.HEADS * probes.WIDTH
        if "d_out" in roles or ("heads" not in roles and {"head_dim"} & set(roles)):
            return [7, width, probes.WIDTH]
        return [width, 6] if "heads" in roles else [6, width]

    def _made(self, embed: int, dropout: float = 0.0) -> Any:
        thing = build(self.target, Sizes(embed, probes.HEADS, dropout), self.module)
        if self.target.kind == "module":
            thing = thing.eval()
            thing = thing.double() if self.dtype == np.float64 else thing.float()
        return thing

    def _materialise(self, embed: int) -> None:
        """Lazy layers take their sizes from a first call."""
        if self.target.kind != "module":
            return
        if not any("Uninitialized" in type(one).__name__ for one in self.thing.parameters()):
            return
        self.embed = embed
        single = "q" not in self.target.roles or "k" not in self.target.roles
        self.seen.weights = {"w_q": np.zeros((embed, embed))}
        for _, inputs in self._inputs(single):
            self._plain(inputs)
            return

    def _take(self, held: Weights, embed: int) -> None:
        seen = self.seen
        seen.weights, seen.named, seen.free, seen.owned = held.by_role, held.named, held.free, True
        seen.heads = held.per_head or self._heads_of(vars(self.thing), 1)
        if "heads" in self.target.build.values():
            seen.heads = probes.HEADS
        seen.splits = seen.heads > 1
        first = held.by_role.get("w_q", held.by_role.get("w_qkv"))
        self.embed = embed
        if first is not None and "embed" not in self.target.build.values():
            self.embed = first.shape[0]

    def _heads_of(self, held: dict[str, Any], default: int) -> int:
        """By name; else by value: no other size of the probes is the number of heads."""
        counts = {n: v for n, v in held.items() if type(v) is int}
        for name, value in counts.items():
            if role(name) == "heads":
                return value
        kept = any(role(name) == "config" for name in held)
        return probes.HEADS if kept or probes.HEADS in counts.values() else default

    def _with_dropout(self, embed: int) -> None:
        if "dropout" not in self.target.build.values() or self.seen.differs:
            return
        try:
            self.thing = self._made(embed, 0.5)
            call = next(
                one for one in self.seen.calls if one.outs and one.group.startswith("plain")
            )
            first, again = (self._plain(call.inputs) for _ in range(2))
        except BaseException:  # noqa: BLE001  a dropout that is no number
            return
        self.seen.differs = not _same(first, again)

    # calls

    def _all(self, single: bool) -> None:
        """Every group of probes."""
        for dtype in self.dtypes:
            self.dtype = dtype
            if self.target.kind == "module" and self.thing is not None:
                self.thing = self.thing.double() if dtype == np.float64 else self.thing.float()
            self.seen.calls.clear()
            for group, inputs in self._inputs(single):
                self._call(group, inputs)
            if any(call.outs for call in self.seen.calls):
                break
        if not self.seen.tokens_first and self._attends_over_the_first_axis():
            self.seen.tokens_first = True
            self._all(single)
            return
        good = [c for c in self.seen.calls if c.outs and c.group.startswith("plain")]
        if not good:
            return
        roles = self.target.roles
        if "mask" in roles:
            for call in good:
                self._masks(call.inputs)
        if "causal" in roles:
            for call in good:
                self._call("causal", call.inputs, causal=True)
                self._call("whole", call.inputs, causal=False)
        self._properties(good[0])
        self.seen.trace = traced(lambda: self._plain(good[0].inputs), self.path)

    def _inputs(self, single: bool) -> Any:
        if self._crosses():
            for group, three in probes.core(2, self.embed):
                yield group, {"q": three["q"], "k": three["k"], "v": three["k"]}
            return
        if single:
            for rank in (3, 2):
                x = probes.sequences(self.embed, rank)
                name = next((r for r in ("x", "q") if r in self.target.roles), "x")
                yield f"plain {rank}", {name: x}
            if "x_kv" in self.target.roles:  # may be given
                for group, three in probes.core(2, self.embed):
                    yield group.replace("plain", "cross"), three | {"v": three["k"]}
            return
        if self.seen.weights:
            yield from probes.core(2, self.embed)
            return
        yield from probes.core(self.seen.heads, self.embed)

    def _one_input(self, required: bool) -> bool:
        """Whether what keys and values come from is one argument."""
        return required or "k" not in self.target.roles

    def _crosses(self) -> bool:
        """Whether keys and values come from a second input that has to be given."""
        known = _parameters(self.target)
        return any(
            meant == "x_kv" and known[name].default is inspect.Parameter.empty
            for name, meant in self.target.call.items()
        )

    def _masks(self, inputs: dict[str, Array]) -> None:
        first = next(iter(inputs.values()))
        name = next(n for n, meant in self.target.call.items() if meant == "mask")
        kept: list[Call] = []
        for layout, keep in probes.masks(first.shape[-2], first.ndim):
            if "pad" in name.lower() and layout != "padding":
                continue
            full = (
                keep[:, None, :] & np.ones((1, keep.shape[-1], 1), bool)
                if layout == "padding"
                else keep
            )
            tried = len(self.seen.calls)
            for form in probes.FORMS:
                mask = probes.formed(keep, form)
                self._call(f"mask {first.ndim}", inputs, mask=mask, keep=full, form=form)
            # numpy takes 0 and 1 for indices, so those alone do not show that a layout fits.
            if any(call.outs and "0/1" not in call.form for call in self.seen.calls[tried:]):
                return
            kept = kept or self.seen.calls[tried:]
            del self.seen.calls[tried:]
        self.seen.calls += kept

    def _call(self, group: str, inputs: dict[str, Array], **extra: Any) -> None:
        keep, form = extra.pop("keep", None), extra.pop("form", "")
        call = Call(group, inputs, keep=keep, form=form)
        try:
            call.outs = self._plain(inputs, **extra)
        except BaseException as error:  # noqa: BLE001  kept as the call's result
            call.error, call.line = said(error, self.path)
            if call.error.endswith(MEMORY):
                raise StoppedError(call.error) from None
        self.seen.calls.append(call)

    def _plain(self, inputs: dict[str, Array], **extra: Any) -> list[Array]:
        """One call: arrays in, arrays out."""
        given, arrays = self._arguments(inputs, extra)
        before = {name: self._back(value).copy() for name, value in arrays.items()}
        result = self._callable()(**given)
        turn = _turned if self.seen.tokens_first else np.asarray
        for name, value in arrays.items():
            if not np.array_equal(before[name], self._back(value), equal_nan=True):
                if name not in self.seen.changed:
                    self.seen.changed.append(name)
        return [turn(self._back(one)) for one in _parts(result)]

    def _callable(self) -> Callable[..., Any]:
        if self.target.kind == "function":
            return self.target.thing
        return (
            self.thing if self.target.kind == "module" else getattr(self.thing, self.target.method)
        )

    def _arguments(self, inputs: dict[str, Array], extra: dict[str, Any]) -> Any:
        flags = {
            "heads": self.seen.heads, "embed": self.embed, "dropout": 0.0, "training": False,
            "eval": True, "head_dim": probes.WIDTH, "batch": probes.BATCH, "max_len": probes.TOKENS,
            "bias": True, "d_out": self.embed, "d_v": probes.WIDTH,
        }  # fmt: skip
        known = _parameters(self.target)
        given: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name, meant in self.target.call.items():
            default = known[name].default
            required = default is inspect.Parameter.empty
            if meant in inputs or meant in self.passed:
                value = inputs.get(meant, self.passed.get(meant))
                value = np.array(value)
                turned = self.seen.tokens_first and meant in inputs
                given[name] = arrays[name] = self._to(_turned(value) if turned else value)
            elif "q" in inputs and (
                meant == "x" or (meant == "x_kv" and self._one_input(required))
            ):
                value = np.array(inputs["q" if meant == "x" else "k"])
                given[name] = arrays[name] = self._to(
                    _turned(value) if self.seen.tokens_first else value
                )
            elif meant == "mask":
                if extra.get("mask") is not None:
                    given[name] = self._to(np.array(extra["mask"]))
                elif required:
                    given[name] = None
            elif meant == "causal":
                if "causal" in extra or required:
                    given[name] = extra.get("causal", False)
            elif meant in ("training", "eval", "heads"):
                given[name] = flags[meant]
            elif required:
                given[name] = flags.get(meant, True)
            elif (
                meant == "dropout"
                and isinstance(default, int | float)
                and self.target.kind == "function"
            ):
                given[name] = 0.0
        return given, arrays

    def _to(self, value: Array) -> Any:
        if value.dtype.kind == "f":
            value = value.astype(self.dtype)
        if self.lists:
            return value.tolist()
        if not self.torch:
            return value
        import torch

        return torch.as_tensor(value)

    def _back(self, value: Any) -> Array:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = value.double().numpy() if value.is_floating_point() else value.numpy()
        return np.asarray(value)

    # what else can be noticed

    def _attends_over_the_first_axis(self) -> bool:
        """Whether (tokens, batch, width) is meant, as by nn.MultiheadAttention's default: entries
        along the first axis influence one another, those along the second do not, and no name in
        the source calls the first axis a batch."""
        call = next((c for c in self.seen.calls if c.outs and c.group == "plain 3"), None)
        if call is None or not self.seen.weights or self.says_batch:
            return False
        try:
            mixed = []
            for axis in (0, 1):
                changed = {name: _other(value, axis) for name, value in call.inputs.items()}
                before, after = (one[0].take(0, axis) for one in (call.outs, self._plain(changed)))
                mixed.append(not np.allclose(before, after, equal_nan=True))
        except Exception:  # noqa: BLE001  the call itself has run; this only asks what it mixes
            return False
        return mixed == [True, False]

    def _properties(self, call: Call) -> None:
        try:
            again = self._plain(call.inputs)
            self.seen.differs = not _same(again, call.outs)
            first = next(iter(call.inputs.values()))
            if first.ndim > 2 and not self.seen.differs:
                changed = {name: _other(value) for name, value in call.inputs.items()}
                other = self._plain(changed)
                if other[0].shape == call.outs[0].shape and other[0].shape[:1] == first.shape[:1]:
                    self.seen.leaks = not np.allclose(other[0][0], call.outs[0][0], equal_nan=True)
            large = {n: v * _LARGE if n != "v" else v for n, v in call.inputs.items()}
            out = self._plain(large)
            finite = np.isfinite(call.outs[0]).all()
            self.seen.overflows = bool(finite and not np.isfinite(out[0]).all())
        except Exception:  # noqa: BLE001  the calls that count have run; these only add remarks
            return


def _parameters(target: Target) -> Any:
    call = target.thing if target.kind == "function" else getattr(target.thing, target.method)
    return inspect.signature(call).parameters


def _other(value: Array, axis: int = 0) -> Array:
    """Changed but for the first entry of an axis."""
    value = value.copy()
    rest = value[1:] if axis == 0 else value[:, 1:]
    rest += probes.numbers(*rest.shape, seed=9)
    return value


def _turned(value: Array) -> Array:
    """(batch, tokens, width) and (tokens, batch, width)."""
    return value.swapaxes(0, 1) if value.ndim == 3 else value


def _same(first: list[Array], again: list[Array]) -> bool:
    pairs = zip(first, again, strict=False)
    return all(a.shape == b.shape and np.allclose(a, b, equal_nan=True) for a, b in pairs)


def _statements(source: str) -> str:
    """The file's statements without comments, docstrings, switched-off flags and its script."""
    tree = ast.parse(source)
    tree.body = [
        n for n in tree.body if not (isinstance(n, ast.If) and "__name__" in ast.unparse(n.test))
    ]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [one for one in body if not _text(one)] or [ast.Pass()]
            setattr(node, "body", kept)  # noqa: B010  the stubs of ast know no common body
    return re.sub(r"\w*causal\w*\s*=\s*False", "", ast.unparse(tree))


def _text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _own_source(target: Target, source: str) -> str:
    """The part of the file that the target and what it uses are written in."""
    return source if target.kind != "function" else source.partition("if __name__")[0]


def _is_nested(result: Any) -> bool:
    """Whether these are lists of numbers, as code without arrays returns."""
    while isinstance(result, list) and result:
        result = result[0]
    return isinstance(result, float)


def _parts(result: Any) -> list[Any]:
    """The arrays of what was returned."""
    if isinstance(result, dict):
        result = list(result.values())
    if _is_nested(result):
        result = np.asarray(result)
    if not isinstance(result, tuple | list):
        result = [result]
    arrays = [one for one in result if hasattr(one, "shape") and np.prod(one.shape) <= _KEPT]
    if not arrays:
        raise TypeError(
            f"the result is no array ({type(result[0]).__name__ if result else 'empty'})"
        )
    return arrays
