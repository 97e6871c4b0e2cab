"""Every kernel, run by Triton's interpreter on the CPU, against the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    run = subprocess.run(
        [sys.executable, str(SCRIPT), check],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-2000:]}"
