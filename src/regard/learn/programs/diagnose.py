"""The verdict on an observation: right, or the first wrong step and the likely cause."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from regard.learn.programs.hypotheses import Base, Comparison, close
from regard.learn.programs.mistakes import MISTAKES, STEPS, Mistake
from regard.learn.programs.observation import Call, Observation
from regard.learn.programs.recipe import Array

_PAIRED: Final = {
    "no scale", "√embed", "wrong scale", "softmax axis", "no softmax", "mask missing",
    "mask after softmax", "mask inverted", "off by one", "masked with 0", "weights transposed",
    "heads split without permuting", "heads merged without permuting", "shared projection",
    "output projection missing", "queries and keys swapped", "softmax twice", "not normalised",
    "wrong factor", "mask transposed", "swapped projections", "projection missing", "bias left out",
}  # fmt: skip
_UNNAMED: Final = {"not recognised", "raises", "output shape"}
_NAMES: Final = {
    "Q": ("projections", "queries"), "K": ("projections", "keys"), "V": ("projections", "values"),
    "scores": ("scores", "scores"), "scaled": ("scaling", "scaled scores"),
    "masked": ("mask", "masked scores"), "weights": ("softmax", "weights"),
    "heads": ("weighted sum", "weighted sums"), "output": ("output projection", "output"),
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One mistake: its step, kind and words, and a number that shows it."""

    step: str
    kind: str
    text: str
    fix: str = ""
    cell: str = ""
    given: float | None = None
    right: float | None = None
    line: int = 0


@dataclass(frozen=True)
class Judged:
    """Mistakes in the order of the steps, none where it is right, and remarks beside them."""

    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = field(default=())


def judge(seen: Observation) -> Judged:
    """By the calls whose widths all differ; by those with equal ones where that explains more.

    Code that takes the width of its input for that of all heads runs without an error on others,
    and what it then computes has no name.
    """
    judged = _judge(seen)
    if seen.square and any(one.kind in _UNNAMED for one in judged.findings):
        square = _judge(seen.square)
        if not any(one.kind in _UNNAMED for one in square.findings):
            return square
    return judged


def _judge(seen: Observation) -> Judged:
    """Right ways first, then what was noticed, one mistake, two, any scale, the trace."""
    comparison = Comparison(seen)
    if not comparison.calls:
        return Judged((_raised(seen),))
    right = next((base for base in comparison.bases() if comparison.explains(base, ({},))), None)
    if seen.changed:
        names = ", ".join(seen.changed)
        text = f"the input {names} is changed in place"
        found = Finding("inputs", "changed in place", text, "write x = x / s, not x /= s")
        return Judged((_shown(found, comparison, right),))
    if seen.differs:
        return Judged((_dropout(seen),))
    if right is not None:
        return Judged((), _remarks(seen, comparison, right))
    comparison.wrong_first()
    findings = (
        _single(comparison) or _kindred(comparison) or _pair(comparison) or _scale(comparison)
    )
    if not findings:
        findings = (_leak(seen) or _shape(comparison) or _traced(comparison),)
    return Judged(tuple(_shown(one, comparison, None) for one in findings))


def _finding(mistake: Mistake) -> Finding:
    return Finding(mistake.step, mistake.kind, mistake.text, mistake.fix)


def _possible(comparison: Comparison) -> list[Mistake]:
    """The mistakes that this code has a place for."""
    seen = comparison.seen
    idle = set()
    if not seen.weights:
        idle |= {"sources", "bias", "output", "inputs"}
    if all(len(call.inputs) == 1 for call in comparison.calls):
        idle |= {"inputs"}
    if not seen.splits:
        idle |= {"split", "merge"}
    return [one for one in MISTAKES if not any(idle & variant.keys() for variant in one.variants)]


def _made(comparison: Comparison, base: Base) -> set[str]:
    """The intermediates that the code's own arrays hold."""
    call = next((c for c in comparison.calls if c.group.startswith("plain")), comparison.calls[0])
    result = comparison.result(call, base, {})
    return {name for name, _, _ in _held(comparison.seen, result)} if result else set()


