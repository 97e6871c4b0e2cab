"""What is said about a worksheet, in full, in a line, as a row and as JSON."""

from __future__ import annotations

import json

from regard.learn.worksheets import make_sheet

LATE = "[0.12 0.02 0]"  # masked after the softmax
KEY = make_sheet(7, lab="masking").key


def text_of(lines):
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def test_the_first_wrong_answer_and_its_cause(graded, answered):
    verdict = graded(answered(answered(KEY, 1, LATE), 4, "16"))
    said = text_of(verdict.full())
    assert "lab masking, seed 7" in said and "✗ answer 1  wrong" in said
    assert "Wrong first at answer 1 (weights)" in said and f"given  {LATE}" in said
    assert "Cause: masked after the softmax" in said
    assert verdict.first_mistake == ("lab masking, answer 1", "masked-late")
    row = verdict.as_row()
    assert (row["step"], row["cell"]) == ("lab masking, answer 1", "number 1")
    assert (row["given"], row["right"]) == ("0.12", "0.88")
    document = json.loads(json.dumps(verdict.as_dict()))
    assert document["first_wrong"]["cause"]["kind"] == "masked-late"
    assert "number 1, given 0.12, right 0.88; masked after" in text_of([verdict.one_line(10)])


def test_right_and_partly_right(graded, answered):
    assert "All right: 6 numbers checked." in text_of(graded(KEY).full())
    part = graded(answered(KEY, 4, "?"))
    assert "Right so far: 5 numbers checked, 1 blank." in text_of(part.full())
    assert "5 numbers checked, 1 blank" in text_of([part.one_line(10)])


def test_lines_that_were_not_read_are_listed(graded, answered):
    verdict = graded(answered(KEY, 4, "10 or 11"))
    assert verdict.exit_code == 1 and "10 or 11" in text_of(verdict.full())
    assert "not read: '10 or 11'" in verdict.as_row()["cause"]


def test_cells_that_the_sheet_gives_are_not_the_students(graded):
    sheet = make_sheet(7, step="softmax")
    assert graded(sheet.text).mark.checked == 0
    key = graded(sheet.key)
    assert key.mark.checked == 9 and key.verdict == "right"
    changed = sheet.text.replace("## scores", "## scores\n\nchanged", 1)
    assert graded(changed).verdict == "nothing filled in"


def test_a_given_step_that_was_changed_is_found(graded):
    sheet = make_sheet(7, step="softmax")
    at = sheet.text.index("## scores")
    row = sheet.text.index("| Bees  |", at)
    end = sheet.text.index("\n", row)
    changed = sheet.text[:row] + "| Bees  | 9 | 9 | 9 |" + sheet.text[end:]
    assert graded(changed).mark.first_wrong.step == "scores"
