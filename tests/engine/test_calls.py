"""What attend and its kin accept; every wrong call and question is refused before a kernel runs,
with what was given and what would work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regard
from engine.conftest import draw, qkv
from regard.errors import (
    DeviceError,
    DTypeError,
    InputError,
    RegardError,
    ShapeError,
    TooLargeError,
    UnavailableError,
)

META, F32 = torch.device("meta"), torch.float32
Q, K, V = qkv(5, 7, value_dim=3)
ONES = torch.ones(5, 7, dtype=torch.bool)
NAN, INF = float("nan"), float("inf")


def random(*shape: int) -> torch.Tensor:
    return draw(*shape, dtype=F32)


def attend(query: Any = Q, key: Any = K, value: Any = V, **options: Any) -> regard.Attention:
    return regard.attend(query, key, value, **options)


def partial(query: Any = Q, key: Any = K, value: Any = V, **options: Any) -> regard.Partial:
    return regard.attend_partial(query, key, value, **options)


def sdpa(query: Any = Q, key: Any = K, value: Any = V, *rest: Any, **options: Any) -> Any:
    return regard.scaled_dot_product_attention(
        query, key, value, *rest, **({"enable_gqa": True} | options)
    )


def replay(query: Any = Q, key: Any = K, lse: Any = None, **options: Any) -> regard.Attention:
    return regard.replay(query, key, lse, **options)


def indexer(query: Any = Q, key: Any = K[:, :1], weights: Any = Q[..., 0]) -> regard.Attention:
    return regard.lightning_indexer(query, key, weights)


# ── accepted ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [
        {"mask": ONES.numpy()}, {"mask": ONES[0]}, {"mask": torch.tensor(True)},
        {"bias": regard.ALiBi([1, 2, 3, 4])}, {"bias": regard.ALiBi([0.5, 0.25, 0.125, 0.0625])},
        {"bias": np.zeros((5, 7))}, {"bias": draw(5, 7)}, {"bias": random(5, 7).half()},
        {"sink": [0, 0, 0, 0]}, {"sink": random(4).half()}, {"scale": 0}, {"scale": -1.5},
        {"softcap": 3}, {"dropout": 1}, {"summaries": regard.Entropy()},
        {"summaries": [regard.Entropy(), regard.Top(2)]},
        {"summaries": (regard.Received(slice(1, 4)),)},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_numbers_may_be_given_in_any_common_form(options: dict[str, Any]) -> None:
    a = attend(**options)
    assert a.output.shape == (2, 4, 5, 3) and a.lse.dtype == F32


def test_only_shapes_dtypes_and_devices_are_looked_at() -> None:
    """Tensors without values go through, and come out with the right shapes."""
    a = attend(Q.to(META), K.to(META), V.to(META))
    assert a.output.shape == (2, 4, 5, 3) and a.shape == (2, 4, 5, 7)
    assert a.output.device == a.lse.device == META


def test_an_lse_may_have_a_last_axis_of_one() -> None:
    right = attend(mask=regard.Causal()).lse
    assert torch.equal(replay(lse=right.unsqueeze(-1), mask=regard.Causal()).lse, right)


def test_two_axes_stay_two_axes() -> None:
    for _ in range(2):  # the second time as a call that is known
        a = regard.attend(Q[0, 0], K[0, 0], V[0, 0], mask=regard.Causal())
        assert a.output.shape == (5, 3) and a.shape == (5, 7) and a.top(2).keys.shape == (5, 2)
        again = regard.replay(Q[0, 0], K[0, 0], a.lse, mask=regard.Causal())
        torch.testing.assert_close(again.received(), a.received())


# ── refused ──────────────────────────────────────────────────────────────────────────────────

FLOATS = "give one of float32, float64, bfloat16, float16"
HEADS = "4 query heads are not a multiple of"
Tensors = dict[str, Any]
TENSORS: dict[type[RegardError], list[tuple[Tensors, str]]] = {
    DTypeError: [
        ({"query": [[1.0]]}, "query is a list; give a torch.Tensor"),
        ({"key": None}, "key is a NoneType; give a torch.Tensor"),
        ({"value": np.ones(3)}, "value is a ndarray; give a torch.Tensor"),
        ({"query": Q.int()}, f"query has dtype int32; {FLOATS}"),
        ({"value": V > 0}, f"value has dtype bool; {FLOATS}"),
        ({"query": Q.cfloat()}, f"query has dtype complex64; {FLOATS}"),
        ({"query": Q.to(torch.float8_e4m3fn)}, f"query has dtype float8_e4m3fn; {FLOATS}"),
        ({"query": Q.double()}, "query float64, key float32, value float32: all three need one"),
        ({"query": Q.to_sparse()}, "query is a tensor of layout sparse_coo; give query.to_dense"),
        ({"key": K.to_sparse()}, "key is a tensor of layout sparse_coo; give key.to_dense()"),
        ({"value": V.to_sparse()}, "value is a tensor of layout sparse_coo; give value.to_dense"),
    ],
    DeviceError: [({"key": K.to(META)}, "query on cpu, key on meta, value on cpu: all three must")],
    ShapeError: [
        ({name: random(3) for name in ("query", "key", "value")}, "number of axes, at least two"),
        ({"key": K[0]}, "key (2, 7, 8), value (2, 2, 7, 3)"),
        ({"key": random(2, 2, 7, 9)}, "query dim 8 ≠ key dim 9"),
        ({"query": Q[..., :0], "key": K[..., :0]}, "dim is 0; a dot product needs at least one"),
        ({"value": V[..., :6, :]}, "7 keys but 6 values"),
        ({"value": random(2, 4, 7, 3)}, "key has batch and heads (2, 2), value (2, 4); give both"),
        ({"key": K[:1], "value": V[:1]}, "batch (2,) of query ≠ batch (1,) of key; expand the sm"),
        (
            {"key": random(2, 3, 7, 8), "value": random(2, 3, 7, 3)},
            f"{HEADS} 3 key heads; key and value could have 1, 2, 4",
        ),
        ({"key": random(2, 8, 7, 8), "value": random(2, 8, 7, 3)}, f"{HEADS} 8 key heads"),
        ({"key": K[:, :0], "value": V[:, :0]}, f"{HEADS} 0 key heads"),
    ],
}
Calls = dict[type[RegardError], list[tuple[Callable[[], Any], str]]]
RULES: Calls = {
    DTypeError: [
        (lambda: attend(mask=torch.zeros(5, 7)), "dtype torch.float32; a mask is boolean, True = "),
        (lambda: attend(mask=torch.zeros(5, 7)), "may attend. Additive numbers go into bias="),
        (lambda: attend(mask="causal"), "mask is a str; give a regard mask such as regard.Causal"),
        (lambda: attend(mask=True), "mask is a bool; give a regard mask such as regard.Causal()"),
        (lambda: attend(mask=regard.Causal), "give a regard mask such as regard.Causal()"),
        (lambda: attend(bias=ONES.long()), "give floats, or use mask="),
        (lambda: attend(bias=ONES), "use mask= for booleans"),
        (lambda: attend(bias=1.0), "bias is a float; give an additive"),
        (lambda: attend(sink=torch.zeros(4).int()), "give floats"),
        (lambda: attend(sink="zero"), "sink is a str; give a torch.Tensor"),
    ],
    ShapeError: [
        (lambda: attend(mask=ONES.T), "mask has shape (7, 5), which does not broadcast to (…, he"),
        (lambda: attend(mask=ONES.T), "(…, heads, queries, keys) = (2, 4, 5, 7)"),
        (lambda: attend(mask=ONES.expand(1, 2, 4, 5, 7)), "mask has shape (1, 2, 4, 5, 7)"),
        (
            lambda: attend(mask=regard.Documents(torch.zeros(5, dtype=torch.long))),
            "Documents(key_ids) has 5 ids for 7 key tokens; give key_ids too",
        ),
        (lambda: attend(mask=regard.Causal() & regard.Padding([1, 2, 3])), "Padding(keys)"),
        (lambda: attend(bias=random(7, 5)), "bias has shape (7, 5)"),
        (lambda: attend(sink=random(2)), "give one number per query head"),
        (lambda: attend(sink=0.0), "sink has shape (); give one number"),
    ],
    DeviceError: [
        (lambda: attend(mask=ONES.to(META)), "mask is on meta, query on cpu; move it there"),
        (lambda: attend(bias=random(5, 7).to(META)), "bias is on meta, query on cpu"),
        (lambda: attend(bias=regard.ALiBi(torch.ones(4, device=META))), "bias is on meta"),
        (lambda: attend(sink=random(4).to(META)), "sink is on meta, query on cpu"),
    ],
}
NUMBERS: Calls = {
    InputError: [
        *((lambda n=n: attend(softcap=n), "give a positive number") for n in (0, -1.0, INF, NAN)),
        (lambda: attend(scale=NAN), "give a finite number, such as"),
        *(
            (lambda p=p: attend(dropout=p), "give a probability from 0 to 1")
            for p in (-0.1, 1.1, NAN, "half", None, [], torch.tensor(0.0))
        ),
        *(
            (lambda s=s: attend(summaries=s), "is not a summary; give e.g.")
            for s in (None, 3, "entropy", ("entropy",), regard.Entropy, (regard.Entropy,), ([1],))
        ),
        (lambda: attend(summaries=(regard.Received([9]),)), "query 9 does not exist; there are 5"),
        (
            lambda: attend(implementation="gpu"),
            "implementation='gpu' does not exist; give one of cpu, hopper, triton, library, tiled, "
            "dense",
        ),
        (lambda: attend(implementation=["cpu"]), "implementation=['cpu'] does not exist"),
        *(
            (lambda s=s: attend(in_backward=s), "is not a summary")
            for s in ("received", 3, None, regard.Received, [regard.Received])
        ),
        *(
            (
                lambda s=s: attend(in_backward=(regard.Received(), s)),
                f"in_backward: {s!r}; the backward measures what keys received from all queries: "
                "give (regard.Received(),)",
            )
            for s in (
                regard.Entropy(), regard.Top(3), regard.Pooled(4), regard.Offsets(),
                regard.Received(5), regard.Received(slice(0, 3)), regard.Received([0]),
                regard.Received(how="max"), regard.Weighted(regard.Received(), torch.ones(5)),
            )
        ),
    ],
    DTypeError: [
        *(
            (lambda c=c: attend(softcap=c), f"softcap is a {type(c).__name__}; give a plain number")
            for c in (random(), [3.0])
        ),
        *(
            (lambda s=s: attend(scale=s), f"scale is a {type(s).__name__}; give a plain number")
            for s in (torch.tensor(1.0), [1.0], np.float32(1.0), "1")
        ),
    ],
    UnavailableError: [
        (
            lambda: attend(dropout=0.1, implementation="cpu"),
            "'cpu' cannot serve this call:\n  cpu: it has no dropout",
        ),
        (
            lambda: attend(softcap=2.0, implementation="library"),
            "library: value dim 3 ≠ query dim 8; it has no soft cap",
        ),
    ],
}  # fmt: skip
OTHERS: Calls = {
    DTypeError: [
        (lambda: replay(key=[1.0]), "key is a list"),
        (lambda: replay(key=K.double()), "query float32, key float64"),
        (lambda: replay(key=K.to_sparse()), "key is a tensor of layout sparse_coo; give key.to_de"),
        (lambda: replay(lse=[1.0]), "lse must be a float tensor"),
        (lambda: replay(lse=random(2, 4, 5).int()), "lse must be a float tensor"),
        (lambda: replay(mask=random(5, 7)), "Additive numbers go into bias="),
        (lambda: partial([1.0]), "query is a list; give a torch.Tensor"),
        (lambda: partial(Q.to_sparse()), "query is a tensor of layout sparse_coo"),
        (lambda: partial(key_start=1.5), "1.5 is no place; give whole numbers"),
        (lambda: partial(mask=random(5, 7)), "Additive numbers go into bias="),
        (lambda: sdpa(attn_mask=ONES.int()), "attn_mask is torch.int32"),
        (lambda: sdpa(attn_mask=[1]), "attn_mask is list; give a tensor"),
        (lambda: sdpa([1.0]), "query is a list; give a torch.Tensor"),
        (lambda: sdpa(value=V.to_sparse()), "value is a tensor of layout sparse_coo"),
        (lambda: indexer(weights=[1.0]), "weights is a list"),
    ],
    ShapeError: [
        (lambda: replay(key=random(2, 2, 7, 9)), "query dim 8 ≠ key dim 9"),
        (lambda: replay(lse=random(2, 4, 7)), "give one number per row: (2, 4, 5)"),
        (lambda: partial(random(3), random(3), random(3)), "at least two"),
        (lambda: partial(key_start=3, total_keys=9), "keys 3–10 of 9: the part reaches past the w"),
        (
            lambda: partial(query_start=3, total_queries=7),
            "queries 3–8 of 7, keys 0–7 of 7: the part reaches past the whole",
        ),
        (lambda: partial(mask=ONES, total_keys=9), "(…, heads, queries, keys) = (2, 4, 5, 9)"),
        (lambda: partial(bias=random(5, 7), total_keys=9), "heads, queries, keys) = (2, 4, 5, 9)"),
        (
            lambda: sdpa(enable_gqa=False),
            "the batch and head axes of (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3) do not broadcast; "
            "heads that are groups need enable_gqa=True",
        ),
        (lambda: sdpa(key=random(3, 2, 7, 8)), "(3, 2, 7, 8), (2, 2, 7, 3) do not broadcast"),
        (lambda: sdpa(attn_mask=ONES.T), "mask has shape (7, 5), which does"),
        (lambda: indexer(key=K), "key has shape (2, 2, 7, 8); its heads share one: (…, 1, S, D)"),
        (lambda: indexer(weights=Q[..., 0].mT), "weights has shape (2, 5, 4); give one number a h"),
    ],
    DeviceError: [(lambda: replay(lse=random(2, 4, 5).to(META)), "lse is on meta, query on cpu")],
    InputError: [
        (lambda: replay().output, "replay computes no output"),
        (lambda: partial(key_start=-1), "key_start=-1: give numbers ≥ 0"),
        *(
            (lambda s=s: partial(summaries=(s,)), f"{s!r} does not merge over keys")
            for s in (regard.Received(), regard.Pooled(2), regard.Peak())
        ),
        (lambda: sdpa(attn_mask=ONES, is_causal=True), "attn_mask and is_causal=True exclude each"),
        (lambda: sdpa(dropout_p=2.0), "give a probability from 0 to 1"),
    ],
    UnavailableError: [(lambda: partial(implementation="library"), "'library' cannot")],
}
A = attend(mask=regard.Causal())
QUESTIONS: Calls = {
    InputError: [
        (lambda: A.top(0), "Top(k=0); give a whole number ≥ 1"),
        (lambda: A.received([0, 9]), "query 9 does not exist; there are 5 queries"),
        (lambda: A.summarize("entropy"), "'entropy' is not a summary; give e.g."),
        (lambda: A.summarize(regard.Entropy), "is not a summary"),
        (lambda: A.rows(9), "does not fit a matrix of shape (2, 4, 5, 7)"),
        (lambda: A.sequence(0), "sequence(n) is for packed sequences"),
    ],
    ShapeError: [
        (lambda: A @ random(5), "the matrix has 7 keys, x has shape (5,); give (7,) or"),
        (lambda: A @ random(), "x has shape (); give (7,) or (…, 7, M)"),
        (lambda: A.T @ random(7), "the matrix has 5 queries, x has shape (7,)"),
        (lambda: A @ random(3, 7, 2), "(3, 7, 2), which does not broadcast to (2, 4"),
        (lambda: A.received(weighted_by=torch.ones(7)), "Weighted(by)"),
    ],
    DTypeError: [
        (lambda: A @ "x", "a @ x: x is a str; give a tensor"),
        (lambda: A @ random(7).cfloat(), "complex64; give real numbers"),
        (lambda: A.received(weighted_by=0.5), "one number per query"),
    ],
    DeviceError: [(lambda: A @ random(7).to(META), "x is on meta, the matrix on cpu")],
}
EACH = [
    pytest.param(call, kind, said, id=said)
    for table in (RULES, NUMBERS, OTHERS, QUESTIONS)
    for kind, rows in table.items()
    for call, said in rows
]


@pytest.fixture(scope="module", autouse=True)
def accepted_before() -> None:
    """What is known of right calls must not let through a wrong one that equals them."""
    for options in ({}, {"scale": 1.0}, {"softcap": 3.0}, {"dropout": 0}):
        attend(**options)


@pytest.mark.parametrize(("call", "kind", "said"), EACH)
def test_wrong_calls_and_questions(call: Any, kind: type[RegardError], said: str) -> None:
    for _ in range(2):
        with pytest.raises(kind) as caught:
            call()
        assert said in str(caught.value)
        assert type(caught.value) is kind, "the most telling of the family"


@pytest.mark.parametrize("implementation", [None, "cpu", "tiled", "dense", "library"])
@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [pytest.param(g, kind, s, id=s) for kind, rows in TENSORS.items() for g, s in rows],
)
def test_wrong_tensors_are_wrong_for_every_implementation(
    given: Tensors, kind: type[RegardError], said: str, implementation: str | None
) -> None:
    with pytest.raises(kind) as caught:
        attend(**given, implementation=implementation)
    assert said in str(caught.value) and type(caught.value) is kind


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([random(2, 3, 8), random(2, 5, 8)], layout=layout)
    for ask in (
        lambda: regard.attend(nested, nested, nested), lambda: attend(bias=nested),
        lambda: attend(sink=nested), lambda: replay(nested, nested), lambda: replay(key=nested),
        lambda: partial(nested, nested, nested), lambda: sdpa(nested, nested, nested),
        lambda: indexer(nested, nested),
    ):  # fmt: skip
        with pytest.raises(DTypeError, match="is a nested tensor; give its sequences one behind"):
            ask()


def test_a_dense_matrix_above_one_gibibyte_must_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory is touched to find out: the size is known from the shape."""
    q = torch.zeros(1, 1, 1, 4).expand(1, 4, 8193, 4)
    large = replay(q, q, torch.zeros(1, 4, 8193))
    with pytest.raises(TooLargeError, match=r"would take 1\.0 GiB of at most 1"):
        large.dense()
    monkeypatch.setattr("regard.engine.attention._LARGEST_DENSE", 1000)
    with pytest.raises(TooLargeError, match=r"dense\(\) needs the dense matrix \(2, 4, 5, 7\)"):
        A.dense()
    with pytest.raises(TooLargeError):
        np.asarray(A)
    assert torch.equal(A.dense(force=True), A[...])
