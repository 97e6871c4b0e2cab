"""One size: every contender is checked against double precision, then all take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

import regard
from bench.gpu.contenders import (
    GRAPH,
    LAST,
    Peer,
    Said,
    backwards,
    columns,
    eager_fits,
    flex,
    forwards,
    graphs,
    reduced,
    scores,
    shorts,
)
from bench.gpu.reference import Truth, expect, gradients, truth
from bench.gpu.size import Size
from bench.gpu.stage import Stage
from regard.bench.results import Result, timed
from regard.bench.timing import Samples, take_turns

_HALF = 2e-2  # what an output in half precision may be off
_SINGLE = 1e-3  # statistics are computed in single precision
_SAMPLE = 8e-3  # seconds that one sample of the peer takes, about
_MOST_CALLS = 20
_ROUNDS = 7
_BACKWARD_WORK = 2.5  # five products instead of two


def race_forward(
    stage: Stage,
    size: Size,
    *,
    suite: str,
    seconds: float,
    only: tuple[str, ...] = (),
    with_flex: bool = False,
) -> list[Result]:
    """Output and statistics; a row for each contender, or for those named."""
    given = size.inputs(stage.device)
    with torch.no_grad():
        runs = forwards(stage, size, given)
        runs |= {"flex": flex(size, given)} if with_flex else {}
        runs = {name: run for name, run in runs.items() if not only or name in only}
        made_by = _check_forwards(size, given, runs)
        for run in runs.values():  # the second of a kind is watched, and keeps what it allocates
            run()
        extra = {name: stage.peak(partial(_output, run)) for name, run in runs.items()}
        taken = _timed(stage, runs, seconds)
    lost = "" if eager_fits(stage, size) else _too_large(size)
    return [
        _row(stage, size, suite, name, taken, made_by[name], size.work, extra[name],
             lost if name == "everything" else "")
        for name in taken
    ]  # fmt: skip


def race_short(stage: Stage, size: Size, *, suite: str, seconds: float) -> list[Result]:
    """Calls whose host counts, as a user makes them and as graphs."""
    given = size.inputs(stage.device)
    with torch.no_grad():
        plain = shorts(stage, size, given)
        made_by = _check_forwards(size, given, plain)
        for _ in range(2):  # from the third on, calls go through what was kept of these
            for run in plain.values():
                run()
        runs = {**plain, **graphs(stage, plain)}
        taken = _timed(stage, runs, seconds)
    makers = {name: made_by[name.removesuffix(GRAPH)] for name in taken}
    return [_row(stage, size, suite, name, taken, makers[name], size.work, None) for name in taken]


def race_columns(stage: Stage, size: Size, *, suite: str, seconds: float) -> list[Result]:
    """Column sums alone, in half precision of 10 bits, as the peer is meant for."""
    given = [t.half() for t in size.inputs(stage.device)]
    with torch.no_grad():
        runs, right = columns(size, given), truth(size, *given)
        for name, run in runs.items():
            allowed = _HALF if name == "flash-colreduce" else _SINGLE
            expect(run()[-1, -1], right.received, allowed, f"{name}, {size},")
            run()
        taken = _timed(stage, runs, seconds)
    makers = {name: "flash-colreduce" if name == "flash-colreduce" else "regard" for name in taken}
    return [
        replace(_row(stage, size, suite, name, taken, makers[name], size.work / 2, None),
                dtype="float16")
        for name in taken
    ]  # fmt: skip


def race_evict(stage: Stage, size: Size, *, suite: str, seconds: float) -> list[Result]:
    """What scores of keys take beyond the forward; the largest of columns beside their sum."""
    given = size.inputs(stage.device)
    with torch.no_grad():
        asked = scores(size, given)
        made_by = _check_forwards(size, given, asked)
        whole, right = reduced(size, given), truth(size, *given)
        for name, exact in zip(whole, (right.received, right.largest), strict=True):
            expect(whole[name]()[-1, -1], exact, _SINGLE, f"{name}, {size},")
        for run in [*asked.values(), *whole.values()] * 2:  # from the third on as they were kept
            run()
        beyond, columns_taken = (_timed(stage, runs, seconds) for runs in (asked, whole))
    bare = beyond["bare"].median
    rows = [
        _row(stage, size, suite, name, beyond, made_by[name], size.work, None,
             "" if name == "bare" else f"{(taken.median - bare) * 1e3:.3f} ms beyond bare")
        for name, taken in beyond.items()
    ]  # fmt: skip
    return rows + [
        _row(stage, size, suite, name, columns_taken, "regard", size.work / 2, None)
        for name in columns_taken
    ]


def race_backward(stage: Stage, size: Size, *, suite: str, seconds: float) -> list[Result]:
    """Gradients of q, k and v."""
    leaves = [t.requires_grad_() for t in size.inputs(stage.device)]
    dice = torch.Generator(device=stage.device).manual_seed(1)
    outer = torch.empty_like(leaves[0]).normal_(generator=dice).detach()
    runs, made_by = backwards(stage, size, leaves, outer)
    for with_entropy in (False, True):
        right = gradients(size, leaves, outer, with_entropy)
        for name, run in runs.items():
            if ("entropy" in name) is with_entropy:
                _check_gradients(size, name, run(), right)
    extra = {name: stage.peak(run) for name, run in runs.items()}
    taken = _timed(stage, runs, seconds)
    work = _BACKWARD_WORK * size.work
    return [
        _row(stage, size, suite, name, taken, made_by[name], work, extra[name])
        for name in taken
    ]  # fmt: skip


# ── right ────────────────────────────────────────────────────────────────────────────────────


def _check_forwards(
    size: Size, given: list[Tensor], runs: Mapping[str, Callable[[], Said]]
) -> dict[str, str]:
    """Every contender's output, and all that it measured; who made it, by contender."""
    right, made_by = truth(size, *given), {}
    for name, run in runs.items():
        said = run()
        output = said.output if isinstance(said, regard.Attention) else said
        expect(output[-1, -1], right.output, _HALF, f"output of {name}, {size},")
        made_by[name] = said.implementation if isinstance(said, regard.Attention) else "torch"
        if isinstance(said, regard.Attention):
            _check_statistics(size, name, said, right)
    return made_by


