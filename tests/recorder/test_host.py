"""From a device to the host."""

from __future__ import annotations

import torch

from regard.recorder.host import on_host


def test_on_the_host_it_is_the_tensor_itself_without_its_gradient() -> None:
    given = torch.randn(3, 4, requires_grad=True)
    found = on_host(given)
    assert found.data_ptr() == given.data_ptr()
    assert not found.requires_grad
