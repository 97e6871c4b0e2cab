"""What Gradescope, Otter-Grader and nbgrader read."""

from __future__ import annotations

import pytest

from regard.learn.programs import GradedCode, as_format
from regard.learn.programs.diagnose import Finding
from regard.learn.programs.mistakes import STEPS

WRONG = GradedCode(
    "a.py", "f", "f(q, k, v)", (Finding("softmax", "softmax axis", "over queries", "keys"),)
)
LOST = STEPS["softmax"]
WHOLE = sum(STEPS.values())


def test_gradescope_has_a_test_per_step():
    document = as_format(WRONG, "gradescope")
    assert document["score"] == WHOLE - LOST == sum(test["score"] for test in document["tests"])
    assert [test["name"] for test in document["tests"] if test["status"] == "failed"] == ["softmax"]
    assert "over queries" in document["output"]


def test_otter_has_a_case_per_step():
    (file,) = as_format(WRONG, "otter")["test_file_results"]
    failed = [case for case in file["test_case_results"] if not case["passed"]]
    assert len(failed) == 1 and failed[0]["test_case"]["points"] == LOST


def test_nbgrader_has_a_score():
    document = as_format(WRONG, "nbgrader")
    assert (document["score"], document["max_score"]) == (WHOLE - LOST, WHOLE)


@pytest.mark.parametrize("name", ["gradescope", "nbgrader"])
def test_what_cannot_be_graded_has_no_points(name):
    assert as_format(GradedCode("a.py", problem="it crashed"), name)["score"] == 0
