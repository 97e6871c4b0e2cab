"""Packed sequences: whatever is asked of the pack is what each sequence says alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from installed import needs_one_graph
from regard.engine.backends.tiled import tile
from regard.errors import DTypeError, GradientError, InputError, ShapeError, UnavailableError
from regard.summary import Matching

QUERIES = [0, 0, 1, 64, 64, 193]  # 0, 1, 63, 0 and 129 of them
KEYS = [0, 63, 64, 64, 193, 300]  # 63, 1, 0, 129 and 107
SAME = [0, 1, 64, 64, 193]

MASKS: dict[str, Any] = {
    "none": None,
    "causal": regard.Causal(),
    "causal window": regard.Causal() & regard.Window(40),
    "window": regard.Window(10, 3),
    "start": regard.Causal("start"),
    "prefix": regard.Causal() | regard.Prefix(5),
    "rule": regard.Rule(lambda b, h, i, j: (i + j + b + h) % 3 != 0),
    "padding": regard.Padding(torch.tensor([10, 1, 0, 100, 90])),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cap and sink": {"softcap": 2.0, "scale": 0.4, "sink": torch.tensor([0.5, -1.0, 3.0, 0.0])},
    "alibi": {"bias": regard.ALiBi(torch.tensor([0.1, 0.2, 0.5, 0.02]))},
}


def tensors(queries: list[int], keys: list[int], dtype: torch.dtype) -> list[Tensor]:
    dice = torch.Generator().manual_seed(0)
    sizes = (queries[-1], 4, 16), (keys[-1], 2, 16), (keys[-1], 2, 24)
    return [torch.randn(*size, generator=dice, dtype=dtype) for size in sizes]


def starts(numbers: list[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def alone(given: list[Tensor], n: int, queries: list[int], keys: list[int], mask: Any, **options):
    """The definition on one sequence."""
    q, k, v = given
    rows, cols = slice(queries[n], queries[n + 1]), slice(keys[n], keys[n + 1])
    one = None if mask is None else mask.select((n,))
    turned = (t.transpose(0, 1) for t in (q[rows], k[cols], v[cols]))
    return rows, cols, regard.attend(*turned, mask=one, implementation="dense", **options)


def expect(a: regard.Attention, rows: slice, cols: slice, right: regard.Attention) -> None:
    """Every question, about one sequence's part of the pack."""
    near = {"rtol": 1e-6, "atol": 1e-9}
    for ask in ("entropy", "max_score", "max_logit", "concentration", "distance", "sink_mass"):
        assert_close(getattr(a, ask)()[:, rows], getattr(right, ask)(), **near, msg=ask)
    assert_close(a.lse[:, rows], right.lse)
    assert_close(a.received()[:, cols], right.received(), **near)
    assert_close(a.received(per="visible")[:, cols], right.received(per="visible"), **near)
    best = right.top(3)
    assert_close(a.top(3).weights[:, rows], best.weights, **near)
    named = torch.where(best.keys < 0, best.keys, best.keys + cols.start)
    assert torch.equal(a.top(3).keys[:, rows], named)
    assert_close(a[:, rows, cols], right.dense(), **near)
    assert_close(a.scores[:, rows, cols], right.scores[...], **near)
    x = torch.linspace(-1, 1, a.shape[2], dtype=a.dtype)
    assert_close((a @ x)[:, rows], right @ x[cols], **near)
    y = torch.linspace(-1, 1, a.shape[1], dtype=a.dtype)
    assert_close((a.T @ y)[:, cols], right.T @ y[rows], **near)


PAIRS = [(name, list(OPTIONS)[n % 3]) for n, name in enumerate(MASKS)]


