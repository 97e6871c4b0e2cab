"""Every wrong call is refused before a kernel runs, and told what was given and what would work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import (
    DeviceError,
    DTypeError,
    InputError,
    ShapeError,
    UnavailableError,
)

R = torch.randn
Q, K, V = R(2, 4, 5, 8), R(2, 2, 7, 8), R(2, 2, 7, 3)
ONES = torch.ones(5, 7, dtype=torch.bool)
FLOATS = "give one of float32, float64, bfloat16, float16"
MASKS = "give a regard mask such as regard.Causal()"
META = torch.device("meta")


def attend(query: Any = Q, key: Any = K, value: Any = V, **options: Any) -> regard.Attention:
    return regard.attend(query, key, value, **options)


def partial(query: Any = Q, key: Any = K, value: Any = V, **options: Any) -> regard.Partial:
    return regard.attend_partial(query, key, value, **options)


def sdpa(query: Any = Q, key: Any = K, value: Any = V, *rest: Any, **options: Any) -> Any:
    options.setdefault("enable_gqa", True)
    return regard.scaled_dot_product_attention(query, key, value, *rest, **options)


def replay(query: Any = Q, key: Any = K, lse: Any = None, **options: Any) -> regard.Attention:
    return regard.replay(query, key, lse, **options)


class OwnMask(regard.Mask):
    """What no kernel can be told about."""

    def allows(self, i, j, extent):
        return i[:, None] >= j

    def verdict(self, rows, cols, extent):
        return regard.mask.Verdict.SOME


Refusal = tuple[str, Callable[[], Any], type[Exception], str]
TENSORS: list[Refusal] = [
    ("a list", lambda: attend([[1.0]]), DTypeError, "query is a list; give a torch.Tensor"),
    ("nothing", lambda: attend(key=None), DTypeError, "key is a NoneType; give a torch.Tensor"),
    ("numpy", lambda: attend(value=np.ones(3)), DTypeError, "value is a ndarray; give a torch.T"),
    ("integers", lambda: attend(Q.int()), DTypeError, f"query has dtype int32; {FLOATS}"),
    ("booleans", lambda: attend(value=V > 0), DTypeError, f"value has dtype bool; {FLOATS}"),
    ("complex", lambda: attend(Q.cfloat()), DTypeError, f"query has dtype complex64; {FLOATS}"),
    (
        "eight bits",
        lambda: attend(Q.to(torch.float8_e4m3fn)),
        DTypeError,
        f"query has dtype float8_e4m3fn; {FLOATS}",
    ),
    (
        "two dtypes",
        lambda: attend(Q.double()),
        DTypeError,
        "query float64, key float32, value float32: all three need one dtype",
    ),
    (
        "two devices",
        lambda: attend(key=K.to(META)),
        DeviceError,
        "query on cpu, key on meta, value on cpu: all three must be on one device",
    ),
    ("one axis", lambda: attend(R(3), R(3), R(3)), ShapeError, "the same number of axes, at least"),
    ("axes that differ", lambda: attend(key=K[0]), ShapeError, "key (2, 7, 8), value (2, 2, 7, 3)"),
    ("dims that differ", lambda: attend(key=R(2, 2, 7, 9)), ShapeError, "query dim 8 ≠ key dim 9"),
    (
        "no dim",
        lambda: attend(R(2, 4, 5, 0), R(2, 2, 7, 0)),
        ShapeError,
        "dim is 0; a dot product needs at least one dimension",
    ),
    ("too few values", lambda: attend(value=V[..., :6, :]), ShapeError, "7 keys but 6 values"),
    (
        "heads of values",
        lambda: attend(value=R(2, 4, 7, 3)),
        ShapeError,
        "key has batch and heads (2, 2), value (2, 4); give both the same",
    ),
    (
        "batches that differ",
        lambda: attend(key=K[:1], value=V[:1]),
        ShapeError,
        "batch (2,) of query ≠ batch (1,) of key; expand the smaller one",
    ),
    (
        "uneven groups",
        lambda: attend(key=R(2, 3, 7, 8), value=R(2, 3, 7, 3)),
        ShapeError,
        "4 query heads are not a multiple of 3 key heads; key and value could have 1, 2, 4",
    ),
    (
        "more key heads",
        lambda: attend(key=R(2, 8, 7, 8), value=R(2, 8, 7, 3)),
        ShapeError,
        "4 query heads are not a multiple of 8 key heads",
    ),
    (
        "no key heads",
        lambda: attend(key=R(2, 0, 7, 8), value=R(2, 0, 7, 3)),
        ShapeError,
        "4 query heads are not a multiple of 0 key heads",
    ),
]
RULES: list[Refusal] = [
    (
        "a float mask",
        lambda: attend(mask=torch.zeros(5, 7)),
        DTypeError,
        "mask has dtype torch.float32; a mask is boolean, True = may attend. Additive numbers go "
        "into bias=",
    ),
    ("a whole-number mask", lambda: attend(mask=ONES.long()), DTypeError, "a mask is boolean"),
    (
        "a mask of the wrong shape",
        lambda: attend(mask=ONES.T),
        ShapeError,
        "mask has shape (7, 5), which does not broadcast to (…, heads, queries, keys) = "
        "(2, 4, 5, 7)",
    ),
    (
        "a mask with an axis too many",
        lambda: attend(mask=ONES.expand(1, 2, 4, 5, 7)),
        ShapeError,
        "mask has shape (1, 2, 4, 5, 7)",
    ),
    ("a mask by name", lambda: attend(mask="causal"), DTypeError, f"mask is a str; {MASKS}"),
    ("a truth value", lambda: attend(mask=True), DTypeError, f"mask is a bool; {MASKS}"),
    ("a class", lambda: attend(mask=regard.Causal), DTypeError, MASKS),
    (
        "a mask elsewhere",
        lambda: attend(mask=ONES.to(META)),
        DeviceError,
        "mask is on meta, query on cpu; move it there",
    ),
    (
        "lengths for another batch",
        lambda: attend(mask=regard.Padding([1, 2, 3])),
        ShapeError,
        "Padding(keys) as lengths has shape (3,), which does not broadcast to the batch = (2,)",
    ),
    (
        "flags for other keys",
        lambda: attend(mask=regard.Padding(torch.ones(2, 5, dtype=torch.bool))),
        ShapeError,
        "Padding(keys) has 5 booleans for 7 keys",
    ),
    (
        "ids of queries only",
        lambda: attend(mask=regard.Documents(torch.zeros(5, dtype=torch.long))),
        ShapeError,
        "Documents(key_ids) has 5 ids for 7 key tokens; give key_ids too",
    ),
    ("a prefix each", lambda: attend(mask=regard.Prefix([1, 2, 3])), ShapeError, "Prefix(n) has"),
    (
        "a wrong mask inside a sum",
        lambda: attend(mask=regard.Causal() & regard.Padding([1, 2, 3])),
        ShapeError,
        "Padding(keys)",
    ),
    (
        "a rule that says no booleans",
        lambda: attend(mask=regard.Rule(lambda i, j: i + j)),
        DTypeError,
        "the function in Rule(fn) must return booleans",
    ),
    ("a whole-number bias", lambda: attend(bias=ONES.long()), DTypeError, "give floats, or use ma"),
    ("a boolean bias", lambda: attend(bias=ONES), DTypeError, "use mask= for booleans"),
    (
        "a bias of the wrong shape",
        lambda: attend(bias=R(7, 5)),
        ShapeError,
        "bias has shape (7, 5)",
    ),
    ("a number as bias", lambda: attend(bias=1.0), DTypeError, "bias is a float; give an additive"),
    ("a bias elsewhere", lambda: attend(bias=R(5, 7).to(META)), DeviceError, "bias is on meta, qu"),
    (
        "slopes of key heads",
        lambda: attend(bias=regard.ALiBi(torch.ones(2))),
        ShapeError,
        "ALiBi(slopes) has shape (2,); give one slope per query head: (4,)",
    ),
    (
        "slopes elsewhere",
        lambda: attend(bias=regard.ALiBi(torch.ones(4, device=META))),
        DeviceError,
        "bias is on meta",
    ),
    (
        "a table of other heads",
        lambda: attend(bias=regard.RelativeBias(R(8, 2), max_distance=9)),
        ShapeError,
        "RelativeBias(table) has shape (8, 2); give (buckets, heads) with 4 heads",
    ),
    (
        "a sink of key heads",
        lambda: attend(sink=R(2)),
        ShapeError,
        "give one number per query head",
    ),
    (
        "one sink for all",
        lambda: attend(sink=0.0),
        ShapeError,
        "sink has shape (); give one number",
    ),
    ("a whole-number sink", lambda: attend(sink=torch.zeros(4).int()), DTypeError, "give floats"),
    ("a sink by name", lambda: attend(sink="zero"), DTypeError, "sink is a str; give a torch.Tens"),
    ("a sink elsewhere", lambda: attend(sink=R(4).to(META)), DeviceError, "sink is on meta, query"),
]
NUMBERS: list[Refusal] = [
    *(
        (
            f"softcap={cap}",
            lambda cap=cap: attend(softcap=cap),
            InputError,
            "give a positive number",
        )
        for cap in (0, -1.0, float("inf"), float("nan"))
    ),
    (
        "a tensor cap",
        lambda: attend(softcap=R(())),
        DTypeError,
        "softcap is a Tensor; give a plain",
    ),
    ("scale=nan", lambda: attend(scale=float("nan")), InputError, "give a finite number, such as"),
    ("scale=inf", lambda: attend(scale=float("inf")), InputError, "scale=inf"),
    (
        "a tensor scale",
        lambda: attend(scale=R(())),
        DTypeError,
        "scale is a Tensor; give a plain n",
    ),
    ("scale as text", lambda: attend(scale="1"), DTypeError, "scale is a str"),
    *(
        (
            f"dropout={p}",
            lambda p=p: attend(dropout=p),
            InputError,
            "give a probability from 0 to 1",
        )
        for p in (-0.1, 1.1, float("nan"), "half", None)
    ),
    *(
        (
            f"summaries={s}",
            lambda s=s: attend(summaries=s),
            InputError,
            "is not a summary; give e.g.",
        )
        for s in (None, 3, "entropy", ("entropy",), regard.Entropy, (regard.Entropy,))
    ),
    (
        "a summary of queries that are not there",
        lambda: attend(summaries=(regard.Received([9]),)),
        InputError,
        "query 9 does not exist; there are 5 queries",
    ),
    (
        "an unknown implementation",
        lambda: attend(implementation="gpu"),
        InputError,
        "implementation='gpu' does not exist; give one of cpu, hopper, triton, library, "
        "tiled, dense",
    ),
    (
        "an implementation that cannot",
        lambda: attend(dropout=0.1, implementation="cpu"),
        UnavailableError,
        "'cpu' cannot serve this call:\n  cpu: it has no dropout",
    ),
    (
        "a library with limits",
        lambda: attend(softcap=2.0, implementation="library"),
        UnavailableError,
        "library: value dim 3 ≠ query dim 8; it has no soft cap",
    ),
]
REPLAY: list[Refusal] = [
    ("a key that is no tensor", lambda: replay(key=[1.0]), DTypeError, "key is a list"),
    ("dims that differ", lambda: replay(key=R(2, 2, 7, 9)), ShapeError, "query dim 8 ≠ key dim 9"),
    (
        "dtypes that differ",
        lambda: replay(key=K.double()),
        DTypeError,
        "query float32, key float64",
    ),
    (
        "lse of keys",
        lambda: replay(lse=R(2, 4, 7)),
        ShapeError,
        "give one number per row: (2, 4, 5)",
    ),
    ("lse as a list", lambda: replay(lse=[1.0]), DTypeError, "lse must be a float tensor"),
    ("a whole-number lse", lambda: replay(lse=R(2, 4, 5).int()), DTypeError, "lse must be a float"),
    (
        "lse elsewhere",
        lambda: replay(lse=R(2, 4, 5).to(META)),
        DeviceError,
        "lse is on meta, query",
    ),
    ("a float mask", lambda: replay(mask=R(5, 7)), DTypeError, "Additive numbers go into bias="),
    ("its output", lambda: replay().output, InputError, "replay computes no output"),
]
PARTIAL: list[Refusal] = [
    ("a list", lambda: partial([1.0]), DTypeError, "query is a list; give a torch.Tensor"),
    ("one axis", lambda: partial(R(3), R(3), R(3)), ShapeError, "at least two"),
    (
        "a negative place",
        lambda: partial(key_start=-1),
        InputError,
        "key_start=-1: give numbers ≥ 0",
    ),
    (
        "half a place",
        lambda: partial(key_start=1.5),
        DTypeError,
        "1.5 is no place; give whole numb",
    ),
    (
        "keys past the end",
        lambda: partial(key_start=3, total_keys=9),
        ShapeError,
        "keys 3–10 of 9: the part reaches past the whole",
    ),
    (
        "queries past the end",
        lambda: partial(query_start=3, total_queries=7),
        ShapeError,
        "queries 3–8 of 7, keys 0–7 of 7: the part reaches past the whole",
    ),
    *(
        (
            f"{s!r}",
            lambda s=s: partial(summaries=(s,)),
            InputError,
            f"{s!r} does not merge over keys",
        )
        for s in (regard.Received(), regard.Pooled(2), regard.Peak())
    ),
    (
        "the part's mask",
        lambda: partial(mask=ONES, total_keys=9),
        ShapeError,
        "(…, heads, queries, keys) = (2, 4, 5, 9)",
    ),
    (
        "the part's bias",
        lambda: partial(bias=R(5, 7), total_keys=9),
        ShapeError,
        "(…, heads, queries, keys) = (2, 4, 5, 9)",
    ),
    ("a float mask", lambda: partial(mask=R(5, 7)), DTypeError, "Additive numbers go into bias="),
    ("a library", lambda: partial(implementation="library"), UnavailableError, "'library' cannot"),
]
SDPA: list[Refusal] = [
    ("a mask twice", lambda: sdpa(Q, K, V, ONES, is_causal=True), InputError, "exclude each other"),
    (
        "groups without a word",
        lambda: sdpa(enable_gqa=False),
        ShapeError,
        "the batch and head axes of (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3) do not broadcast; "
        "heads that are groups need enable_gqa=True",
    ),
    (
        "batches",
        lambda: sdpa(key=R(3, 2, 7, 8)),
        ShapeError,
        "(3, 2, 7, 8), (2, 2, 7, 3) do not bro",
    ),
    (
        "a whole-number mask",
        lambda: sdpa(Q, K, V, ONES.int()),
        DTypeError,
        "attn_mask is torch.int32",
    ),
    (
        "a mask that is none",
        lambda: sdpa(Q, K, V, [1]),
        DTypeError,
        "attn_mask is list; give a tenso",
    ),
    (
        "a mask's shape",
        lambda: sdpa(Q, K, V, ONES.T),
        ShapeError,
        "mask has shape (7, 5), which does",
    ),
    ("dropout", lambda: sdpa(dropout_p=2.0), InputError, "give a probability from 0 to 1"),
    ("no tensor", lambda: sdpa([1.0]), DTypeError, "query is a list; give a torch.Tensor"),
]
REFUSALS = {"tensors": TENSORS, "rules": RULES, "numbers": NUMBERS, "replay": REPLAY}
REFUSALS |= {"partial": PARTIAL, "sdpa": SDPA}
TABLE = [
    pytest.param(*row[1:], id=f"{group}: {row[0]}") for group, t in REFUSALS.items() for row in t
]


@pytest.mark.parametrize(("call", "kind", "said"), TABLE)
def test_wrong_calls(call, kind, said):
    with pytest.raises(kind) as caught:
        call()
    assert said in str(caught.value)
    assert type(caught.value) is kind, "the most telling of the family"


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense", "library"])
def test_wrong_calls_are_wrong_for_everybody(implementation):
    """Validation is the caller's, not a kernel's: the same words whoever is asked."""
    for row in TENSORS:
        query, key, value = _given(row[1])
        with pytest.raises(row[2]) as caught:
            regard.attend(query, key, value, implementation=implementation)
        assert row[3] in str(caught.value)


def _given(call: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """The three arguments of a call that `attend` above would make."""
    held = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regard, "attend", lambda *given, **_: held.append(given))
        call()
    return held[0]
