"""`python -m bench gpu` on a processor in place of a GPU: every contender is checked before it is
timed; rows say what ran, how long, with what memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

import regard
from bench.gpu import (
    PARTS,
    contenders,
    distance,
    generate,
    jobs,
    llama,
    monitor,
    parts,
    race,
    reference,
)  # fmt: skip
from bench.gpu.race import race_backward, race_columns, race_evict, race_forward, race_short
from bench.gpu.size import Size
from regard.bench import Result
from regard.bench.results import WrongResultError
from regard.engine.call import map_parts
from support.host_stage import Host

FULL, CAUSAL = Size(16, 2, 4, 48, False), Size(16, 1, 2, 50, True)
DECODE = Size(16, 2, 4, 64, False, key_heads=2, decoding=True)
LONG = replace(CAUSAL, tokens=90)  # than the 64 queries that are asked afterwards
FORWARD = "cudnn/flash/bare/statistics/everything/eager with weights"
SHORT = "cudnn/bare/statistics/everything/top 8"
SUMS = "column sums/column sums from lse"
RACES: list[tuple[Callable[..., list[Result]], Size, str]] = [
    (race_forward, FULL, FORWARD), (race_forward, CAUSAL, FORWARD), (race_forward, DECODE, FORWARD),
    (race_backward, FULL, "cudnn/flash/backward/backward + entropy"),
    (race_backward, CAUSAL, "cudnn/flash/backward/backward + entropy"),
    (race_short, CAUSAL, SHORT), (race_short, DECODE, SHORT),
    (race_short, LONG, f"{SHORT}/received 64"),
    (race_columns, CAUSAL, SUMS), (race_columns, Size(16, 1, 2, 90, False, some=30), SUMS),
    (race_evict, LONG, "bare/received 64/snapkv/sums of columns/largest of columns"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ran", "size", "names"), RACES, ids=lambda given: getattr(given, "__name__", str(given))
)
def test_a_row_for_each(ran: Any, size: Size, names: str) -> None:
    rows = ran(Host(peak=3 * 2**20), size, suite="gpu some", seconds=0)
    what = names.split("/") + (
        [f"{name}, graph" for name in names.split("/")] if ran is race_short else []
    )
    assert [row.what for row in rows] == what
    columns = [row for row in rows if row.what.endswith("of columns")]
    for row in rows:
        assert row.peer == ("sums of columns" if row in columns else what[0])
        assert row.ratio > 0 and row.p20_ms <= row.median_ms <= row.p80_ms
        assert (row.batch, row.heads, row.tokens) == (size.batch, size.heads, size.tokens)
        assert row.dtype == ("float16" if ran is race_columns else "bfloat16")
        assert row.extra_mib == (3.0 if ran in (race_forward, race_backward) else None)
        assert row.machine == "a processor"
        assert row.note == "" or ran is race_evict
        is_ours = not row.what.startswith(("cudnn", "flash", "eager"))
        assert (row.implementation != "torch") is is_ours
    assert rows[0].ratio == 1
    if ran is race_evict:
        assert [row.note.endswith("ms beyond bare") for row in rows] == [False, True, True] + [
            False
        ] * 2


def test_speed_is_that_of_the_plain_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "seconds", lambda self, run, calls: 1e-6)
    for size in (Size(16, 8, 16, 64, False), Size(16, 8, 16, 64, True)):
        rows = race_forward(Host(), size, suite="gpu forward", seconds=0)
        work = 4 * 8 * 16 * 64 * 64 * 16 / (2 if size.causal else 1)
        assert {row.tflops for row in rows} == {round(work / 1e-6 / 1e12, 1)}
        assert {(row.median_ms, row.ratio, row.extra_mib) for row in rows} == {(0.001, 1.0, None)}


def test_where_eager_does_not_fit_the_row_says_so() -> None:
    rows = race_forward(Host(free=5 * CAUSAL.weights + 1), CAUSAL, suite="s", seconds=0)
    assert rows[-1].what == "eager with weights" and not any(row.note for row in rows)
    rows = race_forward(Host(free=5 * CAUSAL.weights), CAUSAL, suite="s", seconds=0)
    assert rows[-1].what == "everything"
    assert rows[-1].note.startswith("eager with weights cannot run: its weights alone take")
    assert not any(row.note for row in rows[:-1])


def test_a_peer_that_cannot_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refuses says so in words that are known; other errors end the race."""
    stage = Host()
    stage.backends["cudnn"] = contenders.SDPBackend.CUDNN_ATTENTION  # not on a CPU
    assert list(contenders.peers(stage, FULL, FULL.inputs("cpu"))) == ["flash"]

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(contenders, "scaled_dot_product_attention", broken)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        contenders.peers(stage, FULL, FULL.inputs("cpu"))


