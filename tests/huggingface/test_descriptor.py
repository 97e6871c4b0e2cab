"""A descriptor passes for the tensor it stands for, and is that tensor where one computes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from regard.huggingface import MaskDescriptor
from regard.mask import Causal, Padding

CELLS = torch.ones(3, 3).tril().bool().expand(2, 1, 3, 3)


@pytest.fixture
def built() -> list[int]:
    """How often the tensor was built."""
    return []


@pytest.fixture
def mask(built: list[int]) -> MaskDescriptor:
    """A causal one."""

    def dense() -> Tensor:
        built.append(1)
        return CELLS

    return MaskDescriptor(Causal(), (2, 1, 3, 3), torch.device("cpu"), dense)


def test_what_models_do_with_a_mask_builds_nothing(mask, built) -> None:
    assert mask.contiguous() is mask and mask.clone() is mask
    assert mask.to("cpu") is mask and mask.to(device=torch.device("cpu"), dtype=torch.bool) is mask
    assert mask.to(torch.float32) is mask
    assert mask.ndim == mask.dim() == 4
    assert mask.shape == mask.size() == (2, 1, 3, 3) and mask.size(-1) == 3
    assert mask.dtype == torch.bool and not mask.is_floating_point()
    assert mask.device == torch.device("cpu")
    assert "Causal" in repr(mask)
    assert not built


def test_reach_is_every_key_unless_told(mask) -> None:
    assert mask.reach == 3
    assert MaskDescriptor(None, (1, 1, 2, 9), mask.device, lambda: CELLS, reach=2).reach == 2


def test_who_computes_with_it_gets_the_tensor_built_once(mask, built) -> None:
    other = torch.eye(3).bool()
    assert torch.equal(mask[:, 0, 1], CELLS[:, 0, 1])
    assert torch.equal(mask & other, CELLS & other)
    assert torch.equal(other & mask, CELLS & other)
    assert torch.equal(mask | other, CELLS | other)
    assert torch.equal(~mask, ~CELLS)
    assert torch.equal(mask == 0, ~CELLS) and torch.equal(mask != other, CELLS ^ other)
    assert torch.equal(mask + 1.0, CELLS + 1.0) and torch.equal(2 * mask, 2 * CELLS)
    assert torch.equal(mask > 0, CELLS) and len({mask, mask}) == 1
    assert torch.equal(mask.masked_fill(other, False), CELLS.masked_fill(other, False))
    assert torch.equal(torch.where(mask, 1.0, 0.0), CELLS.float())
    assert torch.equal(torch.cat([mask, mask], dim=-1), torch.cat([CELLS, CELLS], -1))
    assert torch.equal(torch.stack(tensors=[mask])[0], CELLS)
    assert built == [1]


def test_it_pretends_to_no_more_than_a_tensor_has(mask, built) -> None:
    with pytest.raises(AttributeError, match="has no 'colour'"):
        mask.colour  # noqa: B018
    assert not hasattr(mask, "_private") and not hasattr(mask, "__len__")
    assert copy.copy(mask).shape == mask.shape
    assert not built


def test_it_moves_with_its_arrays() -> None:
    keys = torch.ones(2, 3, dtype=torch.bool)
    mask = MaskDescriptor(Padding(keys), (2, 1, 3, 3), torch.device("cpu"), lambda: CELLS, 2)
    moved = mask.to("meta")
    assert moved is not mask and moved.device.type == "meta"
    assert [array.device.type for array in moved.mask.arrays()] == ["meta"]
    assert moved.shape == mask.shape and moved.reach == 2
    assert moved.dense.device.type == "meta"
    plain = MaskDescriptor(None, (2, 1, 3, 3), torch.device("cpu"), lambda: CELLS)
    assert plain.to(device="meta").mask is None
