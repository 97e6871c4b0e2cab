"""Every kernel, run by Triton's interpreter on the CPU, against the definition."""

from __future__ import annotations

from pathlib import Path

import pytest

import warm

SCRIPT = Path(__file__).with_name("interpreted.py")


@pytest.mark.parametrize(
    "check",
    [
        "statistics",
        "half",
        "double",
        "later",
        "infinite",
        "stranger",
        "squares",
        "keys",
        "gradients",
        "brought",
        "pruned",
        "tied",
        "listed",
        "decoded",
        "few",
        "few_more",
        "mapped",
    ],
)
def test_interpreted(check: str) -> None:
    run = warm.run(SCRIPT, check, interpret=True)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-2000:]}"
