"""What is launched: which rows, in what order, over which memory. A stand-in takes the launches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
import warm
from regard.engine import api
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.hopper import forward as page
from regard.engine.backends.gpu.hopper.forward import fits, forward
from regard.engine.backends.gpu.prune import Pruner
from regard.engine.call import RowState

HALF = torch.bfloat16


def bound_of(query: Tensor, key: Tensor, value: Tensor | None = None, **options: Any) -> Bound:
    given = dict.fromkeys(("mask", "scale", "bias", "softcap", "sink")) | options
    value = key if value is None else value
    return bind(api._call(query, key, value, dropout=0.0, **given))


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=HALF)


class Kernel:
    """Remembers how it was launched."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.launches = names, list[tuple[int, dict[str, Any]]]()

    def __getitem__(self, grid: tuple[int]) -> Any:
        def launch(*told: Any, **constants: Any) -> None:
            words = dict(zip(self.names, told, strict=False)) | constants
            self.launches.append((grid[0], words))

        return launch


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel([param.name for param in page.attention.params])
    monkeypatch.setattr(page, "attention", made)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132)
    )
    return made


class Watcher:
    def __init__(self, tall: int) -> None:
        self.tall = tall
        self.seen: list[tuple[tuple[int, ...], int, RowState]] = []

    def see(self, maxima: Tensor, start: int, state: RowState) -> None:
        self.seen.append((tuple(maxima.shape), start, state))


# ── launches ─────────────────────────────────────────────────────────────────────────────────


def test_a_launch_has_as_many_programs_as_the_gpu_or_fewer(kernel: Kernel) -> None:
    for queries, programs in ((1, 8), (300, 24), (5000, 132)):
        forward(bound_of(zeros(2, 4, queries, 64), zeros(2, 2, 100, 64)), True, set(), None)
        grid, words = kernel.launches[-1]
        assert grid == programs
        assert words["items"] == words["blocks"] * 8 and words["blocks"] == -(-queries // 128)
        assert (words["base"], words["tall"], words["group"]) == (0, queries, 2)


def test_only_what_is_asked_has_a_place(kernel: Kernel) -> None:
    bound = bound_of(zeros(1, 2, 20, 64), zeros(1, 2, 30, 64))
    found = forward(bound, True, {"entropy", "visible"}, None)
    words = kernel.launches[-1][1]
    assert words["asked"].output is found.output and words["OUTPUT"] is True
    assert words["asked"].entropy is found.numbers["entropy"]
    assert words["asked"].visible is found.numbers["visible"]
    assert found.numbers["visible"].dtype == torch.int32
    assert words["asked"].squares is None and words["asked"].maxima is None
    assert words["given"] == (None, None) and words["state"] == tuple(found.state)
    bare = forward(bound, False, set(), found.state)
    words = kernel.launches[-1][1]
    assert bare.output is None and words["OUTPUT"] is False
    assert [part.dtype for part in words["given"]] == [torch.float32] * 2


def test_a_watcher_gets_rows_in_whole_blocks(kernel: Kernel) -> None:
    bound = bound_of(zeros(2, 4, 700, 128), zeros(2, 4, 2100, 128), mask=regard.Causal())
    watcher = Watcher(256)
    found = forward(bound, True, set(), None, watcher)
    assert [w["base"] for _, w in kernel.launches] == [0, 2, 4]
    assert [w["blocks"] for _, w in kernel.launches] == [2, 2, 2]
    assert [w["tall"] for _, w in kernel.launches] == [256] * 3
    assert watcher.seen == [((2, 4, 33, 256), start, found.state) for start in (0, 256, 512)]
    watcher = Watcher(256)
    more = RowState(torch.zeros(2, 4, 700), torch.ones(2, 4, 700))
    forward(bound, True, set(), more, watcher)
    assert all(state is more for _, _, state in watcher.seen)


def test_pruning_takes_whole_blocks() -> None:
    for dim in (64, 128):
        for queries, keys in ((20, 2048), (700, 2100), (5000, 40000)):
            bound = bound_of(zeros(1, 2, queries, dim), zeros(1, 2, keys, dim))
            assert fits(bound, True, Pruner(bound, 8))
    assert not fits(bound, True, Watcher(100))


def test_under_a_causal_mask_all_heads_go_together(kernel: Kernel) -> None:
    for mask, crowd in ((None, 1), (regard.Causal(), 8), (regard.Window(9), 8)):
        forward(bound_of(zeros(2, 4, 300, 64), zeros(2, 4, 300, 64), mask=mask), True, set(), None)
        assert kernel.launches[-1][1]["crowd"] == crowd


def test_every_word_is_the_kernels(kernel: Kernel) -> None:
    from regard.engine.backends.gpu.hopper.kernel import attention

    forward(bound_of(zeros(1, 1, 9, 64), zeros(1, 1, 9, 64)), True, set(), None)
    own = {"num_warps", "maxnreg", "enable_fp_fusion"}
    assert set(kernel.launches[-1][1]) - own == {p.name for p in attention.params}


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
    kernel: Kernel, query: Tensor, strides: tuple[int, ...]
) -> None:
    bound = bound_of(query, query)
    assert fits(bound, True)
    forward(bound, True, set(), None)
    words = kernel.launches[-1][1]
    for name in ("q", "k", "v"):
        found = tuple(words[f"{name}_{axis}"] for axis in ("batch", "head", "token"))
        assert found == strides and all(stride * 2 % 16 == 0 < stride for stride in found)


def test_what_stands_still_is_not_fetched() -> None:
    one = zeros(1, 1, 20, 64)
    assert fits(bound_of(zeros(2, 2, 20, 64), one.expand(2, 2, 20, 64).clone()), True)
    assert not fits(bound_of(zeros(2, 2, 20, 64), one.expand(2, 2, 20, 64)), True)
    assert not fits(bound_of(zeros(2, 2, 20, 64), zeros(2, 2, 0, 64)), True)


# ── spans ────────────────────────────────────────────────────────────────────────────────────

RANGES = """
import torch, regard
from regard.engine import api
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.hopper.walk import ranges_of
x = torch.zeros(2, 1, 300, 64)
for mask in (regard.Padding([7, 200]) & regard.Causal(), regard.Prefix(130), regard.Causal()):
    rule = bind(api._call(x, x, x, mask, None, None, None, None, 0.0)).rule
    found = ranges_of(rule, (128, 128))
    print(None if found is None else found.tolist())
"""


def test_spans_are_worked_out_once_for_every_block_of_rows() -> None:
    """(start, full, partial, end) in tiles of 128 keys; bands need no table."""
    run = warm.run(RANGES, interpret=True)
    assert run.returncode == 0, run.stderr[-2000:]
    short = [[0, 0, 0, 1]] * 3
    assert [eval(line) for line in run.stdout.splitlines()] == [
        [short, [[0, 0, 0, 1], [0, 0, 1, 2], [0, 0, 1, 2]]],
        [[[0, 0, 1, 2]] * 3],
        None,
    ]
