"""Every contender is checked before it is timed; rows say what ran, how long, with what memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import _cur_sdpa_kernel_backends
from torch.nn.functional import scaled_dot_product_attention

import regard
from bench.gpu import contenders, race
from bench.gpu.contenders import SUMMARIES, eager_fits, flex, forwards, peers
from bench.gpu.race import race_backward, race_columns, race_evict, race_forward, race_short
from bench.gpu.size import Size
from host_stage import Host
from regard.bench.results import WrongResultError
from regard.engine.attention import Attention
from regard.engine.call import map_parts

FULL, CAUSAL = Size(16, 2, 4, 48, False), Size(16, 1, 2, 50, True)
DECODE = Size(16, 2, 4, 64, False, key_heads=2, decoding=True)
EVERYBODY = ["cudnn", "flash", "bare", "statistics", "everything", "eager with weights"]


@pytest.mark.parametrize("size", [FULL, CAUSAL, DECODE], ids=str)
def test_a_row_for_everybody(size: Size) -> None:
    rows = race_forward(Host(peak=3 * 2**20), size, suite="gpu forward", seconds=0)
    assert [row.what for row in rows] == EVERYBODY
    for row in rows:
        assert row.p20_ms <= row.median_ms <= row.p80_ms
        assert row.peer == "cudnn" and row.ratio > 0 and row.extra_mib == 3.0
        assert (row.batch, row.heads, row.tokens) == (size.batch, size.heads, size.tokens)
        assert row.machine == "a processor" and row.dtype == "bfloat16" and not row.note
    made = {row.what: row.implementation for row in rows}
    assert made["cudnn"] == made["eager with weights"] == "torch" and made["everything"] == "cpu"


def test_speed_is_that_of_the_plain_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "seconds", lambda self, run, calls: 1e-6)
    rows = race_forward(Host(), Size(16, 8, 16, 64, False), suite="gpu forward", seconds=0)
    assert {row.tflops for row in rows} == {round(4 * 8 * 16 * 64 * 64 * 16 / 1e-6 / 1e12, 1)}
    assert {row.median_ms for row in rows} == {0.001} and {row.ratio for row in rows} == {1.0}
    assert {row.extra_mib for row in rows} == {None}


def test_where_eager_does_not_fit_the_row_says_so() -> None:
    stage = Host(free=5 * CAUSAL.weights)
    assert not eager_fits(stage, CAUSAL)
    assert eager_fits(Host(free=5 * CAUSAL.weights + 1), CAUSAL)
    rows = race_forward(stage, CAUSAL, suite="gpu length", seconds=0, only=tuple(EVERYBODY))
    assert [row.what for row in rows] == EVERYBODY[:-1]
    notes = {row.what: row.note for row in rows}
    assert notes["everything"].startswith("eager with weights cannot run: its weights alone take")
    assert not notes["cudnn"]


def test_only_some_are_timed() -> None:
    rows = race_forward(Host(), FULL, suite="s", seconds=0, only=("cudnn", "everything"))
    assert [row.what for row in rows] == ["cudnn", "everything"]


@pytest.mark.parametrize("size", [FULL, CAUSAL], ids=str)
def test_gradients_have_rows_too(size: Size) -> None:
    rows = race_backward(Host(), size, suite="gpu backward", seconds=0)
    assert [row.what for row in rows] == ["cudnn", "flash", "backward", "backward + entropy"]
    assert rows[0].ratio == 1.0


@pytest.mark.parametrize("size", [CAUSAL, replace(CAUSAL, tokens=80), DECODE], ids=str)
def test_what_a_host_costs(size: Size) -> None:
    rows = race_short(Host(), size, suite="gpu short", seconds=0)
    plain = ["cudnn", "bare", "statistics", "everything", "top 8"]
    plain += ["received 64"] if size.queries > 64 else []
    assert [row.what for row in rows] == [*plain, *(f"{name}, graph" for name in plain)]
    assert {row.peer for row in rows} == {"cudnn"} and rows[-1].implementation == "cpu"


COLUMNS = (Size(16, 1, 2, 50, True), Size(16, 1, 2, 90, False, some=30))


@pytest.mark.parametrize("size", COLUMNS, ids=str)
def test_column_sums_with_and_without_the_peer(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ["column sums", "column sums from lse"]
    rows = race_columns(Host(), size, suite="gpu columns", seconds=0)
    assert [row.what for row in rows] == ours and {row.dtype for row in rows} == {"float16"}

    def flash_colreduce(q: Tensor, k: Tensor, reduction: str, is_causal: bool) -> Tensor:
        assert reduction == "sum"
        return regard.replay(q, k, mask=regard.Causal() if is_causal else None).received()

    monkeypatch.setattr(contenders, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "flash_colreduce", SimpleNamespace(**locals()))
    rows = race_columns(Host(), size, suite="gpu columns", seconds=0)
    assert [row.what for row in rows] == ["flash-colreduce", *ours]
    assert {row.peer for row in rows} == {"flash-colreduce"}


def test_scores_of_keys_beyond_a_forward() -> None:
    size = replace(CAUSAL, tokens=90)
    rows = race_evict(Host(), size, suite="gpu evict", seconds=0)
    named = ["bare", "received 64", "snapkv", "sums of columns", "largest of columns"]
    assert [row.what for row in rows] == named
    assert [row.peer for row in rows] == ["bare"] * 3 + ["sums of columns"] * 2
    assert rows[2].note.endswith("ms beyond bare") and not rows[0].note


@pytest.mark.parametrize("name", ["top 8", "received 64"])
def test_a_wrong_answer_is_not_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = replace(CAUSAL, tokens=80)
    method = {"top 8": "top", "received 64": "received"}[name]
    right = getattr(Attention, method)

    def wrong(self: Attention, *args: Any, **options: Any) -> Any:
        found = right(self, *args, **options)
        alone = options or args == (8,)
        return map_parts(found, lambda t: t * 2) if alone else found

    monkeypatch.setattr(Attention, method, wrong)
    with pytest.raises(WrongResultError):
        race_short(Host(), size, suite="gpu short", seconds=0)


def test_short_calls_come_many_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    for taken, wanted in ((1e-3, 8), (1e-6, 20), (1.0, 1)):
        stage = Host()
        asked: list[int] = []

        def seconds(run: Any, calls: int, taken: float = taken, asked: Any = asked) -> float:
            asked.append(calls)
            return taken

        monkeypatch.setattr(stage, "seconds", seconds)
        race_forward(stage, CAUSAL, suite="s", seconds=0, only=("cudnn", "bare"))
        assert asked[0] == 1 and set(asked[1:]) == {wanted}


# ── wrong ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["cudnn", "flash", "eager with weights"])
def test_a_peer_that_is_wrong_gets_no_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def with_one_wrong(*given: Any) -> Any:
        right = forwards(*given)
        return right | {name: lambda: right[name]() + 0.5}

    monkeypatch.setattr(race, "forwards", with_one_wrong)
    with pytest.raises(WrongResultError, match=rf"output of {name}, d16 1×2×50 causal"):
        race_forward(Host(), CAUSAL, suite="s", seconds=0)


@pytest.mark.parametrize(
    ("question", "what", "who"),
    [
        ("entropy", "entropy", "statistics"), ("max_score", "max score", "statistics"),
        ("received", "received mass", "everything"), ("pooled", "pooled map", "everything"),
    ],
)  # fmt: skip
def test_every_statistic_is_checked(
    monkeypatch: pytest.MonkeyPatch, question: str, what: str, who: str
) -> None:
    right = getattr(Attention, question)
    monkeypatch.setattr(Attention, question, lambda self: right(self) * 1.5 + 0.01)
    with pytest.raises(WrongResultError, match=rf"{what} of {who}, .* is off by"):
        race_forward(Host(), CAUSAL, suite="s", seconds=0)


def test_top_weights_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Attention.top

    def halved(self: Attention, k: int) -> Any:
        found = right(self, k)
        return found._replace(weights=found.weights / 2)

    monkeypatch.setattr(Attention, "top", halved)
    with pytest.raises(WrongResultError, match="top weights of everything"):
        race_forward(Host(), CAUSAL, suite="s", seconds=0)


@pytest.mark.parametrize("letter", "qkv")
def test_gradients_are_checked(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    right = regard.attend

    def wrong(*given: Any, **options: Any) -> Any:
        """Right outputs, one gradient doubled."""
        moved = list(given)
        at = "qkv".index(letter)
        moved[at] = 2 * given[at] - given[at].detach()
        return right(*moved, **options)

    monkeypatch.setattr(regard, "attend", wrong)
    with pytest.raises(WrongResultError, match=rf"gradient of {letter} by backward"):
        race_backward(Host(), CAUSAL, suite="s", seconds=0)


# ── who takes part ───────────────────────────────────────────────────────────────────────────


def test_a_peer_that_cannot_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who refuses says so in words that are waited for; other errors are told."""
    stage = Host()
    stage.backends["cudnn"] = contenders.SDPBackend.CUDNN_ATTENTION  # not on a CPU
    assert list(peers(stage, FULL, FULL.inputs("cpu"))) == ["flash"]

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(contenders, "scaled_dot_product_attention", broken)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        peers(stage, FULL, FULL.inputs("cpu"))


