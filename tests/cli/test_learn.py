"""`regard learn`: the lesson in the terminal, as a file and as JSON; exercises and their keys."""

from __future__ import annotations

import json
from functools import partial

import pytest

from regard.learn.worksheets import STEPS, make_sheet


@pytest.fixture
def learn(shell, tmp_path, monkeypatch):
    """The verb, typed in an empty folder: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return partial(shell, "learn")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("", "[0.8446 0.5777 0.8446 0.5777]"),
        ("", "The first note prints [1.2669, 0.9999, 1.2669, 0.9999]"),
        ("--token cat", 'First one row, "cat"'),
        ("--token 3", 'First one row, "sat"'),
        ("--projections random:4", "random numbers (seed 4)"),
        ("--vectors features --projections by-hand", "two heads"),
        ("--vectors smollm2", "SmolLM2"),
        ("--d-k 2", "√d_k = √2 = 1.4142"),
        ("--d-v 2", "d_v = 2"),
        ("--heads 2", "Head 2: every row at once"),
        ("--no-scale", "left out (--no-scale)"),
        ("--causal", "causal: a token sees itself"),
        ("--positions", "word + position 1"),
        ("--block", "commonly called the contextual embedding"),
        ("--next --block --temperature 0.7", "h·e = "),
        ("--language de", "Skalieren"),
    ],
)
def test_every_option_shows(learn, words, shown):
    status, out, err = learn("The cat sat", *words.split())
    assert (status, err) == (0, "") and shown.lower() in out.lower()


def test_made_up_words_are_said_to_be(learn):
    assert "dog made up" in learn("The dog sat")[1]


def test_files_of_vectors_and_projections_are_used(learn, tmp_path):
    eye = [[float(r == c) for c in range(4)] for r in range(4)]
    matrices = {"w_q": eye, "w_k": eye, "w_v": [[2, 0], [0, 2], [0, 0], [0, 0]]}
    (tmp_path / "projections.json").write_text(json.dumps(matrices))
    (tmp_path / "words.json").write_text('{"a": [1, 0, 0, 0], "b": [0, 1, 0, 0]}')
    words = ("--projections", "projections.json", "--embeddings", "words.json")
    status, out, _ = learn("a b", *words)
    assert status == 0 and "projections from projections.json" in out
    assert "Embeddings: from words.json." in out and "v(a) = x @ w_v = [2 0]" in out


def test_json_has_everything_and_a_saved_file_the_same(learn, tmp_path):
    given = json.loads(learn("The cat sat", "--json")[1])
    assert [round(cell, 4) for cell in given["output"][0]] == [0.8446, 0.5777, 0.8446, 0.5777]
    words = ("The cat sat", "--causal", "--heads", "2", "--block")
    status, out, err = learn(*words, "--json", "--save", "l.json")
    assert (status, err) == (0, "written: l.json\n")
    given = json.loads(out)
    assert given == json.loads((tmp_path / "l.json").read_text())
    assert given["tokens"] == ["The", "cat", "sat"] and given["options"]["causal"] is True
    assert len(given["heads"]) == 2 and given["block"]["output"]
    assert given["heads"][0]["masked"][0][1:] == [None, None]


@pytest.mark.parametrize(
    ("name", "begin"),
    [("l.html", "<!DOCTYPE html>"), ("l.md", "# The &lt;script"), ("L.HTML", "<!")],
)
def test_saving(learn, tmp_path, name, begin):
    assert learn("The <script>cat sat", "--save", name) == (0, f"written: {name}\n", "")
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert text.startswith(begin) and "0.8" in text
    assert "<script>cat" not in text or name == "l.md"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert "exists already" in learn("The cat", "--save", name)[2]
    assert learn("The cat", "--save", name, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("words", "options"),
    [("", {}), ("--step all", {}), ("--step scores", {"step": "scores"}),
     ("--step block --language de", {"step": "block", "code": "de"})],
)  # fmt: skip
def test_the_sheet_of_a_seed_and_its_key(learn, words, options):
    sheet, asked = make_sheet(7, **options), ("--exercise", "7", *words.split())
    assert learn(*asked) == (0, sheet.text + "\n", "")
    assert learn(*asked, "--key") == learn(*asked, "--answers") == (0, sheet.key + "\n", "")
    both = {"seed": 7, "exercise": sheet.text, "key": sheet.key}
    assert json.loads(learn(*asked, "--json")[1]) == both


def test_a_sentence_beside_an_exercise_is_said_to_be_unused(learn):
    status, out, err = learn("The cat sat", "--exercise", "7")
    assert (status, out) == (0, make_sheet(7).text + "\n") and "not used" in err


def test_steps_are_listed(learn):
    status, out, _ = learn("--step", "list")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == list(STEPS)
    assert learn("--step", "list", "--language", "de")[1].splitlines()[-1].endswith("von Hand")


def test_a_sheet_is_saved_beside_its_key_and_graded(shell, learn, tmp_path):
    said = "written: s.md\nwritten: s.key.md\n"
    assert learn("--exercise", "7", "--step", "heads", "--save", "s.md") == (0, said, "")
    assert (tmp_path / "s.md").read_text("utf-8") == make_sheet(7, step="heads").text
    assert shell("grade", "s.key.md")[0] == 0
    status, out, _ = shell("grade", "s.md")
    assert status == 1 and "Nothing filled in" in out
    assert "exists already" in learn("--exercise", "7", "--save", "s.md")[2]


def test_a_range_of_seeds_fills_a_folder(shell, learn, tmp_path):
    words = ("--exercise", "1:12", "--step", "softmax", "--save", "sheets")
    assert learn(*words) == (0, "written: 12 sheets in sheets, their keys in sheets-keys\n", "")
    assert len(list(tmp_path.glob("sheets/softmax-0*.md"))) == 12
    assert shell("grade", "sheets-keys")[0] == 0
    status, _, err = learn(*words)
    assert status == 2 and "exists already" in err
    assert learn(*words, "--overwrite")[0] == 0
