"""What attend accepts in several forms, and what it never looks at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import DTypeError, InputError

R = torch.randn
Q, K, V = R(2, 4, 5, 8), R(2, 2, 7, 8), R(2, 2, 7, 3)
ONES = torch.ones(5, 7, dtype=torch.bool)
META = torch.device("meta")


def attend(query: Any = Q, key: Any = K, value: Any = V, **options: Any) -> regard.Attention:
    return regard.attend(query, key, value, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"mask": ONES.numpy()},
        {"mask": ONES[0]},
        {"mask": torch.tensor(True)},
        {"bias": regard.ALiBi([1, 2, 3, 4])},
        {"bias": regard.ALiBi([0.5, 0.25, 0.125, 0.0625])},
        {"bias": np.zeros((5, 7))},
        {"bias": R(5, 7).double()},
        {"bias": R(5, 7).half()},
        {"sink": [0, 0, 0, 0]},
        {"sink": R(4).half()},
        {"scale": 0},
        {"scale": -1.5},
        {"softcap": 3},
        {"dropout": 1},
        {"summaries": regard.Entropy()},
        {"summaries": [regard.Entropy(), regard.Top(2)]},
        {"summaries": (regard.Received(slice(1, 4)),)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_numbers_may_be_given_in_any_common_form(options):
    a = attend(**options)
    assert a.output.shape == (2, 4, 5, 3)
    assert a.lse.dtype == torch.float32


def test_only_shapes_dtypes_and_devices_are_looked_at():
    """Tensors without values go through, and come out with the right shapes."""
    a = attend(Q.to(META), K.to(META), V.to(META))
    assert a.output.shape == (2, 4, 5, 3)
    assert a.output.device == a.lse.device == META
    assert a.shape == (2, 4, 5, 7)


def test_lse_may_have_a_last_axis_of_one():
    right = attend(mask=regard.Causal()).lse
    a = regard.replay(Q, K, right.unsqueeze(-1), mask=regard.Causal())
    assert torch.equal(a.lse, right)


def test_torch_vmap_is_refused_but_for_the_definition() -> None:
    x = torch.randn(2, 3, 4, 5, 8)
    regard.attend(x[0], x[0], x[0])  # calls alike are settled by now
    for name in (None, "cpu", "library", "tiled"):
        with pytest.raises(InputError, match="give the whole batch at once"):
            torch.vmap(lambda q, name=name: regard.attend(q, q, q, implementation=name).output)(x)
    found = torch.vmap(lambda q: regard.attend(q, q, q, implementation="dense").output)(x)
    torch.testing.assert_close(found, regard.attend(x, x, x).output)


@pytest.mark.parametrize("which", range(3))
def test_sparse_tensors_are_refused(which: int) -> None:
    given = [torch.randn(1, 2, 4, 8) for _ in range(3)]
    regard.attend(*given)
    given[which] = given[which].to_sparse()
    name = ("query", "key", "value")[which]
    asks = [regard.attend, regard.attend_partial, regard.scaled_dot_product_attention]
    for ask in asks:
        with pytest.raises(DTypeError, match=rf"{name} is .* sparse_coo; give {name}\.to_dense"):
            ask(*given)
    if which < 2:
        with pytest.raises(DTypeError, match="to_dense"):
            regard.replay(*given[:2])
