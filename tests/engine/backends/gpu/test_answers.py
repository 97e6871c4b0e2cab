"""Every answer of the interpreted kernels, and what checks them."""

from __future__ import annotations

from pathlib import Path

import warm


def test_where_nothing_is_there() -> None:
    """No queries, keys, heads, batch entries or values: each answer has its shape and is right."""
    run = warm.run(Path(__file__).with_name("empty.py"), interpret=True)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-2000:]}"


OUTSIDE = """
import torch, triton, triton.language as tl
from engine.backends.gpu.bounds import within_bounds

@triton.jit
def copy(source, target, count, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(target + i, tl.load(source + i, mask=i < count), mask=i < count)

whole = torch.arange(9.0)
source, target = whole[2:6], torch.zeros(4)
with within_bounds():
    copy[(1,)](source, target, 4, N=8)
    assert (target == source).all()
    for count, given in ((5, source), (4, source[:3])):
        try:
            copy[(1,)](given, torch.zeros(8), count, N=8)
        except Exception as error:
            assert "outside its tensors" in repr(error), error
        else:
            raise AssertionError("a kernel read behind its tensor")
copy[(1,)](source, torch.zeros(8), 5, N=8)
print("checked")
"""


def test_a_kernel_that_reads_behind_a_tensor_is_told() -> None:
    run = warm.run(OUTSIDE, interpret=True)
    assert run.stdout == "checked\n", run.stderr[-2000:]
