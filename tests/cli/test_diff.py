"""`regard diff` as a shell sees it."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from regard.recording import open as open_recording
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.views.comparison import ROWS
from regard.views.encoding import as_text
from support.recordings import HOSTILE, make_state, on_disk
from support.recordings.planted import mixed, record_planted, targets, text


def planted(path, strength, ids, **options):
    """Three heads in one layer."""
    aims = targets(ids)
    kinds = ("previous", "self", "duplicate-token")
    weights = [mixed(aims[kind], 0.1, s, 0.2, n)
               for n, (kind, s) in enumerate(zip(kinds, strength, strict=True))]  # fmt: skip
    record_planted(np.array([weights]), ids, path, **options)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two recordings of one text; the second head differs most, the third not at all."""
    folder = tmp_path_factory.mktemp("diff")
    ids = text(90)
    return (
        planted(folder / "a.regard", (0.9, 0.9, 0.9), ids),
        planted(folder / "b.regard", (0.8, 0.2, 0.9), ids),
    )


@pytest.fixture
def diff(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "diff")


@pytest.fixture
def fails(diff):
    """The one line a wrong command ends with."""

    def run(*words: object, status: int = 2) -> str:
        found, out, err = diff(*words)
        assert (found, out) == (status, "")
        assert err.startswith("regard: ") and err.count("\n") == 1
        return err.strip()

    return run


def test_the_farthest_apart_come_first(diff, files):
    status, out, err = diff(*files)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.startswith("L0H")]
    assert [row[0] for row in rows] == ["L0H1", "L0H0", "L0H2"]
    assert rows[0][2:4] == ["90", "rows"] and rows[2][1] == "0.000"
    assert "tokens: the same tokens" in out and "Jensen-Shannon" in out


def test_a_limit_makes_a_status(diff, files):
    assert diff(files[0], files[0], "--at-most", 0)[0] == 0
    assert diff(*files, "--at-most", 0.05)[0] == 1
    assert diff(*files, "--at-most", 0.99)[0] == 0


def test_json_has_every_head(diff, files):
    status, out, _ = diff(*files, "--json", "--top", 1)
    value = json.loads(out)
    assert status == 0 and [one["label"] for one in value["heads"]] == ["L0H1", "L0H0", "L0H2"]
    assert value["alignment"] == "the same tokens"
    assert value["largest"] == value["heads"][0]["distance"]


def test_json_is_what_the_server_answers(diff, files):
    told = json.loads(diff(*files, "--json", "--rows", ROWS)[1])
    sides = [Opened(open_recording(path), number) for number, path in enumerate(files)]
    page = json.loads(as_text(answers.comparison((sides[0], 0), (sides[1], 0))))
    for one in sides:
        one.close()
    assert told == page
    assert (told["a"]["name"], told["b"]["name"]) == ("a.regard", "b.regard")
    last = json.loads(diff(*files, "--prompt", -1, "--json")[1])
    assert (last["a"]["prompt"], last["b"]["prompt"]) == (0, 0)


def test_what_must_be_known_first_is_said(diff, tmp_path):
    short = planted(tmp_path / "s.regard", (0.9, 0.9, 0.9), text(20))
    out = " ".join(diff(short, short)[1].split())
    assert json.loads(diff(short, short, "--json")[1])["doubts"][0] in out
    assert "only 20 rows stand for each other" in out


def test_attention_that_is_in_neither_is_named(diff, tmp_path):
    path = make_state(tmp_path / "half.regard", "unheard")
    said = "half.regard: not recorded: layers.*.attn (ByHand), 3 of them"
    assert " ".join(diff(path, path)[1].split()).count(said) == 1
    assert said in json.loads(diff(path, path, "--json")[1])["doubts"]


def test_fewer_heads_and_fewer_rows(diff, files):
    out = diff(*files, "--top", 1, "--rows", 32)[1]
    assert out.count("L0H") == 1 and "32 rows" in out and "and 2 more, closer" in out
    assert "90 rows" in diff(*files, "--rows", 0)[1]


def test_profiles_are_said_to_be_no_rows(diff, files, tmp_path):
    small = planted(tmp_path / "c.regard", (0.9, 0.9, 0.9), text(90), budget="120kB")
    out = diff(files[0], small)[1]
    assert "profiles" in out and "can agree where rows do not" in " ".join(out.split())


def test_another_text(diff, files, tmp_path):
    other = planted(tmp_path / "d.regard", (0.9, 0.9, 0.9), np.insert(text(90), 40, 50))
    out = diff(files[0], other)[1]
    assert "by tokens: 90 of 90 and 91 stand for each other" in out


def test_heads_that_only_one_has(diff, files, tmp_path):
    some = planted(tmp_path / "e.regard", (0.9, 0.9, 0.9), text(90), heads=[0])
    assert "L0H1, L0H2" in " ".join(diff(files[0], some)[1].split())


def test_what_is_wrong(fails, files, tmp_path):
    assert "prompt 1 does not exist" in fails(*files, "--other", "1")
    assert "give numbers of 0 or more" in fails(*files, "--rows", "-5")
    assert "no such file" in fails(files[0], tmp_path / "none.regard", status=3)


def test_no_token_steers_a_terminal(diff, tmp_path):
    path = on_disk(tmp_path / "hostile.regard", HOSTILE)
    for form in ([], ["--json"]):
        status, out, _ = diff(path, path, *form)
        assert status == 0
        assert all(letter == "\n" or letter.isprintable() for letter in out)
