"""What is launched: which rows, in what order, over which memory; and which calls go to the kernel.
Stand-ins take the launches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from each.conftest import call_of
from regard.engine.backends.gpu import decode
from regard.engine.backends.gpu import forward as triton_forward
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.hopper import forward as page
from regard.engine.backends.gpu.hopper.forward import fits, forward
from regard.engine.backends.gpu.hopper.kernel import attention
from regard.engine.backends.gpu.hopper.sweeps import HOPPER
from regard.engine.backends.gpu.hopper.walk import ranges_of
from regard.engine.backends.gpu.prune import Pruner
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import Call, RowState
from regard.summary import Entropy, MaxScore
from regard.testing import Inputs

HALF = torch.bfloat16


def zeros(*shape: int, dtype: torch.dtype = HALF) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


def call(query: Tensor, key: Tensor, value: Tensor | None = None, **options: Any) -> Call:
    return call_of(Inputs(query, key, key if value is None else value, options))


def bound_of(query: Tensor, key: Tensor, **options: Any) -> Bound:
    return bind(call(query, key, **options))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the kernel was given, by its own words, and its grid; a GPU has 132 multiprocessors."""
    names, taken = [param.name for param in attention.params], list[dict[str, Any]]()

    def run(kernel: Any, grid: tuple[int], *given: Any, **constants: Any) -> None:
        assert kernel is attention
        taken.append({"grid": grid[0]} | dict(zip(names, given, strict=False)) | constants)

    properties = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(page, "run", run)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    return taken


class Watcher:
    def __init__(self, tall: int) -> None:
        self.tall = tall
        self.seen: list[tuple[tuple[int, ...], int, RowState]] = []

    def see(self, maxima: Tensor, start: int, state: RowState) -> None:
        self.seen.append((tuple(maxima.shape), start, state))


# ── launches ─────────────────────────────────────────────────────────────────────────────────


def test_a_launch_has_as_many_programs_as_the_gpu_or_fewer(launches: list[Any]) -> None:
    """Under a causal mask all heads go together. Every word is the kernel's."""
    for queries, programs in ((1, 8), (300, 24), (5000, 132)):
        forward(bound_of(zeros(2, 4, queries, 64), zeros(2, 2, 100, 64)), True, set(), None)
        words = launches[-1]
        assert words["grid"] == programs
        assert words["items"] == words["blocks"] * 8 and words["blocks"] == -(-queries // 128)
        assert (words["base"], words["tall"], words["group"]) == (0, queries, 2)
    own = {"grid", "num_warps", "maxnreg", "enable_fp_fusion"}
    assert set(launches[-1]) - own == {p.name for p in attention.params}
    for mask, crowd in ((None, 1), (regard.Causal(), 8), (regard.Window(9), 8)):
        forward(bound_of(zeros(2, 4, 300, 64), zeros(2, 4, 300, 64), mask=mask), True, set(), None)
        assert launches[-1]["crowd"] == crowd


def test_a_watcher_gets_rows_in_whole_blocks(launches: list[Any]) -> None:
    bound = bound_of(zeros(2, 4, 700, 128), zeros(2, 4, 2100, 128), mask=regard.Causal())
    watcher, late = Watcher(256), Watcher(256)
    made = forward(bound, True, set(), None, watcher)
    places = [(w["base"], w["blocks"], w["tall"]) for w in launches]
    assert places == [(0, 2, 256), (2, 2, 256), (4, 2, 256)]
    assert watcher.seen == [((2, 4, 33, 256), start, made.state) for start in (0, 256, 512)]
    more = RowState(torch.zeros(2, 4, 700), torch.ones(2, 4, 700))
    forward(bound, True, set(), more, late)
    assert all(state is more for _, _, state in late.seen)
    for dim, queries, keys in ((64, 20, 2048), (128, 700, 2100), (128, 5000, 40000)):
        given = bound_of(zeros(1, 2, queries, dim), zeros(1, 2, keys, dim))
        assert fits(given, True, Pruner(given, 8))
    assert not fits(bound, True, Watcher(100))


# ── memory ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "strides"),
    [
        (zeros(2, 3, 20, 64), (3840, 1280, 64)),
        (zeros(2, 20, 3, 64).transpose(1, 2), (3840, 64, 192)),
        (zeros(1, 20, 1, 64).transpose(1, 2), (64, 64, 64)),  # axes of size 1
        (zeros(1, 3, 20, 64).expand(1, 3, 20, 64)[:, ::2], (64, 2560, 64)),
        (zeros(20, 64), (64, 64, 64)),
    ],
    ids=["plain", "heads last", "one head", "every second head", "no batch"],
)
def test_strides_are_such_as_the_copy_engine_takes(
    launches: list[Any], query: Tensor, strides: tuple[int, ...]
) -> None:
    bound = bound_of(query, query)
    assert fits(bound, True)
    forward(bound, True, set(), None)
    for name in ("q", "k", "v"):
        made = tuple(launches[-1][f"{name}_{axis}"] for axis in ("batch", "head", "token"))
        assert made == strides and all(stride * 2 % 16 == 0 < stride for stride in made)


