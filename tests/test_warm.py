"""Forked scripts are processes of their own: argv, streams, folder, status, nothing left behind."""

from __future__ import annotations

from pathlib import Path

import warm


def test_a_script_is_a_process_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, beside\n"
        "print(sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ['WORD'], beside.x)\n"
        "sys.exit('no')\n"
    )
    (tmp_path / "beside.py").write_text("x = 3")
    folder = tmp_path.resolve()
    done = warm.run(script, "a", "b", input="given", cwd=folder, WORD="w")
    assert done.stdout == f"['a', 'b'] given {folder} w 3\n"
    assert (done.returncode, done.stderr) == (1, "no\n")


def test_what_a_script_changes_is_gone_for_the_next() -> None:
    change = "import regard.summary, os; regard.summary.here = 1; os.environ['HERE'] = '1'"
    assert warm.run(change).returncode == 0
    ask = "import regard.summary, os; print(hasattr(regard.summary, 'here'), 'HERE' in os.environ)"
    assert warm.run(ask).stdout == "False False\n"


def test_an_exception_is_told_as_python_tells_it() -> None:
    done = warm.run("raise ValueError('wrong')")
    assert done.returncode == 1 and done.stderr.endswith("ValueError: wrong\n")


def test_without_the_package_nothing_of_it_is_loaded() -> None:
    ask = "import sys; print('torch' in sys.modules, 'regard' in sys.modules)"
    assert warm.run(ask, package=False).stdout == "True False\n"


def test_a_script_that_takes_too_long_is_ended() -> None:
    assert warm.run("import time; time.sleep(60)", timeout=1).returncode < 0