def _check_statistics(size: Size, name: str, said: regard.Attention, right: Truth) -> None:
    """What was asked for with the output: asking again costs nothing then."""
    measured = {"lse": (said.lse, right.lse)}
    if name in ("statistics", "everything"):
        measured["entropy"] = said.entropy(), right.entropy
        measured["max score"] = said.max_score(), right.max_score
    if name == "top 8":
        measured["top weights"] = said.top(8).weights, right.top
    if name == "received 64":
        measured["mass of the last"] = said.received(queries=LAST), right.received_last
    if name == "everything":
        measured["top weights"] = said.top(8).weights, right.top
        measured["received mass"] = said.received(), right.received
        measured["pooled map"] = said.pooled(), right.pooled
    for what, (found, exact) in measured.items():
        expect(found[-1, -1], exact, _SINGLE, f"{what} of {name}, {size},")


def _check_gradients(
    size: Size, name: str, found: tuple[Tensor, ...], right: tuple[Tensor, ...]
) -> None:
    for letter, one, exact in zip("qkv", found, right, strict=True):
        expect(one[-1, -1], exact, _HALF, f"gradient of {letter} by {name}, {size},")


# ── fast ─────────────────────────────────────────────────────────────────────────────────────


def _timed(
    stage: Stage, runs: Mapping[str, Callable[[], object]], seconds: float
) -> dict[str, Samples]:
    """Samples of about the same length on every size: short calls come many in a row."""
    first = next(iter(runs.values()))
    calls = int(_SAMPLE / max(_sample(stage, first, 1), 1e-9))
    calls = min(max(calls, 1), _MOST_CALLS)
    return take_turns(
        runs, seconds=seconds, rounds=_ROUNDS, clock=lambda run: _sample(stage, run, calls)
    )


def _sample(stage: Stage, run: Callable[[], object], calls: int) -> float:
    if not isinstance(run, Peer):
        return stage.seconds(run, calls)
    with run.named():
        return stage.seconds(run.compute, calls)


def _output(run: Callable[[], Said]) -> list[Tensor]:
    """The output alone: weights and statistics count as extra, whoever makes them."""
    said = run()
    return [said.output if isinstance(said, regard.Attention) else said]


def _too_large(size: Size) -> str:
    return f"eager with weights cannot run: its weights alone take {size.weights / 2**30:.0f} GiB"


def _row(
    stage: Stage,
    size: Size,
    suite: str,
    what: str,
    taken: dict[str, Samples],
    made_by: str,
    work: float,
    extra: int | None,
    note: str = "",
) -> Result:
    peer, mine = next(iter(taken)), taken[what]
    return timed(
        mine, 4, mine.ratio_to(taken[peer]), suite=suite, what=what, implementation=made_by,
        tokens=size.tokens, dim=size.dim, heads=size.heads, causal=size.causal, dtype="bfloat16",
        peer=peer, machine=stage.name, batch=size.batch,
        tflops=round(work / mine.median / 1e12, 1),
        extra_mib=None if extra is None else round(extra / 2**20, 1), note=note,
    )  # fmt: skip
