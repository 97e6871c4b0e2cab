"""Prompts as they are given."""

from __future__ import annotations

import pytest
import torch

from recorder.models import Stack
from regard.errors import DTypeError, InputError, ShapeError
from regard.intervene.prompts import as_ids, as_rows


def test_ids_in_any_form() -> None:
    model = Stack().eval()
    assert as_ids([1, 2, 3], model).tolist() == [[1, 2, 3]]
    assert as_ids(torch.ones(2, 3, dtype=torch.int32), model).shape == (2, 3)


def test_ids_that_are_none() -> None:
    model = Stack().eval()
    with pytest.raises(DTypeError, match=r"ids have dtype torch\.float32"):
        as_ids(torch.ones(3), model)
    with pytest.raises(ShapeError, match="give \\(tokens,\\) or \\(prompts, tokens\\)"):
        as_ids(torch.ones(1, 2, 3, dtype=torch.int64), model)
    with pytest.raises(ShapeError, match=r"\(1, 0\)"):
        as_ids(torch.ones(0, dtype=torch.int64), model)
    with pytest.raises(InputError, match=r"call model\.eval\(\)"):
        as_ids([1], model.train())


def test_rows() -> None:
    assert as_rows(slice(3, None), 6) == [3, 4, 5]
    assert as_rows([5, 1], 6) == [1, 5]
    with pytest.raises(InputError, match="none of the prompt's 6 tokens; give 0–5"):
        as_rows([6], 6)
