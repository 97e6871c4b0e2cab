"""The line that names a sheet is found however it is decorated, and only where it names one."""

from __future__ import annotations

import pytest

from regard.learn.worksheets.catalogue import LABS, STEPS, named_in, naming_line


@pytest.mark.parametrize("name", LABS)
def test_a_lab_is_found_by_its_line(name):
    assert named_in(f"# x\n\n{naming_line('lab', name, 12)}\n") == ("lab", name, 12)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_found_by_its_line(name):
    assert named_in(naming_line("step", name, 0)) == ("step", name, 0)


@pytest.mark.parametrize(
    "line",
    [
        "**lab: masking, seed 7**",
        "> Lab: `masking`, seed 7",
        "lab：masking，seed 7",
        "- lab: masking, seed: 7",
    ],
)
def test_decorations_do_no_harm(line):
    assert named_in(f"text\n{line}\ntext") == ("lab", "masking", 7)


@pytest.mark.parametrize(
    "line", ["lab: nothing, seed 7", "lab: masking", "step: 3, seed", "Step 3: scores"]
)
def test_other_lines_name_nothing(line):
    assert named_in(line) is None
