"""A file that misbehaves costs one sentence, and nothing else."""

from __future__ import annotations

import pytest

from learn.programs.bases import BASES
from regard.learn.programs import grade_code

RIGHT = BASES["numpy_2d"][0]
BAD = {
    "loop": ("while True:\n    pass", "did not finish within 2 seconds"),
    "flood": ("while True:\n    print('x' * 100000)", "did not finish within 2 seconds"),
    "memory": ("held = [np.zeros(1 << 26) for _ in range(1000)]", "more memory than is allowed"),
    "leaves": ("import sys; sys.exit(3)", "ends the program (sys.exit)"),
    "vanishes": ("import os; os._exit(3)", "ended the process (exit status 3)"),
    "forks": ("import os\nwhile True:\n    os.fork()", "another process is not allowed"),
    "shells": ("import os; os.system('true')", "another program is not allowed"),
    "writes": ("open('/tmp/../tmp/regard-test', 'w')", "writing outside the working folder"),
    "asks": ("input()", "EOFError"),
    "lacks": ("import nothing_of_this_name", "nothing_of_this_name, which is not installed"),
    "broken": ("def attention(q, k, v:", "so it is not Python"),
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Every bad file, a right one, and one with nothing to call, in one run."""
    folder = tmp_path_factory.mktemp("class")
    for name, (line, _) in BAD.items():
        (folder / f"{name}.py").write_text(f"{RIGHT}\n{line}\n")
    (folder / "right.py").write_text(f"{RIGHT}\nopen('mine.txt', 'w').write('kept here')\n")
    (folder / "empty.py").write_text("def area(width, height):\n    return width * height\n")
    paths = sorted(folder.iterdir())
    return {one.name.rpartition("/")[2]: one for one in grade_code(paths, seconds=2)}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence_says_what_happened(graded, name):
    one = graded[f"{name}.py"]
    assert (one.verdict, one.exit_code) == ("unreadable", 2)
    assert BAD[name][1] in one.problem and "\n" not in one.problem


def test_the_others_are_graded(graded):
    assert graded["right.py"].verdict == "right"


def test_without_a_call_the_signatures_that_work_are_named(graded):
    problem = graded["empty.py"].problem
    assert "it has area" in problem and "attention(q, k, v, mask=None)" in problem


def test_a_missing_file_is_said(tmp_path):
    assert "cannot be opened" in grade_code([tmp_path / "none.py"])[0].problem
