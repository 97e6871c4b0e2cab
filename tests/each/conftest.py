"""Every implementation over one matrix of cases, on the CPU or on a GPU.

    REGARD_TEST_DEVICE=cuda pytest tests/each

An implementation may refuse a case, and says why. Such a case counts as refused, not as passed.
How many cases each one served, and why it refused others, stands at the end of the run: a matrix
that nobody serves is no proof.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from outcomes import REFUSED
from regard.attention import Steps
from regard.engine import api
from regard.engine.backends.cpu.load import Kernels, _find
from regard.engine.call import Call
from regard.engine.plan import CANDIDATES, MEASURING, choose
from regard.mask import Causal, Rule
from regard.testing import CASES, Budget, Case, Inputs, Yardstick

DEVICE = os.environ.get("REGARD_TEST_DEVICE", "cpu")
DEFAULT = "default"  # the one a caller gets who names none

# "cpu/…" are the kernels on a lesser instruction set
ON_CPU = ("cpu", "cpu/generic", "cpu/avx2", "tiled", "library")
ON_GPU = (*(name for name in CANDIDATES if name != "cpu"), DEFAULT)
IMPLEMENTATIONS = ON_CPU if DEVICE == "cpu" else ON_GPU
# those with sweeps of their own, and whoever is chosen
SWEEPING = tuple(n for n in IMPLEMENTATIONS if n.partition("/")[0] in (*MEASURING, DEFAULT))


def _narrow_bias(case: Case, dice: torch.Generator, _: torch.dtype) -> dict[str, Any]:
    table = torch.randn(case.heads, case.queries, case.keys, generator=dice)
    return {"bias": table.to(torch.bfloat16)}


def _by_squares(b: Any, h: Any, i: Any, j: Any) -> Any:
    """All, none or some of a square of 128 × 128."""
    kind = (i // 128 + 2 * (j // 128) + b + h) % 3
    return (kind == 0) | ((kind == 1) & ((i + j) % 3 == 0))


# what only a GPU can fail at: room for wide heads, numbers of other widths beside each other
_OF_A_GPU = (
    Case("rule by squares", queries=300, keys=400, mask=lambda _: Rule(_by_squares), dim=64),
    Case("decoding by squares", queries=3, keys=2300, mask=lambda _: Rule(_by_squares), dim=64),
    Case("head dim 80", dim=80, value_dim=80),
    Case("head dim 256", dim=256, value_dim=256, mask=lambda _: Causal()),
    Case("values of 300", dim=64, value_dim=300),
    Case("narrow bias", options=_narrow_bias),
    Case("decoding", heads=8, key_heads=2, queries=3, keys=2300, dim=64, value_dim=64),
    Case("many keys", queries=150, keys=2200, mask=lambda _: Causal(), dim=64, value_dim=64),
)
HERE = CASES if DEVICE == "cpu" else (*CASES, *_OF_A_GPU)
# the cases once more with heads as wide as real ones, which is all that some kernels take
WIDE = tuple(
    replace(case, name=f"{case.name}, d{dim}", dim=dim, value_dim=dim)
    for case, dim in zip(CASES, (64, 128) * len(CASES), strict=False)
    if (case.dim, case.value_dim) == (16, 16)
)


# ── what ran where ───────────────────────────────────────────────────────────────────────────

_PROPERTY = "regard served"  # of a test: (implementation, why not)
_said: list[tuple[str, str]] = []  # by the test that runs
_served: Counter[str] = Counter()
_refused: Counter[tuple[str, str]] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    """A GPU was asked for: there is one, or nothing runs."""
    if DEVICE not in ("cpu", "cuda"):
        raise pytest.UsageError(f"REGARD_TEST_DEVICE={DEVICE}; give cpu or cuda")
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError("REGARD_TEST_DEVICE=cuda, and torch finds no CUDA GPU here")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a GPU compiling takes longest: what is used most comes first, so that a run cut short
    has seen it, and our own kernels before those who ask them questions and find them compiled.
    Elsewhere the definition takes longest: those who are compared with it over the same numbers
    follow each other, and find it worked out."""
    if DEVICE == "cuda":
        items.sort(key=_rank)
        return
    places = [n for n, item in enumerate(items) if Path(__file__).parent in item.path.parents]
    for n in places:
        if _on_a_lesser_instruction_set(items[n]) and zlib.crc32(items[n].name.encode()) % 3:
            items[n].add_marker(pytest.mark.rest)
    groups: dict[Any, list[pytest.Item]] = {}
    for n in places:
        groups.setdefault(_numbers(items[n]), []).append(items[n])
    together = [item for group in groups.values() for item in group]
    for n, item in zip(places, together, strict=True):
        items[n] = item