@pytest.mark.kernels("interpret")
def test_spans_are_worked_out_once_for_every_block_of_rows() -> None:
    """(start, full, partial, end) in tiles of 128 keys; bands need no table."""
    x, short = torch.zeros(2, 1, 300, 64), [[0, 0, 0, 1]] * 3
    for mask, right in (
        (regard.Padding([7, 200]) & regard.Causal(),
         [short, [[0, 0, 0, 1], [0, 0, 1, 2], [0, 0, 1, 2]]]),
        (regard.Prefix(130), [[[0, 0, 1, 2]] * 3]),
    ):  # fmt: skip
        ranges = ranges_of(bound_of(x, x, mask=mask).rule, (128, 128))
        assert ranges is not None and ranges.tolist() == right
    assert ranges_of(bound_of(x, x, mask=regard.Causal()).rule, (128, 128)) is None


# ── which calls go to the kernel ─────────────────────────────────────────────────────────────


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which forward ran, by stand-ins."""
    ran: list[str] = []

    def stand_in(name: str) -> Any:
        def run(bound: Bound, output: bool, names: set[str], *_: Any) -> Any:
            ran.append(name)
            made = triton_forward.new_found(bound, output, names)
            return made._replace(state=RowState(*(torch.zeros_like(t) for t in made.state)))

        return run

    monkeypatch.setattr(page, "forward", stand_in("hopper"))
    monkeypatch.setattr(triton_forward, "forward", stand_in("triton"))
    monkeypatch.setattr(decode, "decode", stand_in("decode"))
    return ran


PREFIX_OR_CAUSAL = regard.Causal() | regard.Prefix(3)
X = zeros(1, 2, 20, 64)
CALLS = {
    "grouped": (call(zeros(2, 4, 20, 64), zeros(2, 2, 30, 64)), "hopper"),
    "heads last": (call(zeros(2, 20, 4, 64).transpose(1, 2), zeros(2, 4, 30, 64)), "hopper"),
    "no batch": (call(zeros(20, 128), zeros(30, 128), mask=regard.Causal()), "hopper"),
    "prefix or causal": (call(X, X, mask=PREFIX_OR_CAUSAL), "hopper"),
    "every second key": (call(X, zeros(1, 2, 30, 64)[:, :, ::2]), "hopper"),
    "two intervals": (call(X, X, mask=~regard.Window(2, 2)), "triton"),
    "large scale": (call(X, X, scale=2.0), "triton"),
    "one key for two heads": (call(X, zeros(1, 1, 20, 64).expand(1, 2, 20, 64)), "triton"),
    "one key for two entries": (call(zeros(2, 2, 20, 64), X.expand(2, 2, 20, 64)), "triton"),
    "not aligned": (call(X, zeros(1, 2, 20, 65)[..., :64]), "triton"),
    "no keys": (call(X, zeros(1, 2, 0, 64)), "triton"),
    "single precision": (call(X.float(), X.float()), "triton"),
    "narrow values": (call(X, X, zeros(1, 2, 20, 32)), "triton"),
    "decoding": (call(zeros(1, 2, 3, 64), zeros(1, 2, 2000, 64)), "decode"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_kernel_runs_where_it_fits(called: list[str], name: str) -> None:
    asked, ran = CALLS[name]
    answers = HOPPER.rows(asked, True, (Entropy(), MaxScore()))
    assert called == [ran] and answers.output is not None
    assert answers.output.shape == (*asked.query.shape[:-1], asked.value.shape[-1])
    TRITON.rows(asked, True, ())
    assert called == [ran, "decode" if ran == "decode" else "triton"]


def test_without_an_output_values_do_not_matter(called: list[str]) -> None:
    HOPPER.rows(call(X, X, zeros(1, 2, 20, 0)), False, (Entropy(),))
    assert called == ["hopper"]