@pytest.mark.parametrize("implementation", ["cpu", "tiled", None])
@pytest.mark.parametrize(("name", "options"), PAIRS)
def test_every_question(name: str, options: str, implementation: str | None) -> None:
    given, mask, more = tensors(QUERIES, KEYS, torch.float64), MASKS[name], OPTIONS[options]
    packed = {"cu_seqlens_q": starts(QUERIES), "cu_seqlens_k": starts(KEYS)}
    if implementation == "cpu" and options == "alibi":
        with pytest.raises(UnavailableError, match="of biases it does not know PackedBias"):
            regard.attend(*given, mask=mask, **packed, **more, implementation="cpu")
        return
    a = regard.attend(*given, mask=mask, **packed, **more, implementation=implementation)
    replayed = regard.replay(*given[:2], a.lse, mask=mask, **packed, **more)
    assert a.shape == (4, 193, 300) and a.output.shape == (193, 4, 24)
    for n in range(len(QUERIES) - 1):
        rows, cols, right = alone(given, n, QUERIES, KEYS, mask, **more)
        assert_close(a.output[rows].transpose(0, 1), right.output)
        expect(a, rows, cols, right)
        if implementation is None:
            expect(replayed, rows, cols, right)
        if implementation == "tiled":
            continue
        one = a.sequence(n)
        assert one.shape == right.shape
        assert_close(one.output.transpose(0, 1), right.output)
        expect(one, slice(None), slice(0, None), right)
        assert_close(one.pooled(7), right.pooled(7))
        offsets = regard.summary.Offsets()
        assert_close(one.summarize(offsets)[offsets], right.summarize(offsets)[offsets])


@pytest.mark.parametrize("bias", [None, "alibi", "relative"])
def test_queries_and_keys_together(bias: str | None) -> None:
    """A bias by distance is the same in such a pack, and kernels read it."""
    given = tensors(SAME, SAME, torch.float64)
    table = torch.randn(8, 4, dtype=torch.float64)
    slopes = torch.rand(4, dtype=torch.float64)
    rules = {None: None, "alibi": regard.ALiBi(slopes), "relative": regard.RelativeBias(table)}
    mask = regard.Causal()
    a = regard.attend(
        *given, mask=mask, bias=rules[bias], cu_seqlens_q=starts(SAME), implementation="cpu"
    )
    for n in range(len(SAME) - 1):
        rows, cols, right = alone(given, n, SAME, SAME, mask, bias=rules[bias])
        assert_close(a.output[rows].transpose(0, 1), right.output)
        expect(a, rows, cols, right)
    offsets = regard.summary.Offsets()  # the pack's diagonals are those of its sequences
    middle, sums = SAME[-1] - 1, a.summarize(offsets)[offsets]
    own = [alone(given, n, SAME, SAME, mask, bias=rules[bias])[2] for n in (0, 1, 3)]
    own = [one.summarize(offsets)[offsets][:, one.shape[1] - 1] for one in own]
    assert_close(sums[:, middle], sum(own))


def test_marks_count_from_each_sequence() -> None:
    given = tensors(QUERIES, KEYS, torch.float64)
    marks = [torch.arange(n) % 5 for n in (193, 300)]
    packed = {"cu_seqlens_q": starts(QUERIES), "cu_seqlens_k": starts(KEYS)}
    for implementation in ("cpu", "tiled"):
        a = regard.attend(*given, **packed, implementation=implementation)
        asked = Matching(*marks)
        mass = a.summarize(asked)[asked]
        for n in range(len(QUERIES) - 1):
            rows, cols, right = alone(given, n, QUERIES, KEYS, None)
            one = Matching(marks[0][rows], marks[1][cols])
            assert_close(mass[:, rows], right.summarize(one)[one])


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
@pytest.mark.parametrize(
    ("name", "options"), [("none", "plain"), ("causal window", "cap and sink"), ("rule", "alibi")]
)
def test_gradients(name: str, options: str, implementation: str | None) -> None:
    given, mask = tensors(QUERIES, KEYS, torch.float64), MASKS[name]
    more = {k: v.double() if isinstance(v, Tensor) else v for k, v in OPTIONS[options].items()}
    if options == "alibi":
        slopes = torch.tensor([0.1, 0.2, 0.5, 0.02], dtype=torch.float64, requires_grad=True)
        more, implementation = {"bias": regard.ALiBi(slopes)}, None
    leaves = [t.requires_grad_() for t in given] + ([slopes] if options == "alibi" else [])

    def loss(a: regard.Attention) -> Tensor:
        weights = a.top(2).weights.square().sum() + a.received().square().sum()
        return a.output.square().sum() + a.entropy().sum() + weights

    a = regard.attend(
        *given, mask=mask, **more, implementation=implementation,
        cu_seqlens_q=starts(QUERIES), cu_seqlens_k=starts(KEYS),
    )  # fmt: skip
    mine = torch.autograd.grad(loss(a), leaves)
    total = sum(
        loss(alone(given, n, QUERIES, KEYS, mask, **more)[2]) for n in range(len(QUERIES) - 1)
    )
    for found, right in zip(mine, torch.autograd.grad(total, leaves), strict=True):
        assert_close(found, right)


