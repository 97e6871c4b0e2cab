"""Products with the transposed matrix: what multiplies in full precision has the tiles for it."""

from __future__ import annotations

import json
from pathlib import Path

import warm

SCRIPT = Path(__file__).with_name("registers.py")


def test_half_precision_stays_in_registers() -> None:
    """On a Hopper GPU products are taken from registers while they are computed; tiles that do not
    fit into them gave results that were never written, or wrote elsewhere."""
    run = warm.run(SCRIPT)
    assert run.returncode == 0, run.stderr[-2000:]
    spilled = json.loads(run.stdout)
    assert spilled == dict.fromkeys(spilled, 0)