def _single(comparison: Comparison) -> tuple[Finding, ...]:
    """One mistake that explains every call; the one that explains most forms of a mask."""
    possible = _possible(comparison)
    for base in comparison.bases(every=False):
        made = {"Q", "K", "V"} <= _made(comparison, base)
        best: tuple[bool, int, int] = (False, 0, 0)
        chosen: Mistake | None = None
        for at, mistake in enumerate(possible):
            count = comparison.explains(base, *_variants(comparison, mistake))
            late = not (made and mistake.step in ("projections", "heads"))
            if count and (late, count, -at) > best:
                best, chosen = (late, count, -at), mistake
        if chosen:
            return (_finding(chosen),)
    return ()


def _variants(comparison: Comparison, mistake: Mistake) -> tuple[tuple[dict[str, Any], ...], bool]:
    """A mistake's variants, and whether the masked calls have to be explained by them.

    A flag and a mask are two places, one of which may be right; a mistake elsewhere shows without
    masked calls.
    """
    if mistake.step == "mask":
        return (*mistake.variants, *(({},) if comparison.switched else ())), True
    return mistake.variants, not comparison.unmasked


def _kindred(comparison: Comparison) -> tuple[Finding, ...]:
    """Mistakes that differ by the rank of the input: axis 1 is heads, or tokens."""
    possible = _possible(comparison)
    families: dict[str, list[Mistake]] = {}
    for one in possible:
        families.setdefault(f"{one.step}: {one.kind}", []).append(one)
    for step in ("scaling", "softmax"):
        families[step] = [one for one in possible if one.step == step]
    for name, family in families.items():
        variants = tuple(variant for one in family for variant in one.variants)
        variants += ({},) if name in STEPS else ()
        for base in comparison.bases(every=False) if len(family) > 1 else ():
            if comparison.explains(base, variants, not comparison.unmasked):
                call = comparison.order[0]
                fits = (
                    m for m in family if any(comparison.agrees(call, base, v) for v in m.variants)
                )
                return (_finding(next(fits, family[0])),)
    return ()


def _pair(comparison: Comparison) -> tuple[Finding, ...]:
    common = [one for one in _possible(comparison) if one.kind in _PAIRED]
    for base in comparison.bases(every=False):
        for first, second in itertools.combinations(common, 2):
            if first.place == second.place:
                continue
            pairs = itertools.product(first.variants[:6], second.variants[:6])
            variants = tuple(a | b for a, b in pairs if not a.keys() & b.keys())
            masks = "mask" in (first.step, second.step) or not comparison.unmasked
            if variants and comparison.explains(base, variants, masks):
                return _finding(first), _finding(second)
    return ()


def _scale(comparison: Comparison) -> tuple[Finding, ...]:
    """Any other factor, found by trying: the call whose output it brings closest."""
    call = comparison.calls[0]
    for base in comparison.bases(every=False):
        factor = _fitted(comparison, call, base)
        change = {"scale": "fixed", "factor": factor}
        if comparison.explains(base, (change,)):
            text = f"the scores are multiplied by {factor:.4g}, not by 1/√d"
            return (
                Finding("scaling", "wrong scale", text, "divide by √d, d the width of one head"),
            )
    return ()


