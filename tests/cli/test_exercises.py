"""`regard learn --exercise` as teachers use it: a step, a sheet for everyone."""

from __future__ import annotations

from functools import partial

import pytest

from regard.learn.worksheets import STEPS, make_sheet


@pytest.fixture
def learn(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "learn")


def test_a_sheet_for_a_step(learn):
    assert (
        learn("--exercise", "7", "--step", "scores")[1] == make_sheet(7, step="scores").text + "\n"
    )
    assert learn("--exercise", "7", "--step", "all") == learn("--exercise", "7")


def test_its_key_and_its_language(learn):
    german = make_sheet(7, step="block", code="de").key
    words = ("--exercise", "7", "--step", "block", "--key", "--language", "de")
    assert learn(*words)[1] == german + "\n"


def test_steps_are_listed(learn):
    status, out, _ = learn("--step", "list")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == list(STEPS)
    assert learn("--step", "list", "--language", "de")[1].splitlines()[-1].endswith("von Hand")


def test_a_filled_sheet_is_graded(shell, learn, tmp_path):
    learn("--exercise", "7", "--step", "heads", "--save", tmp_path / "s.md")
    assert shell("grade", tmp_path / "s.key.md")[0] == 0
    status, out, _ = shell("grade", tmp_path / "s.md")
    assert status == 1 and "Nothing filled in" in out


def test_a_range_of_seeds_fills_a_folder(shell, learn, tmp_path):
    folder = tmp_path / "sheets"
    status, out, _ = learn("--exercise", "1:12", "--step", "softmax", "--save", folder)
    assert status == 0
    assert out == f"written: 12 sheets in {folder}, their keys in {tmp_path / 'sheets-keys'}\n"
    assert len(list(folder.glob("softmax-0*.md"))) == 12
    assert shell("grade", tmp_path / "sheets-keys")[0] == 0
    status, _, err = learn("--exercise", "1:12", "--step", "softmax", "--save", folder)
    assert status == 2 and "exists already" in err
    assert learn("--exercise", "1:12", "--step", "softmax", "--save", folder, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--exercise", "7", "--lab", "masking"], "--lab was retired with lab sheets"),
        (["--exercise", "7", "--step", "mask"], "the steps are all, projections, scores"),
        (["--step", "scores"], "as in --exercise 7 --step scores"),
        (["--exercise", "1:5"], "5 sheets need a folder; give --save FOLDER"),
        (["--exercise", "5:1", "--save", "s"], "a range that goes up"),
        (["--exercise", "seven"], "--exercise 'seven': give a seed ≥ 0"),
        (["--exercise", "7", "--step", "heads", "--language", "fr"], "not written in 'fr'"),
        (["--exercise", "7", "--step", "heads", "--save", "s.txt"], "ends in .md"),
    ],
)
def test_mistakes_end_in_one_line(learn, words, said):
    status, out, err = learn(*words)
    assert (status, out) == (2, "") and said in err
    assert err.startswith("regard: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--exercise", "7", "--heads", "2", "--vectors", "features"], "--vectors, --heads: an"),
        (["--exercise", "7", "--web"], "--web: an exercise"),
        (["--exercise", "7", "--step", "heads", "--causal"], "--causal: an exercise"),
        (["--exercise", "7", "--projections", "identity"], "--projections: an exercise"),
        (["The cat", "--temperature", "0.5"], "give --next with it"),
        (["The cat", "--port", "8000"], "give --web with it"),
        (["The cat", "--no-open"], "give --web with it"),
        (["--exercise", "1:3", "--save", "x.md"], "3 sheets need a folder"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(learn, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    status, out, err = learn(*words)
    assert (status, out) == (2, "") and said in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
