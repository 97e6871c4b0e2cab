"""Packed sequences: whatever is asked of the pack is what each sequence says alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from engine.conftest import draw, expect_alone, expect_sequence
from regard.errors import DTypeError, GradientError, InputError, ShapeError, UnavailableError

QUERIES = [0, 0, 1, 64, 64, 193]  # 0, 1, 63, 0 and 129 of them
KEYS = [0, 63, 64, 64, 193, 300]  # 63, 1, 0, 129 and 107
SAME = [0, 1, 64, 64, 193]
CAUSAL = regard.Causal()


def tensors(
    queries: list[int], keys: list[int], dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    sizes = (queries[-1], 4, 16), (keys[-1], 2, 16), (keys[-1], 2, 24)
    return [draw(*size, seed=n, dtype=dtype) for n, size in enumerate(sizes)]


def starts(numbers: list[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


PACKED = {"cu_seqlens_q": starts(QUERIES), "cu_seqlens_k": starts(KEYS)}


def alone(given: list[Tensor], n: int, queries: list[int], keys: list[int], mask: Any, **options):
    """The definition on one sequence."""
    q, k, v = given
    rows, cols = slice(*queries[n : n + 2]), slice(*keys[n : n + 2])
    one = None if mask is None else mask.select((n,))
    turned = (t.transpose(0, 1) for t in (q[rows], k[cols], v[cols]))
    return rows, cols, regard.attend(*turned, mask=one, implementation="dense", **options)


SINK = {"softcap": 2.0, "scale": 0.4, "sink": torch.tensor([0.5, -1.0, 3.0, 0.0])}
ALIBI = {"bias": regard.ALiBi(torch.tensor([0.1, 0.2, 0.5, 0.02]))}
RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "none": (None, {}),
    "causal": (CAUSAL, SINK),
    "causal window": (CAUSAL & regard.Window(40), ALIBI),
    "window": (regard.Window(10, 3), {}),
    "start": (regard.Causal("start"), SINK),
    "prefix": (CAUSAL | regard.Prefix(5), ALIBI),
    "rule": (regard.Rule(lambda b, h, i, j: (i + j + b + h) % 3 != 0), {}),
    "padding": (regard.Padding(torch.tensor([10, 1, 0, 100, 90])), SINK),
}


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
@pytest.mark.parametrize("name", RULES)
def test_every_question(name: str, implementation: str) -> None:
    given, (mask, more) = tensors(QUERIES, KEYS), RULES[name]
    if implementation == "cpu" and more == ALIBI:
        with pytest.raises(UnavailableError, match="of biases it does not know PackedBias"):
            regard.attend(*given, mask=mask, **PACKED, **more, implementation="cpu")
        return
    a = regard.attend(*given, mask=mask, **PACKED, **more, implementation=implementation)
    replayed = regard.replay(*given[:2], a.lse, mask=mask, **PACKED, **more)
    assert a.shape == (4, 193, 300) and a.output.shape == (193, 4, 24)
    for n in range(len(QUERIES) - 1):
        rows, cols, right = alone(given, n, QUERIES, KEYS, mask, **more)
        assert_close(a.output[rows].transpose(0, 1), right.output)
        expect_sequence(a, rows, cols, right)
        best = right.top(3).keys
        assert torch.equal(a.top(3).keys[:, rows], best.where(best < 0, best + cols.start))
        if implementation == "cpu":
            expect_sequence(replayed, rows, cols, right)
            expect_sequence(a.sequence(n), slice(None), slice(None), right)
            expect_alone(a.sequence(n), right)
            assert_close(a.sequence(n).output.transpose(0, 1), right.output)


@pytest.mark.parametrize("kind", ["none", "alibi", "relative"])
def test_queries_and_keys_together(kind: str) -> None:
    """A bias by distance is the same in such a pack, and kernels read it. The pack's diagonals are
    those of its sequences. Starts of queries and keys that are equal are one pack."""
    given = tensors(SAME, SAME)
    biases = {"alibi": regard.ALiBi(draw(4).abs()), "relative": regard.RelativeBias(draw(8, 4))}
    rule = {"mask": CAUSAL, "bias": biases.get(kind)}
    a = regard.attend(
        *given, **rule, cu_seqlens_q=starts(SAME), cu_seqlens_k=starts(SAME), implementation="cpu"
    )
    offsets, own = regard.Offsets(), torch.zeros(4)
    for n in range(len(SAME) - 1):
        rows, cols, right = alone(given, n, SAME, SAME, **rule)
        assert_close(a.output[rows].transpose(0, 1), right.output)
        expect_sequence(a, rows, cols, right)
        if right.shape[1]:
            own = own + right.summarize(offsets)[offsets][:, right.shape[1] - 1]
    assert_close(a.summarize(offsets)[offsets][:, SAME[-1] - 1], own)


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
def test_marks_count_from_each_sequence(implementation: str) -> None:
    given, marks = tensors(QUERIES, KEYS), [torch.arange(n) % 5 for n in (193, 300)]
    a, asked = (
        regard.attend(*given, **PACKED, implementation=implementation),
        regard.Matching(*marks),
    )
    mass = a.summarize(asked)[asked]
    for n in range(len(QUERIES) - 1):
        rows, cols, right = alone(given, n, QUERIES, KEYS, None)
        one = regard.Matching(marks[0][rows], marks[1][cols])
        assert_close(mass[:, rows], right.summarize(one)[one])


def test_a_sequence_carries_the_graph_and_refuses_what_has_none() -> None:
    given = [t.requires_grad_() for t in tensors(QUERIES, KEYS)]
    a = regard.attend(*given, mask=CAUSAL, **PACKED)
    *_, right = alone(given, 4, QUERIES, KEYS, CAUSAL)
    losses = [
        x.output.sum() + x.entropy().square().sum() + x.lse.sum() for x in (a.sequence(-1), right)
    ]
    assert_close(*(torch.autograd.grad(loss, given) for loss in losses))
    with pytest.raises(GradientError):
        a.sequence(-1).pooled(4).sum().backward()
    assert not a.detach().sequence(2).output.requires_grad


def test_inference_mode_half_precision_and_no_sequences() -> None:
    given = tensors(QUERIES, KEYS, torch.bfloat16)
    with torch.inference_mode():
        a = regard.attend(*given, mask=CAUSAL, **PACKED)
        assert a.sequence(1).shape == (4, 1, 1)
    assert a.output.dtype == torch.bfloat16
    wide = regard.attend(*(t.double() for t in given), mask=CAUSAL, **PACKED)
    assert_close(a.entropy().double(), wide.entropy(), rtol=1e-2, atol=1e-2)
    nothing = regard.attend(*(t[:0] for t in given), cu_seqlens_q=[0])
    assert nothing.output.shape == (0, 4, 24)
    with pytest.raises(InputError, match="sequence 0 does not exist; there are 0"):
        nothing.sequence(0)


def test_starts_are_read_at_every_call() -> None:
    q, cut = draw(12, 2, 8), torch.tensor([0, 5, 12])
    regard.attend(q, q, q, cu_seqlens_q=cut)
    cut[1] = 20
    with pytest.raises(InputError, match="falls from 20 to 12"):
        regard.attend(q, q, q, cu_seqlens_q=cut)


def test_a_table_serves_sequences_of_its_size() -> None:
    q, table = draw(20, 4, 16), torch.rand(2, 4, 10, 10) > 0.4
    a = regard.attend(q, q, q, mask=table, cu_seqlens_q=[0, 10, 20])
    one = q[10:].transpose(0, 1)
    right = regard.attend(one, one, one, mask=table[1], implementation="dense")
    assert_close(a.sequence(1).dense(), right.dense())
    assert_close(a[:, 10:, 10:], right.dense())


# ── what is refused ──────────────────────────────────────────────────────────────────────────

TEN, TWELVE, BOTH = draw(10, 4, 16), draw(12, 4, 16), starts([0, 10])
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cu_seqlens_q": [1, 10]}, InputError, "cu_seqlens_q begins with 1; .* begins at 0"),
    ({"cu_seqlens_q": [0, 9, 6, 10]}, InputError, "falls from 9 to 6"),
    ({"cu_seqlens_q": [0, 9]}, InputError, "ends with 9, and there are 10 tokens"),
    ({"cu_seqlens_k": [0, 10]}, InputError, "cu_seqlens_k is given without cu_seqlens_q"),
    ({"cu_seqlens_q": [0.0, 10.0]}, DTypeError, "has dtype float32; give int32"),
    ({"cu_seqlens_q": torch.ones(2, 2).int()}, ShapeError, r"has shape \(2, 2\); give a vector"),
    ({"cu_seqlens_q": []}, DTypeError, "dtype float32"),
    ({"cu_seqlens_q": torch.empty(0).int()}, ShapeError, "is empty; give 0 and the end"),
    ({"cu_seqlens_q": [0, 10], "cu_seqlens_k": [0, 1, 10]}, ShapeError, "has 2 numbers"),
    ({"cu_seqlens_q": "all"}, DTypeError, "is a str"),
    (
        {"cu_seqlens_q": [0, 4, 10], "mask": torch.ones(10, 10).bool()}, ShapeError,
        r"of sequence 0: 4 queries, 4 keys\); a rule about packed sequences",
    ),
    (
        {"cu_seqlens_q": [0, 4, 10], "bias": torch.ones(10, 10)}, ShapeError,
        "a rule about packed sequences speaks of each alone",
    ),
    (
        {"cu_seqlens_q": [0, 10], "key": TWELVE}, InputError,
        "10 queries and 12 keys with cu_seqlens_q alone",
    ),
    (
        {"cu_seqlens_q": BOTH, "cu_seqlens_k": BOTH, "key": TWELVE}, InputError,
        "cu_seqlens_k is cu_seqlens_q, but there are 10 queries",
    ),
    (
        {"cu_seqlens_q": [0, 10], "cu_seqlens_k": [0, 12], "query": TEN[None]}, ShapeError,
        r"query is \(1, 10, 4, 16\) beside cu_seqlens_q",
    ),
    ({"cu_seqlens_q": [0, 10], "key": np.zeros((10, 4, 16))}, DTypeError, "key is a ndarray"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "said"), REFUSED)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        regard.replay(**{"query": TEN, "key": TEN} | given)
    given = {"value": given.get("key", TEN)} | given
    with pytest.raises(error, match=said):
        regard.attend(**{"query": TEN, "key": TEN} | given)
