"""The verdict on one file as the JSON that course software reads."""

from __future__ import annotations

from typing import Any, Final

from regard.learn.programs.grade import GradedCode
from regard.learn.programs.mistakes import STEPS

FORMATS: Final = ("gradescope", "otter", "nbgrader")


def as_format(graded: GradedCode, name: str) -> dict[str, Any]:
    """For Gradescope, Otter-Grader or nbgrader."""
    return {"gradescope": _gradescope, "otter": _otter, "nbgrader": _nbgrader}[name](graded)


def _tests(graded: GradedCode) -> list[dict[str, Any]]:
    """One test per step, with its points and the words of what is wrong."""
    found = {one.step: one for one in reversed(graded.findings)}
    rows = []
    for step, points in STEPS.items():
        one = found.get(step)
        right = one is None and not graded.problem
        words = (
            f"{one.text}. Right: {one.fix}." if one and one.fix else one.text if one else "right"
        )
        rows.append({"name": step, "right": right, "points": float(points),
                     "output": graded.problem or words})  # fmt: skip
    return rows


def _summary(graded: GradedCode) -> str:
    cause = graded.as_row()["cause"]
    called = f" ({graded.signature})" if graded.signature else ""
    return f"{graded.verdict}{called}{f': {cause}' if cause else ''}"


def _gradescope(graded: GradedCode) -> dict[str, Any]:
    """results.json: one test per step."""
    tests = [
        {
            "name": row["name"], "number": str(at), "max_score": row["points"],
            "score": row["points"] if row["right"] else 0.0, "output": row["output"],
            "status": "passed" if row["right"] else "failed", "visibility": "visible",
        }
        for at, row in enumerate(_tests(graded), 1)
    ]  # fmt: skip
    earned, _ = graded.points
    return {"score": earned, "output": _summary(graded), "visibility": "visible", "tests": tests}


def _otter(graded: GradedCode) -> dict[str, Any]:
    """Otter's results of test files: one file, one test case per step."""
    cases = [
        {
            "passed": row["right"], "error": None if row["right"] else row["output"],
            "test_case": {"name": row["name"], "code": graded.signature, "points": row["points"],
                          "hidden": False, "success_message": "right",
                          "failure_message": row["output"]},
        }
        for row in _tests(graded)
    ]  # fmt: skip
    earned, possible = graded.points
    file = {
        "filename": graded.name,
        "points": possible,
        "score": earned,
        "test_case_results": cases,
    }
    return {"test_file_results": [file]}


def _nbgrader(graded: GradedCode) -> dict[str, Any]:
    """Score and maximum for a cell of autograder tests, with a comment for the feedback."""
    earned, possible = graded.points
    parts = [
        {"step": row["name"], "score": row["points"] if row["right"] else 0.0,
         "max_score": row["points"], "comment": row["output"]}
        for row in _tests(graded)
    ]  # fmt: skip
    return {"score": earned, "max_score": possible, "comment": _summary(graded), "parts": parts}
