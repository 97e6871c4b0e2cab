"""Questions that only a fresh interpreter can answer, asked in one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def ask(program: str, given: Any, path: Path) -> Any:
    """Run a program with `given` as a value; what it leaves in `answer` comes back, as JSON.

    `path` is searched first for imports. The program's own output is kept out of the answer.
    """
    wrapped = (
        "import json, os, sys\n"
        "out = os.fdopen(os.dup(1), 'w')\n"
        "os.dup2(2, 1)\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "given = json.loads(sys.argv[2])\n"
        f"{program}\n"
        "out.write(json.dumps(answer))\n"
        "out.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrapped, str(path), json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the child failed:\n{done.stderr}")
    return json.loads(done.stdout)