def _on_a_lesser_instruction_set(item: Any) -> bool:
    """Of which the usual lane has a third: the same C for fewer lanes."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return "/" in str(given.get("implementation"))


def _numbers(item: Any) -> tuple[Any, ...]:
    """A test without its implementation; one without any is alone."""
    if "implementation" not in getattr(item, "fixturenames", ()):
        return (item.nodeid,)
    given = item.callspec.params.items()
    return item.path, item.originalname, *((k, id(v)) for k, v in given if k != "implementation")


def _rank(item: pytest.Item) -> tuple[int, int]:
    kinds = ("bfloat16", "test_gradients", "test_top_keys", "test_cells", "float16", "float32")
    kind = next((n for n, word in enumerate(kinds) if word in item.name), len(kinds))
    first = ("hopper", "triton")
    return kind, next((n for n, word in enumerate(first) if word in item.name), len(first))


@pytest.fixture(autouse=True)
def _told(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test found out travels with its report: tests may run in several processes."""
    _said.clear()
    yield
    request.node.user_properties += [(_PROPERTY, said) for said in dict.fromkeys(_said)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up."""
    if report.when != "teardown":
        return
    for name, said in report.user_properties:
        if name == _PROPERTY:
            who, why = said
            _served[who] += not why
            _refused[who, why] += bool(why)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Who served how many tests, and why others were refused."""
    if not _served:
        return
    place = torch.cuda.get_device_name() if DEVICE == "cuda" else "this processor"
    terminalreporter.section(f"the shared matrix on {DEVICE}: {place}")
    for name in dict.fromkeys(part.partition("/")[0] for part in IMPLEMENTATIONS):
        refused = {why: n for (who, why), n in _refused.items() if who == name and n}
        total = f"{_served[name]} tests served, {sum(refused.values())} refused"
        terminalreporter.line(f"{name:8} {total}")
        for why, count in sorted(refused.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{'':8} {count:5} {why}")


# ── the tests' tools ─────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, monkeypatch: Any) -> Iterator[str]:
    """A name for attend(implementation=…)."""
    name, _, isa = request.param.partition("/")
    if isa:
        found = _find()
        assert isinstance(found, Kernels), found
        if isa not in found.instruction_sets():
            pytest.skip(f"this processor has no {isa}")
        lesser = Kernels(found.path, isa)
        monkeypatch.setattr("regard.engine.backends.cpu.sweeps.load", lambda: lesser)
    yield name


def call_of(inputs: Inputs) -> Call:
    """The call that attend makes of these inputs, for the oracle."""
    options = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None}
    options |= inputs.options
    return api._call(inputs.query, inputs.key, inputs.value, *options.values(), 0.0)


class Truth(Yardstick):
    """Whose budgets are worked out once for all implementations."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._budgets: dict[Any, Budget] = {}

    def once(self, what: Any, measure: Callable[[Steps], torch.Tensor]) -> Budget:
        """The budget of `measure`, which is the same whenever `what` is."""
        if what not in self._budgets:
            self._budgets[what] = self.budget(measure)
        return self._budgets[what]


@lru_cache(maxsize=16)
def inputs_and_truth(case: Case, dtype: torch.dtype) -> tuple[Inputs, Truth]:
    """The numbers of a case and what is right about them; implementations share both."""
    inputs = case.inputs(dtype, device=DEVICE)
    return inputs, Truth(call_of(inputs))


def attend(inputs: Inputs, implementation: str, **more: Any) -> regard.Attention:
    """attend, or the exception in which an implementation says why it cannot."""
    return regard.attend(
        inputs.query, inputs.key, inputs.value,
        implementation=None if implementation == DEFAULT else implementation,
        **inputs.options, **more,
    )  # fmt: skip


# who may refuse what: torch's operator and the kernels for one kind of GPU know few problems, and
# say so; the GPU kernels take everything but a Rule
_MAY_REFUSE = {"library": "", "hopper": "", "triton": "Rule"}


def must_serve(implementation: str, inputs: Inputs) -> None:
    """Ends the test as refused where the implementation cannot and may say so. It is asked by
    shapes, dtypes and rules alone, as a call would ask it: nothing is computed."""
    name = None if implementation == DEFAULT else implementation
    try:
        choose(call_of(inputs).problem(), name)
    except regard.errors.UnavailableError as error:
        assert implementation in _MAY_REFUSE, error
        assert error.reasons[implementation]
        assert _MAY_REFUSE[implementation] in str(error), error
        _said.append((implementation, error.reasons[implementation][0]))
        pytest.skip(f"{REFUSED}{implementation}: {error.reasons[implementation][0]}")
    _said.append((implementation, ""))
