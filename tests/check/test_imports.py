"""Torch is all that a check needs."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import regard
always = set(sys.modules)
import regard.check
own = sorted(name for name in sys.modules if name.startswith("regard.") and name not in always)
others = [name for name in ("transformers", "matplotlib", "pandas") if name in sys.modules]
report = regard.check(lambda x: x.cumsum(1), __import__("torch").randn(2, 6, 4), causal=True)
after = sorted(name for name in sys.modules if name.startswith("regard.") and name not in always)
print(json.dumps([own, others, after, report.ok]))
"""


def test_no_other_room_is_imported() -> None:
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    own, others, after, is_ok = json.loads(done.stdout)
    assert {name.split(".")[1] for name in own} <= {"check", "errors"}
    assert others == [] and after == own and is_ok
