"""Exercise sheets: what is handed out, and what is said of it when it comes back filled in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.learn.grading import COLUMNS, exercise_key, exercise_markdown, one_line
from regard.learn.languages import LANGUAGES
from regard.learn.worksheets import (
    STEPS,
    GradedSheet,
    grade_written,
    make_sheet,
    save_sheets,
    seeds_of,
)

ASKED = {"projections": ["Q", "K", "V"], "scores": ["scores"], "scaling": ["scaled"],
         "softmax": ["weights"], "output": ["output"]}  # fmt: skip
BLOCK, HEADS = make_sheet(7, step="block").key, make_sheet(7, step="heads").key
LABS = (
    "two-matrices", "scaling", "masking", "lookup", "saturation", "training", "shapes",
    "heads-cost", "positions", "kv-cache", "next-word", "cross-attention",
)  # fmt: skip


@pytest.fixture
def graded(tmp_path):
    """Grade a text as a file."""

    def grade(text):
        path = tmp_path / "sheet.md"
        path.write_text(text, encoding="utf-8")
        return grade_written(path)

    return grade


def answered(text, number, words):
    """A sheet with other words under one of its answers."""
    pattern = rf"(## answer {number}\n\n).*?(?=\n\n## |\n*\Z)"
    changed, count = re.subn(pattern, lambda m: m[1] + words, text, flags=re.DOTALL)
    assert count == 1
    return changed


def rows_of(matrix, places=2):
    """A matrix as it is answered."""
    rows = np.atleast_2d(matrix)
    return "\n".join("[" + " ".join(f"{v:.{places}f}" for v in row) + "]" for row in rows)


def line(verdict):
    pieces = verdict.one_line(0) if isinstance(verdict, GradedSheet) else one_line(verdict, 0)
    return "".join(text for text, _ in pieces)


def words_of(lines):
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


# ── what is handed out ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("step", STEPS)
def test_every_key_is_right_and_every_empty_sheet_is_not(graded, step, code):
    for seed in (3, 7):
        sheet = make_sheet(seed, step=step, code=code)
        empty, key = graded(sheet.text), graded(sheet.key)
        assert (empty.verdict, empty.exit_code) == ("nothing filled in", 1)
        assert (key.verdict, key.is_partial) == ("right", False)
        assert (key.as_dict()["seed"], key.as_dict()["blank"]) == (seed, 0)
        assert empty.as_dict()["blank"] == key.as_dict()["checked"] > 0


@pytest.mark.parametrize("step", STEPS)
def test_languages_differ_in_prose_alone(step):
    english, *others = (make_sheet(7, step=step, code=code).key for code in LANGUAGES)

    def read(text):  # what the grader reads
        named = re.findall(r"^step: .*|^## .*|^\|.*", text, re.MULTILINE)
        return named, re.findall(r"^## answer .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)

    for other in others:
        assert other != english and read(other) == read(english)


def test_the_whole_calculation_is_the_exercise():
    sheet = make_sheet(7)
    assert (sheet.text, sheet.key) == (exercise_markdown(7), exercise_key(7))


@pytest.mark.parametrize("step", ASKED)
def test_only_the_step_asked_for_is_blank_and_last(step):
    sections = re.findall(
        r"## (\w+)\n\n(.*?)(?=\n## |\Z)", make_sheet(7, step=step).text, re.DOTALL
    )
    assert [name for name, body in sections if "?" in body] == ASKED[step]
    assert [name for name, _ in sections][-len(ASKED[step]) :] == ASKED[step]


@pytest.mark.parametrize("step", STEPS)
def test_a_seed_repeats_and_seeds_differ(step):
    assert make_sheet(5, step=step) == make_sheet(5, step=step)
    assert len({make_sheet(seed, step=step).key.partition("\n\n")[2] for seed in range(30)}) == 30


@pytest.mark.parametrize("step", ["all", "softmax", "block"])
@pytest.mark.parametrize(("code", "asks"), [("en", "in place"), ("de", "etze"), ("zh", "换成")])
def test_a_key_does_not_ask_for_answers(step, code, asks):
    sheet = make_sheet(7, step=step, code=code)
    assert asks in sheet.text and asks not in sheet.key


@pytest.mark.parametrize(
    ("seed", "options", "message"),
    [
        (7, {"step": "sofmax"}, "'sofmax' is not known; the steps are all, projections"),
        (7, {"code": "fr"}, "not written in 'fr'"),
        (-1, {}, "0 or more; got -1"),
        (-1, {"step": "block"}, "0 or more; got -1"),
    ],
)
def test_what_cannot_be_made_is_refused(seed, options, message):
    with pytest.raises(InputError, match=message):
        make_sheet(seed, **options)


# ── which sheet it is ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "named",
    ["step: block, seed 7", "**step: block, seed 7**", "> Step: `block`, seed 7",
     "step：block，seed 7", "- step: block, seed: 7", "", "# Der Block von Hand, Aufgabe 7",
     "# 手算 Transformer 块，练习 7"],
)  # fmt: skip
def test_a_sheet_is_known_by_its_line_or_its_title(graded, named):
    title, line = BLOCK.split("\n\n")[:2]
    text = BLOCK.replace(line, "" if named[:1] == "#" else named, 1)
    text = text.replace(title, named if named[:1] == "#" else "" if named else title, 1)
    assert (graded(text).as_dict()["sheet"], graded(text).verdict) == ("step block", "right")


@pytest.mark.parametrize("named", ["step: nothing, seed 7", "step: block", "Step 3: scores"])
def test_other_lines_name_nothing(graded, named):
    text = BLOCK.replace("step: block, seed 7", named).partition("\n")[2]
    assert "sheet" not in graded(text).as_dict()


@pytest.mark.parametrize(
    ("sheet", "lab"),
    [(f"# x\n\nlab: {lab}, seed 12\n\n## answer 1\n\n[1 2]\n", lab) for lab in LABS]
    + [
        ("# Where −∞ goes, exercise 7\n", "masking"),
        ("# Wohin −∞ gehört, Aufgabe 7: Lösung\n", "masking"),
        ("# Why divide by √d_k, exercise 12: the key\n", "scaling"),
        ("# KV 缓存，练习 3\n", "kv-cache"),
    ],
)
def test_a_sheet_of_a_retired_lab_is_recognised(graded, sheet, lab):
    verdict = graded(sheet)
    assert (verdict.verdict, verdict.exit_code) == ("unreadable", 2)
    assert verdict.problem.startswith(f"a sheet of the lab {lab}; lab sheets were retired")


# ── what it gives has to stay ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize(
    ("given", "changed"),
    [("| Bees  | 0 | 1 |", "| Bees  | 0 | 2 |"), ("| 2 | 1 | 1 |", "| 2 | 1 | 5 |")],
)
def test_a_changed_given_of_an_exercise_is_reported_first(graded, code, given, changed):
    verdict = graded(make_sheet(7, code=code).key.replace(given, changed, 1))
    assert (verdict.verdict, verdict.exit_code) == ("wrong", 1)
    assert verdict.first_mistake == ("givens", "given-changed")
    assert "the exercise has 1" in line(verdict)
    assert verdict.as_dict()["checked"] == 51, "the rest is graded by the exercise's own numbers"


def test_other_numbers_worked_out_rightly_are_not_the_exercise(graded):
    """Givens that make the work easy, and answers that follow from them."""
    text = make_sheet(7).key
    easy = re.sub(r"(?<=## w_v\n\n)(\|.*\n\|.*\n)(?:\|.*\n)+",
                  r"\1| 1 | 0 | 0 |\n| 2 | 0 | 0 |\n", text)  # fmt: skip
    easy = re.sub(r"(?<=## V\n\nembeddings · w_v\n\n)(\|.*\n\|.*\n)(?:\|.*\n)+",
                  r"\1| Bees | 0 | 0 |\n| make | 0 | 0 |\n| honey | 0 | 0 |\n", easy)  # fmt: skip
    document = graded(easy).as_dict()
    assert document["first_wrong"]["step"] == "w_v" and document["steps"]["V"]["wrong"] > 0


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_sheet_of_a_step_is_compared_with_or_without_its_line(graded, code):
    key = make_sheet(7, step="softmax", code=code).key
    for text in (key, key.replace("step: softmax, seed 7\n", "")):
        assert graded(text).as_dict()["checked"] == 9
        changed = re.sub(r"(?<=\| make  \| )( *)[0-9]+", r"\g<1>9", text, count=1)
        assert graded(changed).as_dict()["first_wrong"]["step"] == "embeddings"
    scaled = re.sub(r"(## scaled.*?\| Bees +\| +)[0-9.-]+", r"\g<1>9.1", key, flags=re.DOTALL)
    assert graded(scaled).as_dict()["first_wrong"]["step"] == "scaled"
    assert graded(scaled).first_mistake == ("givens", "given-changed")


def test_changed_matrices_and_another_seed_are_no_answer_of_the_sheet(graded):
    for text in (BLOCK.replace("[[3 2 0 1]", "[[3 2 0 9]"), BLOCK.replace("seed 7", "seed 8")):
        verdict = graded(text)
        assert (verdict.verdict, verdict.first_mistake[1]) == ("wrong", "given-changed")
        assert "at step block, givens: given 3 2 0" in line(verdict)
        assert verdict.as_dict()["first_wrong"]["cause"]["kind"] == "given-changed"
        assert "Wrong first at what the sheet gives (givens)" in words_of(verdict.full())


def test_working_beside_a_question_changes_nothing(graded):
    worked = BLOCK.replace("## answer 3", "divided by 4: 2.19 / 4 = 0.55\n\n## answer 3")
    assert graded(worked).verdict == "right"
    changed = BLOCK.replace("divided by 4", "divided by 8")
    assert "question 3: given 8 3 2, the exercise has 4 3 2" in line(graded(changed))


# ── answers ──────────────────────────────────────────────────────────────────────────────────


def facts_of(sheet):
    """What a sheet gives, and the right answers, by formulas of this file."""
    block = sheet.partition("```text\n")[2].partition("```")[0]
    names = re.split(r"^(\w+) = ", block, flags=re.MULTILINE)[1:]
    f = {
        name: np.array(json.loads(re.sub(r"\s+", ",", text.strip())), dtype=float)
        for name, text in zip(names[::2], names[1::2], strict=True)
    }
    if "w_o" in f:
        concat = np.concatenate([f["head_1"], f["head_2"]], axis=1)
        return f | {"answers": [concat, concat @ f["w_o"]]}
    added = f["x"] + f["attention"]
    means, centred = added.mean(axis=1), added - added.mean(axis=1, keepdims=True)
    deviations = np.sqrt((centred**2).mean(axis=1))
    return f | {"answers": [added, means, deviations, centred / deviations[:, None]]}


def centred(f):
    return f["answers"][0] - f["answers"][1][:, None]


# step, number of the answer → kind of the cause and how the mistake is made
MISTAKES = {
    "heads": [
        (1, "heads-exchanged", lambda f: np.hstack([f["head_2"], f["head_1"]])),
        (1, "heads-added", lambda f: f["head_1"] + f["head_2"]),
        (1, "rows-stacked", lambda f: np.vstack([f["head_1"], f["head_2"]])),
        (1, "heads-interleaved", lambda f: f["answers"][0][:, [0, 2, 1, 3]]),
        (2, "head-left-out", lambda f: f["head_1"] @ f["w_o"][:2]),
        (2, "head-left-out", lambda f: f["head_2"] @ f["w_o"][2:]),
        (2, "heads-exchanged", lambda f: np.hstack([f["head_2"], f["head_1"]]) @ f["w_o"]),
        (2, "not-projected", lambda f: f["answers"][0]),
    ],
    "block": [
        (1, "residual-left-out", lambda f: f["attention"]),
        (1, "subtracted", lambda f: f["x"] - f["attention"]),
        (1, "multiplied", lambda f: f["x"] * f["attention"]),
        (2, "over-columns", lambda f: f["answers"][0].mean(axis=0)),
        (2, "sum", lambda f: f["answers"][0].sum(axis=1)),
        (3, "n-minus-1", lambda f: f["answers"][0].std(axis=1, ddof=1)),
        (3, "variance", lambda f: f["answers"][0].var(axis=1)),
        (3, "not-divided", lambda f: 2 * f["answers"][2]),
        (4, "not-centred", lambda f: f["answers"][0] / f["answers"][2][:, None]),
        (4, "not-divided", centred),
        (4, "variance", lambda f: centred(f) / f["answers"][2][:, None] ** 2),
        (4, "over-columns", lambda f: (f["answers"][0] - f["answers"][0].mean(axis=0))
         / np.maximum(f["answers"][0].std(axis=0), 1e-9)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("step", MISTAKES)
def test_every_known_mistake_is_named(graded, step):
    for seed in range(3):
        key = make_sheet(seed, step=step).key
        facts = facts_of(key)
        for number, kind, mistake in MISTAKES[step]:
            verdict = graded(answered(key, number, rows_of(mistake(facts))))
            assert verdict.verdict == "wrong"
            assert verdict.first_mistake == (f"step {step}, answer {number}", kind)


@pytest.mark.parametrize("step", MISTAKES)
def test_no_two_answers_look_alike(step):
    for seed in range(40):
        facts = facts_of(make_sheet(seed, step=step).key)
        for asked, right in enumerate(facts["answers"], 1):
            wrong = [mistake(facts) for number, _, mistake in MISTAKES[step] if number == asked]
            assert len({rows_of(matrix) for matrix in (right, *wrong)}) == len(wrong) + 1


@pytest.mark.parametrize("step", MISTAKES)
def test_right_answers_by_other_formulas_to_two_or_four_decimals(graded, step):
    for seed in range(5):
        sheet = make_sheet(seed, step=step)
        text, finer = sheet.text, sheet.text
        for number, answer in enumerate(facts_of(sheet.text)["answers"], 1):
            text = answered(text, number, rows_of(answer))
            finer = answered(finer, number, rows_of(answer, 4))
        assert graded(text).verdict == graded(finer).verdict == "right"


def test_what_follows_from_a_wrong_answer_is_right(graded):
    facts = facts_of(BLOCK)
    wrong = facts["x"] - facts["attention"]
    means, deviations = wrong.mean(axis=1), wrong.std(axis=1)
    text = BLOCK
    for number, matrix in enumerate((wrong, means, deviations), 1):
        text = answered(text, number, rows_of(matrix))
    steps = graded(text).as_dict()["steps"]
    assert [step["wrong"] for step in steps.values()] == [1, 0, 0, 0]  # the last has true numbers
    normed = (wrong - means[:, None]) / deviations[:, None]
    assert graded(answered(text, 4, rows_of(normed))).as_dict()["steps"]["answer 4"]["wrong"] == 0


def test_rounded_answers_may_be_gone_on_with(graded):
    rows, means, deviations, _ = facts_of(BLOCK)["answers"]
    rounded = (rows - means.round(2)[:, None]) / deviations.round(2)[:, None]
    assert graded(answered(BLOCK, 4, rows_of(rounded))).verdict == "right"


@pytest.mark.parametrize(
    "words",
    [
        "[0.74 1.70]", "(0.74, 1.70)", "74 %, 170 %", "0,74; 1,70", "0.74\n1.70", "| 0.74 | 1.7 |",
        r"$\begin{pmatrix} 0.74 & 1.70\end{pmatrix}$", "σ = (0.74, 1.70)",
        r"$$\begin{bmatrix} 0{,}74 \\ 1{,}70 \end{bmatrix}$$",
    ],
)  # fmt: skip
def test_a_row_in_many_spellings(graded, words):
    assert graded(answered(BLOCK, 3, words)).verdict == "right"
    assert graded(answered(BLOCK, 3, words.replace("74", "47"))).verdict == "wrong"


def test_a_file_of_ones_own_needs_only_the_line_and_the_answers(graded):
    text = "**step: block, seed 7**\nAntwort 2 = [1.92 2]\n**answer 3**: (0.74, 1.7)\n"
    document = graded(text).as_dict()
    assert (document["verdict"], document["checked"], document["blank"]) == ("right", 4, 16)


@pytest.mark.parametrize(
    ("words", "cause"),
    [("[0.74 1.70 0.10]", "3 numbers given, 2 numbers asked"),
     ("[0.74 1.70]\n[1 2]", "2 rows of 2 given, 2 numbers asked"),
     ("[0.91 1.70]", "an arithmetic slip"), ("[-0.74 1.70]", "the sign is wrong"),
     ("[7.4 17.0]", "the decimal point is one place too far to the right"),
     ("[0.074 0.170]", "the decimal point is one place too far to the left")],
)  # fmt: skip
def test_other_mistakes_are_described(graded, words, cause):
    assert graded(answered(BLOCK, 3, words)).as_row()["cause"] == cause


@pytest.mark.parametrize("words", ["0.74 or 1.70?!", "[1 2], [3]", "e^4", "die zweite", "第二个"])
def test_what_cannot_be_read_is_listed_with_its_line(graded, words):
    text = answered(BLOCK, 3, words)
    verdict = graded(text)
    assert (verdict.verdict, verdict.exit_code) == ("not all read", 1)
    (unread,) = verdict.as_dict()["not_read"]
    assert text.splitlines()[unread["line"] - 1] == words == unread["text"]
    assert verdict.as_dict()["blank"] == 0
    assert words in words_of(verdict.full()) and words in verdict.as_row()["cause"]


@pytest.mark.parametrize(("words", "blank"), [("[0.74 ?]", 1), ("?", 2), ("? (ask Eva)", 2)])
def test_what_is_left_open_is_blank(graded, words, blank):
    verdict = graded(answered(BLOCK, 3, words))
    assert (verdict.verdict, verdict.is_partial, verdict.exit_code) == ("right", True, 0)
    assert verdict.as_dict()["blank"] == blank
    assert f"Right so far: {20 - blank} numbers checked, {blank} blank." in words_of(verdict.full())
    assert line(verdict).strip().split("  ")[1] == "right so far"
    assert f"{20 - blank} numbers checked, {blank} blank" in line(verdict)


@pytest.mark.parametrize(("step", "checked", "blank"), [("all", 6, 45), ("projections", 6, 12)])
def test_answers_that_were_deleted_are_blank(graded, step, checked, blank):
    verdict = graded(make_sheet(7, step=step).key.partition("## K")[0])
    assert verdict.is_partial and verdict.as_row()["verdict"] == "right"
    assert (verdict.as_row()["checked"], verdict.as_row()["blank"]) == (str(checked), str(blank))


def test_a_verdict_in_full_in_a_line_as_a_row_and_as_json(graded):
    verdict = graded(answered(answered(BLOCK, 1, "[-0.8 1 1.4 0.1]\n[-0.2 1.8 -0.9 -0.7]"), 3, "?"))
    words = words_of(verdict.full())
    assert "step block, seed 7" in words and "✗ answer 1  wrong" in words
    assert "Wrong first at answer 1 (residual)" in words
    assert "given  [-0.8 1 1.4 0.1] [-0.2 1.8 -0.9 -0.7]" in words
    assert "Cause: x left out: the attention is added to x." in words
    row = verdict.as_row()
    assert list(row) == list(COLUMNS)
    assert (row["step"], row["cell"]) == ("step block, answer 1", "row 1, number 1")
    assert (row["given"], row["right"]) == ("-0.8", "2.2")
    document = json.loads(json.dumps(verdict.as_dict()))
    assert document["first_wrong"]["cause"]["kind"] == "residual-left-out"
    assert document["steps"]["answer 3"] == {"checked": 0, "wrong": 0, "blank": 2}
    assert "row 1, number 1, given -0.8, right 2.2; x left out" in line(verdict)
    assert "All right: 20 numbers checked." in words_of(graded(BLOCK).full())


# ── a folder of sheets ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("text", "seeds"), [("7", [7]), ("1:3", [1, 2, 3]), (" 0:0 ", [0])])
def test_seeds(text, seeds):
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "-1", "x", "3:1", "1:", "1:99999999", "1.5", "1-3"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(InputError, match=r"--exercise .*as in --exercise"):
        seeds_of(text)


def save(folder, seeds=(1, 2), overwrite=False, make=make_sheet, **more):
    return save_sheets(folder, list(seeds), make, name="exercise", overwrite=overwrite, **more)


def test_sheets_and_keys_are_numbered(tmp_path):
    seen = []
    folder, keys = tmp_path / "a" / "s", tmp_path / "a" / "s-keys"
    assert save(folder, range(9, 12), advance=lambda *n: seen.append(n)) == 3
    names = ["exercise-009.md", "exercise-010.md", "exercise-011.md"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert sorted(path.name for path in keys.iterdir()) == names
    assert (folder / names[1]).read_text("utf-8") == make_sheet(10).text + "\n"
    assert (keys / names[1]).read_text("utf-8") == make_sheet(10).key + "\n"
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["s", "s-keys"]


def test_a_folder_is_filled_only_where_nothing_is_lost(tmp_path):
    with pytest.raises(InputError, match=r"x\.md: 2 sheets need a folder, .* give --save .*x$"):
        save(tmp_path / "x.md")
    assert list(tmp_path.iterdir()) == []
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already and is not empty; give another folder"):
        save(folder)
    save(folder, overwrite=True)
    assert (folder / "mine.txt").read_text() == "mine" and (folder / "exercise-001.md").exists()
    with pytest.raises(InputError, match="is a file"):
        save(folder / "mine.txt", overwrite=True)
    for sheet in folder.iterdir():
        sheet.unlink()
    with pytest.raises(InputError, match="s-keys: exists already"):
        save(folder)


@pytest.mark.parametrize("there", [False, True])
def test_an_interruption_leaves_nothing(tmp_path: Path, there: bool):
    folder = tmp_path / "s"
    if there:
        folder.mkdir()

    def make(seed):
        if seed == 3:
            raise KeyboardInterrupt
        return make_sheet(seed)

    with pytest.raises(KeyboardInterrupt):
        save(folder, range(1, 5), make=make)
    assert list(tmp_path.iterdir()) == ([folder] if there else [])
    assert not there or list(folder.iterdir()) == []