def test_a_sequence_carries_the_graph_and_refuses_what_has_none() -> None:
    given = [t.requires_grad_() for t in tensors(QUERIES, KEYS, torch.float64)]
    packed = {"cu_seqlens_q": starts(QUERIES), "cu_seqlens_k": starts(KEYS)}
    a = regard.attend(*given, mask=regard.Causal(), **packed)
    one = a.sequence(-1)
    loss = one.output.sum() + one.entropy().square().sum() + one.lse.sum()
    _, _, right = alone(given, 4, QUERIES, KEYS, regard.Causal())
    exact = right.output.sum() + right.entropy().square().sum() + right.lse.sum()
    for found, wanted in zip(
        torch.autograd.grad(loss, given), torch.autograd.grad(exact, given), strict=True
    ):
        assert_close(found, wanted)
    with pytest.raises(GradientError):
        one.pooled(4).sum().backward()
    assert not a.detach().sequence(2).output.requires_grad


def test_inference_mode_and_starts_that_change() -> None:
    q = torch.randn(12, 2, 8)
    with torch.inference_mode():
        a = regard.attend(q, q, q, cu_seqlens_q=torch.tensor([0, 5, 12]))
        assert a.sequence(1).shape == (2, 7, 7)
    cut = torch.tensor([0, 5, 12])
    regard.attend(q, q, q, cu_seqlens_q=cut)
    cut[1] = 20
    with pytest.raises(InputError, match="falls from 20 to 12"):
        regard.attend(q, q, q, cu_seqlens_q=cut)


def test_equal_starts_are_one_pack() -> None:
    """Queries and keys of self-attention often come with starts of their own."""
    q = torch.randn(12, 2, 8)
    a, b = starts([0, 5, 12]), starts([0, 5, 12])
    bias = regard.ALiBi([0.5, 0.1])
    found = regard.attend(q, q, q, bias=bias, cu_seqlens_q=a, cu_seqlens_k=b, implementation="cpu")
    assert_close(found.output, regard.attend(q, q, q, bias=bias, cu_seqlens_q=a).output)


def test_half_precision_and_no_sequences() -> None:
    given = tensors(QUERIES, KEYS, torch.bfloat16)
    packed = {"cu_seqlens_q": starts(QUERIES), "cu_seqlens_k": starts(KEYS)}
    a = regard.attend(*given, mask=regard.Causal(), **packed)
    assert a.output.dtype == torch.bfloat16
    wide = regard.attend(*(t.double() for t in given), mask=regard.Causal(), **packed)
    assert_close(a.entropy().double(), wide.entropy(), rtol=1e-2, atol=1e-2)
    nobody = [t[:0] for t in given]
    assert regard.attend(*nobody, cu_seqlens_q=[0]).output.shape == (0, 4, 24)
    with pytest.raises(InputError, match="sequence 0 does not exist; there are 0"):
        regard.attend(*nobody, cu_seqlens_q=[0]).sequence(0)


