"""Which tensors take the dtype of torch.autocast."""

from __future__ import annotations

import torch

from regard.engine.torch_state import in_autocast


def test_floats_take_its_dtype_and_double_precision_is_left_alone() -> None:
    tensors = [torch.zeros(2, dtype=dtype) for dtype in (torch.float32, torch.float16)]
    double = torch.zeros(2, dtype=torch.float64)
    assert in_autocast(*tensors, double) == (*tensors, double)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low, also_low, kept = in_autocast(*tensors, double)
    assert low.dtype == also_low.dtype == torch.bfloat16
    assert kept is double


def test_other_devices_are_not_meant() -> None:
    far = torch.zeros(2, device="meta")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert in_autocast(far) == (far,)
