"""Every wrong question is refused, and told what was given and what would work."""

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
    TooLargeError,
)

R = torch.randn
Q, K, V = R(2, 4, 5, 8), R(2, 2, 7, 8), R(2, 2, 7, 3)
META = torch.device("meta")


def attend(query: Any = Q, key: Any = K, value: Any = V, **options: Any) -> regard.Attention:
    return regard.attend(query, key, value, **options)


def replay(query: Any = Q, key: Any = K, lse: Any = None, **options: Any) -> regard.Attention:
    return regard.replay(query, key, lse, **options)


Refusal = tuple[str, Callable[[], Any], type[Exception], str]
A = attend(mask=regard.Causal())
QUESTIONS: list[Refusal] = [
    *(
        (f"top({k!r})", lambda k=k: A.top(k), InputError, f"Top(k={k!r}); give a whole number ≥ 1")
        for k in (0, -1, 1.5, "3", None, True)
    ),
    *(
        (f"pooled({n!r})", lambda n=n: A.pooled(n), InputError, f"cell={n!r}); give a whole number")
        for n in (0, -1, 1.5, "8", True)
    ),
    ("how", lambda: A.pooled(2, "sum"), InputError, "Pooled(how='sum'); give 'mean' or 'max'"),
    ("no query", lambda: A.received(0), InputError, "a number means the last n queries, so n ≥ 1"),
    (
        "query 9",
        lambda: A.received([0, 9]),
        InputError,
        "query 9 does not exist; there are 5 queri",
    ),
    ("query −6", lambda: A.received([-6]), InputError, "query -6 does not exist"),
    *(
        (
            f"received({n!r})",
            lambda n=n: A.received(n),
            InputError,
            "give a slice, a range, whole-nu",
        )
        for n in ("x", 1.5, [1.5], {1}, True)
    ),
    ("per", lambda: A.received(per="mean"), InputError, "per='mean'); give 'sum' or 'visible'"),
    ("groups", lambda: A.received(groups="all"), InputError, "give None, 'sum', 'mean' or 'max'"),
    ("how", lambda: A.received(how="min"), InputError, "give 'sum', 'mean' or 'max'"),
    ("how per", lambda: A.received(how="max", per="visible"), InputError, "is not divided"),
    ("a name", lambda: A.summarize("entropy"), InputError, "'entropy' is not a summary; give e.g."),
    ("a class", lambda: A.summarize(regard.Entropy), InputError, "is not a summary"),
    ("row 9", lambda: A.rows(9), InputError, "does not fit a matrix of shape (2, 4, 5, 7)"),
    (
        "five axes",
        lambda: A[0, 0, 0, 0, 0],
        InputError,
        "names too many axes; the matrix has shape",
    ),
    (
        "a @ queries",
        lambda: A @ R(5),
        ShapeError,
        "the matrix has 7 keys, x has shape (5,); give (7,",
    ),
    ("a @ number", lambda: A @ R(()), ShapeError, "x has shape (); give (7,) or (…, 7, M)"),
    ("a.T @ keys", lambda: A.T @ R(7), ShapeError, "the matrix has 5 queries, x has shape (7,)"),
    (
        "a @ heads",
        lambda: A @ R(3, 7, 2),
        ShapeError,
        "(3, 7, 2), which does not broadcast to (2, 4",
    ),
    ("a @ text", lambda: A @ "x", DTypeError, "a @ x: x is a str; give a tensor"),
    ("a @ complex", lambda: A @ R(7).cfloat(), DTypeError, "complex64; give real numbers"),
    ("a @ elsewhere", lambda: A @ R(7).to(META), DeviceError, "x is on meta, the matrix on cpu"),
]


@pytest.mark.parametrize(
    ("call", "kind", "said"), [pytest.param(*row[1:], id=row[0]) for row in QUESTIONS]
)
def test_wrong_questions(call, kind, said):
    with pytest.raises(kind) as caught:
        call()
    assert said in str(caught.value)


def test_a_dense_matrix_beyond_the_limit_must_be_forced(monkeypatch):
    monkeypatch.setattr("regard.engine.attention._LARGEST_DENSE", 1000)
    said = r"dense\(\) needs the dense matrix \(2, 4, 5, 7\), which would take 0.0 GiB of at most 0"
    with pytest.raises(TooLargeError, match=said):
        A.dense()
    with pytest.raises(TooLargeError):
        np.asarray(A)
    forced = A.dense(force=True)
    assert torch.equal(forced, A[...])


def test_the_limit_is_one_gibibyte():
    """No memory is touched to find out: the size is known from the shape."""
    q = torch.zeros(1, 1, 1, 4).expand(1, 4, 8193, 4)
    a = replay(q, q, torch.zeros(1, 4, 8193))
    with pytest.raises(TooLargeError, match=r"would take 1\.0 GiB"):
        a.dense()