def test_only_tiles_within_sequences_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Σ Lq·Lk and not the square of all tokens, for every sweep over tiles."""
    scored, score = [], tile.score_tile
    monkeypatch.setattr(
        tile, "score_tile", lambda *args, **more: scored.append(args[1:3]) or score(*args, **more)
    )
    each, count = 512, 12
    q = torch.randn(each * count, 1, 8)
    a = regard.attend(
        q, q, q, mask=regard.Causal(), implementation="tiled",
        cu_seqlens_q=torch.arange(0, each * count + 1, each),
    )  # fmt: skip
    a.received()
    tiles = each // tile.ROWS * count  # one tile of keys each
    assert len(scored) == 2 * tiles, "rows and columns"


def test_compiled() -> None:
    needs_one_graph()
    given = tensors(QUERIES, KEYS, torch.float32)

    def ask(q: Tensor, k: Tensor, v: Tensor, rows: Tensor, cols: Tensor) -> tuple[Tensor, ...]:
        a = regard.attend(q, k, v, mask=regard.Causal(), cu_seqlens_q=rows, cu_seqlens_k=cols)
        return a.output, a.entropy(), a.received()

    given += [starts(QUERIES), starts(KEYS)]
    compiled = torch.compile(ask, fullgraph=True, backend="aot_eager")
    for found, right in zip(compiled(*given), ask(*given), strict=True):
        assert_close(found, right)


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"cu_seqlens_q": [1, 193]}, InputError, "cu_seqlens_q begins with 1; .* begins at 0"),
        ({"cu_seqlens_q": [0, 90, 64, 193]}, InputError, "falls from 90 to 64"),
        ({"cu_seqlens_q": [0, 90]}, InputError, "ends with 90, and there are 193 tokens"),
        ({"cu_seqlens_k": [0, 193]}, InputError, "cu_seqlens_k is given without cu_seqlens_q"),
        ({"cu_seqlens_q": [0.0, 193.0]}, DTypeError, "has dtype float32; give int32"),
        ({"cu_seqlens_q": torch.ones(2, 2).int()}, ShapeError, r"has shape \(2, 2\); give a vec"),
        ({"cu_seqlens_q": []}, DTypeError, "dtype float32"),
        ({"cu_seqlens_q": torch.empty(0).int()}, ShapeError, "is empty; give 0 and the end"),
        ({"cu_seqlens_q": [0, 193], "cu_seqlens_k": [0, 1, 193]}, ShapeError, "has 2 numbers"),
        ({"cu_seqlens_q": "all"}, DTypeError, "is a str"),
        (
            {"cu_seqlens_q": [0, 90, 193], "mask": torch.ones(193, 193).bool()}, ShapeError,
            r"of sequence 0: 90 queries, 90 keys\); a rule about packed sequences",
        ),
        (
            {"cu_seqlens_q": [0, 90, 193], "bias": torch.ones(193, 193)}, ShapeError,
            "a rule about packed sequences speaks of each alone",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(given: dict[str, Any], error: Any, said: str) -> None:
    q = torch.randn(193, 4, 16)
    with pytest.raises(error, match=said):
        regard.attend(q, q, q, **given)


def test_a_table_serves_sequences_of_its_size() -> None:
    q, table = torch.randn(20, 4, 16), torch.rand(2, 4, 10, 10) > 0.4
    a = regard.attend(q, q, q, mask=table, cu_seqlens_q=[0, 10, 20])
    one = q[10:].transpose(0, 1)
    right = regard.attend(one, one, one, mask=table[1], implementation="dense")
    assert_close(a.sequence(1).dense(), right.dense())
    assert_close(a[:, 10:, 10:], right.dense())


def test_what_is_refused_of_tensors() -> None:
    q, k = torch.randn(10, 4, 16), torch.randn(12, 4, 16)
    with pytest.raises(InputError, match="10 queries and 12 keys with cu_seqlens_q alone"):
        regard.replay(q, k, cu_seqlens_q=[0, 10])
    both = starts([0, 10])
    with pytest.raises(InputError, match="cu_seqlens_k is cu_seqlens_q, but there are 10 queries"):
        regard.replay(q, k, cu_seqlens_q=both, cu_seqlens_k=both)
    with pytest.raises(ShapeError, match=r"query is \(1, 10, 4, 16\) beside cu_seqlens_q"):
        regard.replay(q[None], k[None], cu_seqlens_q=[0, 10], cu_seqlens_k=[0, 12])
    with pytest.raises(InputError, match=r"sequence\(n\) is for packed sequences"):
        regard.attend(q, q, q).sequence(0)
    with pytest.raises(DTypeError, match="key is a ndarray"):
        regard.replay(q, np.zeros((10, 4, 16)), cu_seqlens_q=[0, 10])
