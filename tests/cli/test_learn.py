"""`regard learn`: what a learner types, sees and gets wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.learn import worksheets


def learn(*arguments: str):
    """The verb, in this process."""
    return CliRunner().invoke(app, ["learn", *arguments])


@pytest.fixture
def fails(shell):
    """Run the verb through the entry point and give back the one line it ends with."""

    def run(*arguments: str) -> str:
        status, out, err = shell("learn", *arguments)
        assert (status, out) == (2, "")
        assert err.startswith("regard: ") and err.count("\n") == 1
        return err.strip()

    return run


@pytest.fixture
def exercises(monkeypatch):
    """Exercises that are told apart by their seed."""

    def make_sheet(seed, **_):
        return worksheets.Sheet(f"# Exercise {seed}", f"# Key {seed}")

    monkeypatch.setattr(worksheets, "make_sheet", make_sheet)


def matrices(tmp_path, **changes) -> str:
    """A projection file for width 4, with what a test wants different."""
    eye = [[float(r == c) for c in range(4)] for r in range(4)]
    path = tmp_path / "projections.json"
    path.write_text(json.dumps({"w_q": eye, "w_k": eye, "w_v": eye} | changes))
    return str(path)


def test_the_lesson_prints_the_notes_answer():
    result = learn("The cat sat")
    assert result.exit_code == 0
    assert "[0.8446 0.5777 0.8446 0.5777]" in result.output
    assert "The first note prints [1.2669, 0.9999, 1.2669, 0.9999]" in result.output
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--token", "cat"], 'First one row, "cat"'),
        (["--token", "3"], 'First one row, "sat"'),
        (["--projections", "random:4"], "random numbers (seed 4)"),
        (["--d-k", "2"], "√d_k = √2 = 1.4142"),
        (["--d-v", "2"], "d_v = 2"),
        (["--heads", "2"], "Head 2: every row at once"),
        (["--no-scale"], "left out (--no-scale)"),
        (["--causal"], "causal: a token sees itself"),
        (["--positions"], "word + position 1"),
        (["--block"], "commonly called the contextual embedding"),
    ],
)
def test_every_option_shows(arguments, words):
    result = learn("The cat sat", *arguments)
    assert result.exit_code == 0
    assert words in result.output


def test_files_are_used(tmp_path):
    path = matrices(tmp_path, w_v=[[2, 0], [0, 2], [0, 0], [0, 0]])
    words = tmp_path / "words.json"
    words.write_text('{"a": [1, 0, 0, 0], "b": [0, 1, 0, 0]}')
    result = learn("a b", "--projections", path, "--embeddings", str(words))
    assert result.exit_code == 0
    assert "projections from projections.json" in result.output
    assert "Embeddings: from words.json." in result.output
    assert "v(a) = x @ w_v = [2 0]" in result.output


def test_made_up_words_are_said_to_be():
    assert "dog made up" in learn("The dog sat").output


def test_json_has_everything_and_nothing_else_is_on_stdout():
    result = learn("The cat sat", "--json", "--causal", "--heads", "2", "--block")
    given = json.loads(result.stdout)
    assert given["tokens"] == ["The", "cat", "sat"]
    assert len(given["heads"]) == 2
    assert given["heads"][0]["masked"][0][1:] == [None, None]
    assert given["block"]["output"]
    assert given["options"]["causal"] is True


def test_the_output_of_json_is_the_notes():
    given = json.loads(learn("The cat sat", "--json").stdout)
    assert [round(cell, 4) for cell in given["output"][0]] == [0.8446, 0.5777, 0.8446, 0.5777]


@pytest.mark.parametrize(
    ("name", "begin"),
    [("l.html", "<!DOCTYPE html>"), ("l.md", "# The cat sat"), ("l.json", "{"), ("L.HTML", "<!")],
)
def test_saving(tmp_path, name, begin):
    path = tmp_path / name
    result = learn("The cat sat", "--save", str(path))
    assert result.exit_code == 0
    assert result.output == f"written: {path}\n"
    assert path.read_text(encoding="utf-8").startswith(begin)
    assert "0.844" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_saved_json_equals_printed_json(tmp_path):
    path = tmp_path / "l.json"
    learn("The dog sat", "--save", str(path))
    assert json.loads(path.read_text()) == json.loads(learn("The dog sat", "--json").stdout)


def test_json_and_save_together_keep_stdout_clean(tmp_path):
    path = tmp_path / "l.html"
    result = learn("The cat sat", "--json", "--save", str(path))
    assert json.loads(result.stdout)["tokens"]
    assert result.stderr == f"written: {path}\n"
    assert path.exists()


def test_a_sentence_with_a_script_is_inert_in_the_page(tmp_path):
    path = tmp_path / "l.html"
    learn("The <script>alert(1)</script> sat", "--save", str(path))
    assert "<script>alert" not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no sentence was given"),
        (["a b", "--web", "--json"], "give --save or --json without it"),
        (["a b", "--web", "--save", "l.html"], "give --save or --json without it"),
        (["a b", "--web", "--no-open", "--port", "70000"], "port 70000"),
        ([""], "the sentence is empty"),
        (["w " * 10_000], "10,000 tokens and the lesson takes at most 512"),
        (["The cat", "--token", "dog"], "its tokens are The, cat"),
        (["a b a", "--token", "a"], "stands at positions 1, 3"),
        (["a", "--projections", "unknown"], "give identity, random:SEED"),
        (["a", "--projections", "random:x"], "give a seed"),
        (["a", "--projections", "gone.json"], "no such file"),
        (["a", "--embeddings", "gone.json"], "no such file"),
        (["a", "--d-k", "0"], "--d-k 0: give a whole number from 1 to 1024"),
        (["a", "--d-v", "-3"], "--d-v -3"),
        (["a", "--heads", "-2"], "--heads -2: give a whole number from 1 to 64"),
        (["a", "--heads", "3"], "does not divide into 3 heads"),
        (["a", "--save", "lesson.pdf"], "give a name that ends in .html or .md or .json"),
        (["a", "--save", "lesson"], "give a name that ends in"),
        (["a", "--save", "/nowhere/at/all/l.html"], "cannot be written there"),
        (["a", "--key"], "give --exercise SEED with it"),
        (["--exercise", "-1"], "give a seed ≥ 0"),
    ],
)
def test_mistakes_end_in_one_line(fails, arguments, words):
    assert words in fails(*arguments)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"w_q": [[1, 2], [3]]}, "w_q is ragged"),
        ({"w_k": [["x"]]}, 'w_k, row 1, column 1 is "x", not a number'),
        ({"w_v": [[float("nan")]]}, "w_v, row 1, column 1 is NaN"),
        ({"w_v": [[float("inf")]]}, "w_v, row 1, column 1 is Infinity"),
        ({"w_q": [[1.0, 0.0]]}, "x (tokens × 4) @ w_q (1 × 2) does not multiply; give w_q 4 rows"),
        ({"w_k": [[1.0]] * 4}, "w_q is 4 × 4 and w_k is 4 × 1"),
        ({"w_o": [[1.0]]}, "(tokens × 4) @ w_o (1 × 1) does not multiply"),
    ],
)
def test_wrong_matrices_end_in_one_line(fails, tmp_path, changes, words):
    assert words in fails("The cat sat", "--projections", matrices(tmp_path, **changes))


def test_broken_json_names_its_line(fails, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"w_q": [[1, 0],\n [0, }')
    assert "not valid JSON at line 2" in fails("a", "--projections", str(path))


def test_an_exercise_needs_no_sentence(exercises):
    assert learn("--exercise", "7").output == "# Exercise 7\n"
    assert learn("--exercise", "7", "--key").output == "# Key 7\n"
    assert learn("--exercise", "7", "--answers").output == "# Key 7\n"


def test_a_sentence_beside_an_exercise_is_said_to_be_unused(exercises):
    result = learn("The cat sat", "--exercise", "7")
    assert result.stdout == "# Exercise 7\n"
    assert "not used" in result.stderr


def test_an_exercise_is_saved_with_its_key(exercises, tmp_path):
    path = tmp_path / "sheet.md"
    result = learn("--exercise", "3", "--save", str(path))
    assert path.read_text() == "# Exercise 3"
    assert (tmp_path / "sheet.key.md").read_text() == "# Key 3"
    assert result.output == f"written: {path}\nwritten: {tmp_path / 'sheet.key.md'}\n"


def test_an_exercise_as_json(exercises):
    assert json.loads(learn("--exercise", "3", "--json").stdout) == {
        "seed": 3,
        "exercise": "# Exercise 3",
        "key": "# Key 3",
    }


def test_an_exercise_is_markdown(exercises, fails):
    assert "ends in .md" in fails("--exercise", "3", "--save", "sheet.html")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell would start it, its output in a pipe."""
    command = [sys.executable, "-m", "regard", "learn", *arguments]
    return subprocess.run(command, capture_output=True, env=os.environ | environment, check=False)