def test_a_backend_is_named_once_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming it takes longer than a small call, and a model does not do so either."""
    named, inside, plain = [0], [], contenders.sdpa_kernel

    @contextmanager
    def naming(backend: Any) -> Iterator[None]:
        named[0] += 1
        with plain(backend):
            yield

    def attention(*given: Any, **options: Any) -> Any:
        inside.append(contenders.SDPBackend.MATH in _cur_sdpa_kernel_backends())
        return scaled_dot_product_attention(*given, **options)

    monkeypatch.setattr(contenders, "sdpa_kernel", naming)
    monkeypatch.setattr(contenders, "scaled_dot_product_attention", attention)
    monkeypatch.setattr(race, "_SAMPLE", 1.0)  # as many calls a sample as there may be
    race_forward(Host(), FULL, suite="s", seconds=0, only=("cudnn",))
    assert inside.count(False) == 1  # the other backend, whether it can at all
    assert len(inside) > 10 * named[0]


def test_flex_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    monkeypatch.setattr(contenders, "_compiled_flex", lambda: flex_attention)
    for size in (Size(16, 1, 2, 128, False), Size(16, 1, 2, 128, True)):
        given = size.inputs("cpu")
        right = regard.attend(*given, mask=size.mask, implementation="dense").output
        torch.testing.assert_close(flex(size, given)(), right, rtol=2e-2, atol=2e-2)


def test_everything_is_what_the_docs_say() -> None:
    kinds = [type(summary).__name__ for summary in SUMMARIES["everything"]]
    assert kinds == ["Entropy", "MaxScore", "Received", "Pooled", "Top"]