def _fitted(comparison: Comparison, call: Call, base: Base) -> float:
    def miss(factor: float) -> float:
        result = comparison.result(call, base, {"scale": "fixed", "factor": factor})
        if result is None or result["output"].shape != call.outs[0].shape:
            return float("inf")
        return float(np.abs(result["output"] - call.outs[0]).max())

    around = 10.0 ** np.linspace(-3, 2, 60)
    low, high = 0.0, 0.0
    best = min(around, key=miss)
    low, high = best / 1.3, best * 1.3
    for _ in range(60):
        third = (high - low) / 3
        if miss(low + third) < miss(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def _raised(seen: Observation) -> Finding:
    """Every call was refused: the error of the one that got furthest."""
    call = max(seen.calls, key=lambda one: (one.group.startswith("plain"), one.line), default=None)
    if call is None:
        return Finding("inputs", "not callable", seen.problem or "nothing could be called")
    text = call.error
    product = any(word in text for word in ("matmul", "shapes", "multiplied", "einsum", "size"))
    fix = "every product's axes fit, such as Q (n, d) times Kᵀ (d, m)" if product else ""
    return Finding("scores" if product else "inputs", "raises", text, fix, line=call.line)


def _dropout(seen: Observation) -> Finding:
    if seen.dropout:
        text = "dropout is active in evaluation: two equal calls differ"
        fix = "an nn.Dropout of the module, or F.dropout(…, training=self.training)"
        return Finding("dropout", "dropout active", text, fix)
    return Finding(
        "dropout", "random", "two equal calls give different outputs", "no random numbers"
    )


def _leak(seen: Observation) -> Finding | None:
    if not seen.leaks:
        return None
    text = "entries of a batch influence one another"
    return Finding(
        "scores", "batch mixed up", text, "every entry of a batch attends to itself alone"
    )


def _remarks(seen: Observation, comparison: Comparison, base: Base) -> tuple[str, ...]:
    found = []
    if seen.tokens_first:
        found.append("the input is (tokens, batch, width)")
    if seen.overflows:
        found.append("large scores overflow: subtract each row's maximum before exp")
    forms = [
        call.form
        for call in comparison.calls
        if call.group.startswith("mask") and comparison.agrees(call, base)
    ]
    if forms and not any(form.startswith("keep") for form in forms):
        hidden = any(form.startswith("hide") for form in forms)
        found.append(
            "the mask is " + ("True where a key is hidden" if hidden else "added to scores")
        )
    return tuple(found)


def _shown(found: Finding, comparison: Comparison, right: Base | None) -> Finding:
    """With the first number that differs."""
    bases = [right] if right else list(comparison.bases(every=False))
    for call in comparison.calls:
        if call.group.startswith("mask") and call.form != "keep":
            continue
        results = [comparison.result(call, base, {}) for base in bases]
        if any(r is not None and close(call.outs[0], r["output"]) for r in results):
            continue
        result = results[0]
        if result is None or result["output"].shape != call.outs[0].shape:
            continue
        out, wanted = call.outs[0], result["output"]
        at = np.unravel_index(int(np.argmax(_apart(out, wanted))), out.shape)
        turned = comparison.seen.tokens_first and out.ndim == 3
        shown = (at[1], at[0], at[2]) if turned else at
        cell = f"output[{', '.join(map(str, shown))}]"
        return replace(found, cell=cell, given=float(out[at]), right=float(wanted[at]))
    return found


def _apart(out: Array, right: Array) -> Array:
    off = np.abs(out - right)
    return off > 1e-3 * np.nanmax(np.where(np.isfinite(off), off, 0), initial=0)


def _shape(comparison: Comparison) -> Finding | None:
    """Every output has another shape than the definition's."""
    results = [
        (call, comparison.result(call, base, {}))
        for base in comparison.bases(every=False)
        for call in comparison.calls
    ]
    shapes = [(call.outs[0].shape, r["output"].shape) for call, r in results if r]
    if not shapes or any(given == right for given, right in shapes):
        return None
    given, right = shapes[0]
    step = "output projection" if comparison.seen.weights else "weighted sum"
    text = f"the output has the shape {given}, not {right}"
    return Finding(step, "output shape", text, "one vector for each query")


def _traced(comparison: Comparison) -> Finding:
    """The last intermediate of the definition that the code's own arrays hold."""
    call = next((c for c in comparison.calls if c.group.startswith("plain")), comparison.calls[0])
    best: list[tuple[str, str, int]] = []
    for base in comparison.bases(every=False):
        result = comparison.result(call, base, {})
        held = _held(comparison.seen, result) if result else []
        best = max(best, held, key=len)
    text = "the output is wrong, and no step of it is recognised"
    step = "output projection" if comparison.seen.weights else "weighted sum"
    if best and best[-1][0] == "output":
        step, text = "mask", "without a mask the output is right; with a mask it is not"
    elif best:
        name, variable, line = best[-1]
        following = list(_NAMES)[list(_NAMES).index(name) + 1]
        step = _NAMES[following][0]
        text = (
            f"the {_NAMES[name][1]} ({variable}, line {line}) are right; "
            f"{_NAMES[following][1]} come out wrong"
        )
    return Finding(step, "not recognised", text)


def _held(seen: Observation, result: dict[str, Array]) -> list[tuple[str, str, int]]:
    """(intermediate, variable, line) of those that a variable equals, in order."""
    found = []
    for name in _NAMES:
        wanted = result[name]
        turns = [wanted, wanted.swapaxes(-1, -2)]
        if wanted.ndim > 3:  # tokens before heads, and all heads side by side
            beside = wanted.swapaxes(1, 2)
            turns += [beside, beside.reshape(*beside.shape[:2], -1)]
        equal = [
            (variable == "the result", line, variable)
            for line, variable, value in seen.trace
            if any(close(value, turn) for turn in turns)
        ]
        if equal:
            _, line, variable = min(equal)
            found.append((name, variable, line))
    return found