@pytest.mark.parametrize("causal", [False, True])
def test_flex_computes_the_same(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    monkeypatch.setattr(contenders, "_compiled_flex", lambda: flex_attention)
    size = Size(16, 1, 2, 128, causal)
    rows = race_forward(Host(), size, suite="s", seconds=0, only=("flex",), with_flex=True)
    assert [row.what for row in rows] == ["flex"]


# ── wrong answers ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["cudnn", "flash", "eager with weights"])
def test_a_peer_that_is_wrong_gets_no_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    right = race.forwards

    def with_a_wrong_peer(*given: Any) -> Any:
        runs = right(*given)
        return runs | {name: lambda: runs[name]() + 0.5}

    monkeypatch.setattr(race, "forwards", with_a_wrong_peer)
    with pytest.raises(WrongResultError, match=rf"output of {name}, d16 1×2×50 causal"):
        race_forward(Host(), CAUSAL, suite="s", seconds=0)


@pytest.mark.parametrize(
    ("ran", "question", "given", "what"),
    [
        (race_forward, "entropy", (), "entropy of statistics"),
        (race_forward, "max_score", (), "max score of statistics"),
        (race_forward, "received", (), "received mass of everything"),
        (race_forward, "pooled", (), "pooled map of everything"),
        (race_forward, "top", (8,), "top weights of everything"),
        (race_short, "received", {"queries": 64}, "mass of the last of received 64"),
        (race_columns, "received", (), "column sums"),
        (race_evict, "received", {"how": "max"}, "largest of columns"),
    ],
)  # fmt: skip
def test_every_statistic_is_checked(
    monkeypatch: pytest.MonkeyPatch, ran: Any, question: str, given: Any, what: str
) -> None:
    right = getattr(regard.Attention, question)

    def wrong(self: Any, *args: Any, **options: Any) -> Any:
        answer = right(self, *args, **options)
        is_meant = given in (args, options)
        return map_parts(answer, lambda t: t * 1.5 + 0.01) if is_meant else answer

    monkeypatch.setattr(regard.Attention, question, wrong)
    with pytest.raises(WrongResultError, match=rf"^{what}, .* is off by"):
        ran(Host(), LONG, suite="s", seconds=0)


@pytest.mark.parametrize("letter", "qkv")
def test_gradients_are_checked(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    right = regard.attend

    def wrong(*given: Any, **options: Any) -> Any:
        """Right outputs, a gradient doubled."""
        moved = list(given)
        at = "qkv".index(letter)
        moved[at] = 2 * given[at] - given[at].detach()
        return right(*moved, **options)

    monkeypatch.setattr(regard, "attend", wrong)
    with pytest.raises(WrongResultError, match=rf"gradient of {letter} by backward, d16"):
        race_backward(Host(), CAUSAL, suite="s", seconds=0)


# ── what is right ────────────────────────────────────────────────────────────────────────────

IN_PIECES = pytest.mark.parametrize("rows", [7, 1000], ids=["in pieces", "whole"])
SIZES = (
    Size(8, 2, 2, 40, False),
    Size(8, 1, 3, 41, True),
    Size(8, 2, 4, 30, False, key_heads=2, decoding=True),
    Size(4, 1, 1, 700, True),
)


@IN_PIECES
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_number_is_the_definitions(size: Size, rows: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(reference, "_BYTES", 8 * size.tokens * rows)
    q, k, v = (t.double() for t in size.inputs("cpu"))
    exact = reference.truth(size, q, k, v)
    a = regard.attend(q, k, v, mask=size.mask, implementation="dense")
    numbers = {
        "output": a.output, "lse": a.lse, "entropy": a.entropy(), "max_score": a.max_score(),
        "top": a.top(8).weights, "received": a.received(), "pooled": a.pooled(),
        "received_last": a.received(queries=64), "largest": a.received(how="max"),
    }  # fmt: skip
    for name, values in numbers.items():
        torch.testing.assert_close(getattr(exact, name), values[-1, -1])


@IN_PIECES
@pytest.mark.parametrize("with_entropy", [False, True])
@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_gradients_are_the_definitions(
    size: Size, with_entropy: bool, rows: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(reference, "_BYTES", 8 * size.tokens * rows)
    leaves = [t.double().requires_grad_() for t in size.inputs("cpu")]
    outer = torch.randn(leaves[0].shape, dtype=torch.float64)
    a = regard.attend(*leaves, mask=size.mask, implementation="dense")
    loss = (a.output * outer).sum() + (a.entropy().sum() if with_entropy else 0)
    right = torch.autograd.grad(loss, leaves)
    mine = reference.gradients(size, leaves, outer, with_entropy)
    torch.testing.assert_close(mine, tuple(exact[-1, -1] for exact in right))
    assert all(leaf.grad is None for leaf in leaves)


def test_what_is_off_is_named_however_small_its_numbers() -> None:
    """A lost key among thousands changes weights by less than a thousandth of 1."""
    right = torch.full((4, 8), 1e-3, dtype=torch.float64)
    nothing = torch.zeros(3, dtype=torch.float64)
    for exact in (right, nothing):
        reference.expect(exact.float(), exact, 1e-3, "weights")
    for wrong in (9e-4, torch.nan, torch.inf):
        lost = right.clone()
        lost[2, 7] = wrong
        with pytest.raises(WrongResultError, match=r"weights is off by .*no time is reported"):
            reference.expect(lost, right, 1e-3, "weights")


# ── the parts ────────────────────────────────────────────────────────────────────────────────


def test_all_parts_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    flexed: list[Size] = []
    monkeypatch.setattr(
        parts, "race_forward",
        lambda stage, size, with_flex=False, **_: flexed.append(size) if with_flex else None,
    )  # fmt: skip
    every = jobs(Host(), [], [64, 128], 0.0)
    assert list(dict.fromkeys(job.part for job in every)) == list(PARTS)
    assert {part: sum(job.part == part for job in every) for part in PARTS} == {
        "forward": 8, "length": 2, "short": 8, "columns": 3, "evict": 3, "decode": 3, "backward": 8,
        "distance": 3, "llama": 2, "generate": 1, "monitor": 1,
    }  # fmt: skip
    some = jobs(Host(), ["length", "forward"], [64, 128], 0.0)
    assert [job.label for job in some[8:]] == ["d128 1×8×64 causal", "d128 1×8×128 causal"]
    for job in some:
        job.run()
    assert [(s.dim, s.tokens, s.causal) for s in flexed] == [
        (128, 16384, False), (128, 16384, True),
    ]  # fmt: skip


def test_an_attention_that_imitates_another(monkeypatch: pytest.MonkeyPatch) -> None:
    size = Size(16, 2, 4, 48, True)
    rows = distance.measure(Host(), size, seconds=0)
    assert [row.what for row in rows] == ["backward", "kl", "kl of sums", "dense"]
    assert {(row.suite, row.peer) for row in rows} == {("gpu distance", "backward")}
    rows = distance.measure(Host(free=1), size, seconds=0)
    assert "dense" not in {row.what for row in rows}
    right = regard.divergence
    monkeypatch.setattr(regard, "divergence", lambda *a, **b: right(*a, **b) * 1.01)
    with pytest.raises(WrongResultError, match="value by kl"):
        distance.measure(Host(), size, seconds=0)


def test_a_model_that_is_recorded(shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_default_dtype()
    plain, *others = llama.measure(Host(peak=2**21), 70, shape)
    assert [row.what for row in (plain, *others)] == ["sdpa", "statistics", "recorded"]
    assert plain.ratio == 1 and plain.extra_mib == 2.0 and not plain.note
    for row in others:
        assert row.ratio > 0 and (row.heads, row.dim, row.tokens) == (4, 16, 70)
        assert re.fullmatch(r"a file of \S+ GB, which this disk takes \S+ s to write", row.note)
    model = llama.new_model("cpu", tuple(shape.items()))
    assert model is llama.new_model("cpu", tuple(shape.items())), "two lengths share one model"
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert torch.get_default_dtype() == before

    @contextmanager
    def louder(model: Any, path: Any, **_: Any) -> Iterator[None]:
        def double(module: Any, given: Any, output: Any) -> None:
            output.logits = output.logits * 2

        with model.register_forward_hook(double):
            yield

    monkeypatch.setattr(regard, "record", louder)
    with pytest.raises(WrongResultError, match="logits at 9 tokens, statistics is off by"):
        llama.measure(Host(), 9, shape)


def test_a_model_that_writes(shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = generate.measure(Host(), 30, 4, shape)
    assert [(row.suite, row.what) for row in rows] == [
        ("gpu prefill", "sdpa"), ("gpu prefill", "regard"),
        ("gpu generate", "sdpa"), ("gpu generate", "regard"),
    ]  # fmt: skip
    assert rows[0].ratio == rows[2].ratio == 1 and all(row.median_ms > 0 for row in rows)
    assert rows[3].note == "4 of 4 tokens as sdpa writes them"
    model = llama.new_model("cpu", tuple(shape.items()))
    assert model.config._attn_implementation == "sdpa", "left as it was"
    wrong = {"sdpa": torch.ones(3), "regard": torch.zeros(3)}
    monkeypatch.setattr(generate, "_prefilled", lambda model, ids, name: wrong[name])
    with pytest.raises(WrongResultError, match="logits at 9 tokens is off by"):
        generate.measure(Host(), 9, 2, shape)


def test_a_token_of_another_logit_gets_no_time() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [3.0, 2.98, 0.0]])
    right = torch.tensor([2, 0]), logits
    assert generate.check_tokens(right, right) == 2
    assert generate.check_tokens(right, (torch.tensor([2, 1]), logits)) == 1, "0.02 is rounding"
    with pytest.raises(WrongResultError, match=r"token 0 is 1 instead of 2, .* larger by 1;"):
        generate.check_tokens(right, (torch.tensor([1, 0]), logits))


def test_a_model_that_is_monitored(shape: Any, stage: Any, monkeypatch: Any) -> None:
    model = llama.new_model("cpu", tuple(shape.items()))
    before = [p.detach().clone() for p in model.parameters()]
    rows = monitor.measure(stage, 2, 20, shape)
    kinds = ("", " monitored", " monitored, 1 in 10")
    assert [row.what for row in rows] == [f"{n}{k}" for n in ("sdpa", "regard") for k in kinds]
    assert rows[0].ratio == 1 and all(row.ratio > 0 and row.median_ms > 0 for row in rows)
    assert {(row.suite, row.batch, row.tokens) for row in rows} == {("gpu monitor", 2, 20)}
    assert not model.training and model.config._attn_implementation == "sdpa", "left as it was"
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert parameter.grad is None and torch.equal(parameter, old)
    monkeypatch.setattr(regard.Monitor, "step", lambda self: None)
    with pytest.raises(WrongResultError, match=r"sdpa monitored: a loss of .* and 0 heads"):
        monitor.measure(stage, 1, 20, shape)
