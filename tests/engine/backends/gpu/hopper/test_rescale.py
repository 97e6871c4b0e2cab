"""The assembly texts, run line by line for the 32 threads of a warp."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from math import inf, isnan, nan
from operator import eq, ge, lt

import pytest

from regard.engine.backends.gpu.hopper import rescale

THREADS = 32
COMPARE: dict[str, Callable[[float, float], bool]] = {"eq": eq, "ge": ge, "lt": lt}


class Thread:
    """Its registers: the operands $0, $1, … and truths by name."""

    def __init__(self, operands: dict[int, float]) -> None:
        self.numbers, self.truths = operands, dict[str, bool]()

    def read(self, name: str) -> float:
        if name.startswith("0f"):
            (value,) = struct.unpack(">f", bytes.fromhex(name[2:]))
            return float(value)
        return self.numbers[int(name[1:])]

    def write(self, name: str, value: float) -> None:
        self.numbers[int(name[1:])] = value


def run(text: str, warp: list[Thread]) -> None:
    """The few instructions that the texts are made of; a branch is taken by all or by none."""
    lines = [line.strip(" ;") for line in text.splitlines()]
    assert lines[0] == "{" and lines[-1] == "}"  # names and labels are its own
    at = 0
    while at < len(lines):
        word, *rest = re.split(r",?\s+", lines[at])
        at += 1
        if word.startswith("@"):
            taken = {thread.truths[word[1:]] for thread in warp}
            assert len(taken) == 1 and rest[0] == "bra.uni"
            at = lines.index(f"{rest[1]}:") if taken.pop() else at
        elif word == "vote.sync.all.pred":
            assert rest[2] == "0xffffffff"
            said = all(thread.truths[rest[1]] for thread in warp)
            for thread in warp:
                thread.truths[rest[0]] = said
        elif word not in ("{", "}", ".reg") and not word.endswith(":"):
            for thread in warp:
                step(word, rest, thread)


def step(word: str, rest: list[str], thread: Thread) -> None:
    if word.startswith("setp."):
        _, how, *more = word.split(".")
        holds = COMPARE[how](thread.read(rest[1]), thread.read(rest[2]))
        thread.truths[rest[0]] = holds and (more == ["f32"] or thread.truths[rest[3]])
    elif word == "selp.f32":
        thread.write(rest[0], thread.read(rest[1] if thread.truths[rest[3]] else rest[2]))
    else:
        assert word == "mul.f32"
        thread.write(rest[0], thread.read(rest[1]) * thread.read(rest[2]))


# ── the vote ─────────────────────────────────────────────────────────────────────────────────

STAYS = [(1.0, 1.0)] * THREADS


def voted(
    shrink: list[tuple[float, float]], total: float = 3.0, centred: float = -2.0
) -> list[tuple[float, float]]:
    """What 32 threads say of two rows each; the first has these sums."""
    warp = [Thread({2: a, 3: b, 4: 1.0, 5: 0.0, 6: -1.0, 7: 5.0}) for a, b in shrink]
    warp[0].numbers |= {4: total, 6: centred}
    run(rescale._VOTE.value, warp)
    return [(thread.numbers[0], thread.numbers[1]) for thread in warp]


def test_a_warp_that_stays_says_so_and_what_is_no_number_is_multiplied() -> None:
    assert voted(STAYS) == voted(STAYS, 0.0, 0.0) == [(-1.0, -1.0)] * THREADS
    assert voted(STAYS, total=nan) == voted(STAYS, centred=nan) == STAYS
    assert voted(STAYS, centred=inf) == STAYS
    lost = voted([(nan, 1.0), *STAYS[1:]])
    assert isnan(lost[0][0]) and lost[1:] == STAYS[1:]


@pytest.mark.parametrize("thread", [0, 13, 31])
@pytest.mark.parametrize("rows", [(0.25, 1.0), (1.0, 0.25), (0.0, 0.0)])
def test_one_row_that_shrinks_reaches_all(thread: int, rows: tuple[float, float]) -> None:
    shrink = [*STAYS]
    shrink[thread] = rows
    assert voted(shrink) == shrink


# ── the products ─────────────────────────────────────────────────────────────────────────────


def multiplied(context: list[float], by: list[float]) -> list[float]:
    """A thread's numbers; results stand in the registers of the first operands."""
    many = len(context)
    kinds = rescale._in_place.fn(many).split(",")
    assert kinds == ["=f"] * many + [str(n) for n in range(many)] + ["f"] * many
    operands = dict(enumerate(context)) | {2 * many + n: factor for n, factor in enumerate(by)}
    warp = [Thread(dict(operands)) for _ in range(THREADS)]
    run(rescale._multiply.fn(many), warp)
    return [warp[0].numbers[n] for n in range(many)]


@pytest.mark.parametrize("many", [32, 64])
def test_every_number_gets_its_own_factor(many: int) -> None:
    """None is touched where nothing shrinks, and no factor is taken for the sign to stay."""
    context = [float(n) - 5 for n in range(many)]
    by = [0.5 if n % 4 < 2 else 0.25 for n in range(many)]  # pairs of two rows in turns
    assert multiplied(context, by) == [a * b for a, b in zip(context, by, strict=True)]
    assert multiplied(context, [-1.0] * many) == context
    assert multiplied(context, [0.0] * many) == [0.0] * many
    assert all(isnan(number) for number in multiplied(context, [nan] * many))