@pytest.mark.parametrize(
    ("encoding", "root"), [("utf-8", "√d_k"), ("ascii", "sqrt d_k"), ("latin-1", "sqrt d_k")]
)
def test_a_pipe_gets_plain_text_in_any_locale(encoding, root):
    done = run("The cat sat", PYTHONIOENCODING=encoding, COLUMNS="80")
    assert done.returncode == 0
    text = done.stdout.decode(encoding)
    assert f"Scale: divide by {root}" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_spelt_in_ascii_the_matrices_still_stand_in_columns():
    shown = run("The cat sat", "--causal", PYTHONIOENCODING="ascii", COLUMNS="80").stdout
    rows = shown.decode("ascii").splitlines()
    head = next(n for n, row in enumerate(rows) if row.startswith("   scores = Q @ K^T"))
    second = rows[head].index("scaled = scores / sqrt d_k")
    assert [row[second : second + 3] for row in rows[head + 2 : head + 5]] == ["The", "cat", "sat"]


def test_a_mistake_in_a_real_process_has_no_traceback():
    done = run("The cat sat", "--heads", "3")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().count("\n") == 1


def test_the_lesson_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from regard.cli import main; main()"
    command = [sys.executable, "-c", code, "learn", "The cat sat", "--block", "--heads", "2"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_terminal_without_the_letters_is_told_so():
    refused = run("The cat sat", "--language", "zh", PYTHONIOENCODING="ascii")
    assert refused.returncode == 2
    assert b"--language zh: this terminal shows ASCII alone" in refused.stderr
    spoken = run("The cat sat", "--language", "zh", PYTHONIOENCODING="utf-8")
    assert "得分".encode() in spoken.stdout
