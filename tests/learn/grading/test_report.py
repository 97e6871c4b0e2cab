"""What is said about one file, and about many."""

from __future__ import annotations

import pytest

from regard.learn.grading.report import COLUMNS, Graded, full, grade_file, one_line, tally
from regard.learn.text import StyledLine

RIGHT = '{"d_k": 4, "scores": [[2, 0]], "scaled": [[1, 0]]}'
WRONG = '{"tokens": ["The", "cat"], "d_k": 4, "scores": [[-2, 4]], "scaled": [[-2, 4]]}'


@pytest.fixture
def graded(tmp_path):
    """The verdict on a file with this content."""

    def write_and_grade(content: str) -> Graded:
        path = tmp_path / "work.json"
        path.write_text(content, encoding="utf-8")
        return grade_file(path)

    return write_and_grade


def text(lines: list[StyledLine]) -> list[str]:
    return ["".join(piece for piece, _ in line).rstrip() for line in lines]


def test_right_work_is_counted(graded):
    lines = text(full(graded(RIGHT)))
    assert lines[2] == "    taken as given: scores"
    assert lines[3].split() == ["✓", "scaled", "2", "right", "scores", "÷", "√4"]
    assert lines[-1] == "All right: 2 cells checked."


def test_the_first_wrong_cell_is_shown_with_its_row_and_its_working(graded):
    said = "\n".join(text(full(graded(WRONG))))
    assert "  ✗ scaled   2 of 2 wrong" in said
    assert "Wrong first at the scaling (scaled): The → The" in said
    assert "given  -2" in said and "right  -1  = (-2) ÷ √4" in said
    assert "the row of The\n    given  -2  4\n    right  -1  2" in said
    assert "Cause: not scaled: divide by √d_k = √4." in said


@pytest.mark.parametrize(
    ("step", "working"),
    [
        (
            '"Q": [[1, -2]], "K": [[3, 4], [1, 1]], "scores": [[5, 0]]',
            "right  -5  = 1·3 + (-2)·4",
        ),
        ('"scaled": [[1, 0]], "weights": [["0.80", "0.20"]]', "= e^1 ÷ (e^1 + e^0)"),
        ('"weights": [["0.5", "0.5"]], "V": [[2], [4]], "output": [[9]]', "= 0.5·2 + 0.5·4"),
        ('"embeddings": [[2, 3]], "w_q": [[1], [1]], "Q": [[6]]', "= 2·1 + 3·1"),
    ],
)
def test_every_kind_of_cell_is_worked_out(graded, step, working):
    assert working in "\n".join(text(full(graded("{" + step + "}"))))


def test_work_too_long_for_a_line_is_left_out(graded):
    many = ", ".join(["1.2345"] * 9)
    said = text(full(graded(f'{{"Q": [[{many}]], "K": [[{many}]], "scores": [[99.9]]}}')))
    assert not any("·1.2345" in line for line in said)


def test_blank_cells_are_counted(graded):
    some = graded('{"d_k": 1, "scores": [[3, 4]], "scaled": [[3, null]]}')
    assert text(full(some))[-1] == "Right so far: 1 cell checked, 1 blank."
    none = graded('{"d_k": 1, "scores": [[3]], "scaled": [[null]]}')
    assert text(full(none))[-1] == "Nothing filled in: 1 cell to go."


def test_one_line_for_each_of_many(graded):
    (right,) = text([one_line(graded(RIGHT), 0)])
    assert right.endswith("work.json  right  2 cells checked")
    (wrong,) = text([one_line(graded(WRONG), 0)])
    assert "wrong at scaled: The → The, given -2, right -1; not scaled" in wrong
    (bad,) = text([one_line(graded("{"), 0)])
    assert "unreadable: is not JSON" in bad


def test_a_row_has_every_column_and_a_tally_every_verdict(graded):
    results = [graded(content) for content in (RIGHT, WRONG, WRONG, "{")]
    assert all(tuple(result.as_row()) == COLUMNS for result in results)
    assert [result.exit_code for result in results] == [0, 1, 1, 2]
    assert tally(results) == "1 right, 2 wrong, 1 unreadable"
