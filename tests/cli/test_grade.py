"""`regard grade` as students and teachers see it."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path

import pytest

from regard.learn.grading import exercise_key, exercise_markdown
from regard.learn.worksheets import make_sheet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RIGHT = '{"d_k": 4, "scores": [[2, 0]], "scaled": [[1, 0]]}'
WRONG = '{"d_k": 4, "scores": [[2, 0]], "scaled": [[2, 0]]}'
COLUMNS = ["file", "verdict", "step", "cell", "given", "right", "cause", "checked", "blank"]


@pytest.fixture
def grade(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "grade")


@pytest.fixture
def graded(grade, tmp_path):
    """Status and stdout for a file with this text."""

    def run(text: str, *words: str, name: str = "work.json") -> tuple[int, str]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return grade(tmp_path / name, *words)[:2]

    return run


@pytest.fixture
def folder(tmp_path):
    """One right, one wrong, one that cannot be read, one that is not ours."""
    (tmp_path / "a.json").write_text(RIGHT)
    (tmp_path / "b.json").write_text(WRONG)
    (tmp_path / "c.md").write_text("## Atention\n[1 2]\n")
    (tmp_path / "d.txt").write_text("not graded")
    return tmp_path


@pytest.fixture
def course(tmp_path):
    """Four who did not scale, a right calculation, two sheets of which one is wrong, and prose."""
    folder = tmp_path / "course"
    folder.mkdir()
    for number in range(4):
        (folder / f"anna-{number}.json").write_text(WRONG)
    (folder / "bob.json").write_text(RIGHT)
    block = make_sheet(7, step="block").key
    (folder / "carl.md").write_text(block, encoding="utf-8")
    wrong = block.replace("[0.74 1.70]", "[0.85 1.96]")
    (folder / "dora.md").write_text(wrong, encoding="utf-8")
    (folder / "emil.md").write_text("## Atention\n[1 2]\n")
    return folder


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_first_note_is_wrong_at_the_weighted_sum(grade):
    status, out, err = grade(EXAMPLES / "first_note.md")
    words = " ".join(out.split())
    assert (status, err) == (1, "")
    assert "Wrong first at the weighted sum (output): The, dimension 1" in words
    assert "given 1.2669" in words and "right 0.8446 = 0.4223·1 + 0.1554·0 + 0.4223·1" in words
    assert "right 0.8446 0.5777 0.8446 0.5777" in words
    assert "sat counted twice" in words
    assert "doubled value, a doubled weight and a double addition look the same" in words


def test_right_work_ends_with_0(grade):
    status, out, _ = grade(EXAMPLES / "hand_calculation.md")
    assert status == 0 and "All right: 69 cells checked." in out
    assert grade(EXAMPLES / "temperature.md")[0] == 0


def test_what_is_not_right_says_why(graded):
    assert graded(exercise_markdown(1), name="e.md")[0] == 1
    assert "Nothing filled in" in graded(exercise_markdown(1), name="e.md")[1]
    status, out = graded('{"weights": [[0.5, 0.5]]}')
    assert status == 2 and "Nothing to check" in out
    text = (EXAMPLES / "temperature.md").read_text(encoding="utf-8")
    status, out = graded(text.replace("[0.7311 0.2689]", "[0.88 0.12]"), name="t.md")
    assert status == 1 and "Cause: not scaled" in out


@pytest.mark.parametrize("name", ["attention.py", "ATTENTION.PY"])
def test_code_is_answered_by_what_is_graded_now(refused, grade, tmp_path, name):
    (tmp_path / name).write_text("x = 1\n")
    assert refused("grade", tmp_path / name) == (
        f"regard: {tmp_path / name}: grading of code was retired; give a hand calculation, as a "
        ".md or .json file"
    )
    (tmp_path / "a.json").write_text(RIGHT)
    status, out, _ = grade(tmp_path)
    assert status == 2 and out.endswith("1 right, 1 unreadable.\n")


def test_tokens_are_text_not_markup_and_no_formula(graded):
    document = {"d_k": 4, "scores": [[2, 0]], "scaled": [[-2, 0]]}
    _, out = graded(json.dumps(document | {"tokens": ["[red]x", "\x1b[31my"]}))
    assert "[red]x" in out and "\x1b" not in out
    (row,) = rows(graded(json.dumps(document | {"tokens": ["=1+1", "b"]}), "--csv", "-")[1])
    assert row["cell"].startswith("'=1+1") and row["given"] == "-2"


def test_many_files_get_a_line_each_and_the_worst_status(grade, folder):
    status, out, _ = grade(folder, folder / "a.json")  # named twice, graded once
    lines = out.splitlines()
    assert status == 2 and len(lines) == 5
    assert "right  2 cells checked" in lines[0]
    assert "wrong at scaled: token 1 → token 1, given 2, right 1; not scaled" in lines[1]
    assert "unreadable: unknown step 'Atention'; known are tokens, embeddings" in lines[2]
    assert lines[-1] == "1 right, 1 wrong, 1 unreadable."
    assert grade(folder / "a.json", folder / "b.json")[0] == 1


def test_csv_has_the_columns_a_teacher_needs(grade, folder):
    status, out, _ = grade(folder, "--csv", folder / "marks.csv")
    assert status == 2 and "1 right, 1 wrong" in out and list(folder.glob(".*")) == []
    table = rows((folder / "marks.csv").read_text(encoding="utf-8"))
    assert list(table[0]) == COLUMNS
    assert (table[0]["checked"], table[0]["blank"]) == ("2", "0")
    assert [row["verdict"] for row in table] == ["right", "wrong", "unreadable"]
    assert (table[1]["step"], table[1]["given"], table[1]["right"]) == ("scaled", "2", "1")
    assert "not scaled" in table[1]["cause"] and "Atention" in table[2]["cause"]
    status, out, err = grade(folder, "--csv", "-")
    assert (status, err, rows(out)) == (2, "", table)  # nothing but CSV


def test_json_has_the_same(grade, folder):
    status, out, _ = grade(folder, "--json")
    document = json.loads(out)
    right, wrong, unreadable = document["files"]
    assert status == 2 and document["summary"] == "1 right, 1 wrong, 1 unreadable"
    assert (right["verdict"], right["checked"], right["blank"]) == ("right", 2, 0)
    assert wrong["first_wrong"]["step"] == "scaled" and wrong["first_wrong"]["right"] == 1
    assert wrong["first_wrong"]["cause"]["kind"] == "not-scaled"
    assert "Atention" in unreadable["problem"]


def test_calculations_and_sheets_are_one_table(grade, course):
    _, out, _ = grade(course)
    assert "right  step block, seed 7: 20 numbers checked" in out
    assert "wrong at step block, answer 3: number 1, given 0.85, right 0.74; divided by 3" in out
    assert "wrong at scaled" in out and out.endswith("2 right, 5 wrong, 1 unreadable.\n")


def test_partial_sheets_are_counted_apart(grade, tmp_path):
    (tmp_path / "all.md").write_text(exercise_key(7), encoding="utf-8")
    some = exercise_key(7).partition("## K")[0]
    (tmp_path / "some.md").write_text(some, encoding="utf-8")
    status, out, _ = grade(tmp_path)
    assert status == 0 and out.splitlines()[-1] == "1 right, 1 right so far."
    assert "some.md  right so far  6 cells checked, 45 blank" in out
    assert "right so far" in grade(tmp_path, "--statistics")[1]
    table = rows(grade(tmp_path, "--csv", "-")[1])
    assert [(row["checked"], row["blank"]) for row in table] == [("51", "0"), ("6", "45")]


def test_statistics_are_printed_without_names(grade, course):
    status, out, err = grade(course, "--statistics")
    assert (status, err) == (2, "")
    assert out.startswith("8 submissions\n") and "First mistakes by step, of 5 wrong" in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "scaling: no scale 4 80%" in lines and "other causes (1) 1 20%" in lines
    assert not any(name in out for name in ("anna", "0.85", "Atention", "block"))
    assert grade("--statistics", course)[1] == grade(course, "--statistics", "-")[1] == out


def test_statistics_are_written_beside_the_table(grade, course, tmp_path):
    status, out, _ = grade(course, "--statistics", tmp_path / "s.json")
    document = json.loads((tmp_path / "s.json").read_text())
    assert status == 2 and "anna-0.json" in out and document["submissions"] == 8
    first = {"name": "scaling", "count": 4, "share": 0.8}
    assert document["first_mistakes_by_step"][0] == first
    grade(course, "--statistics", tmp_path / "s.csv", "--csv", tmp_path / "marks.csv")
    counted = rows((tmp_path / "s.csv").read_text())
    assert {row["table"] for row in counted} == {"verdict", "step", "cause"}
    assert len(rows((tmp_path / "marks.csv").read_text())) == 8
