"""`regard diff`: two recordings, head by head."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import regard
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.views.comparison import ROWS
from regard.views.encoding import as_text
from support.recordings import make_state
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
    return (
        planted(folder / "a.regard", (0.9, 0.9, 0.9), text(90)),
        planted(folder / "b.regard", (0.8, 0.2, 0.9), text(90)),
    )


@pytest.fixture
def diff(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "diff")


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


def test_json_has_every_head_as_the_server_answers(diff, files):
    status, out, _ = diff(*files, "--json", "--top", 1, "--rows", ROWS)
    told = json.loads(out)
    assert status == 0 and [one["label"] for one in told["heads"]] == ["L0H1", "L0H0", "L0H2"]
    assert told["largest"] == told["heads"][0]["distance"]
    assert (told["a"]["name"], told["b"]["name"]) == ("a.regard", "b.regard")
    sides = [Opened(regard.open(path), number) for number, path in enumerate(files)]
    assert told == json.loads(as_text(answers.comparison((sides[0], 0), (sides[1], 0))))
    for side in sides:
        side.close()


def test_prompts_by_number(diff, files, recorded):
    told = json.loads(diff(*files, "--prompt", -1, "--json")[1])
    assert (told["a"]["prompt"], told["b"]["prompt"]) == (0, 0)
    told = json.loads(diff(recorded, recorded, "--other", 1, "--json")[1])
    assert (told["a"]["prompt"], told["b"]["prompt"]) == (0, 1)


def test_fewer_heads_and_fewer_rows(diff, files):
    out = diff(*files, "--top", 1, "--rows", 32)[1]
    assert out.count("L0H") == 1 and "32 rows" in out and "and 2 more, closer" in out
    assert "90 rows" in diff(*files, "--rows", 0)[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ids": text(20)}, "only 20 rows stand for each other"),
        ({"ids": text(90), "budget": "120kB"}, "can agree where rows do not"),
        ({"ids": np.insert(text(90), 40, 50)}, "by tokens: 90 of 90 and 91 stand for each other"),
        ({"ids": text(90), "heads": [0]}, "L0H1, L0H2"),
    ],
)
def test_what_must_be_known_first_is_said(diff, files, tmp_path, options, said):
    ids = options.pop("ids")
    other = planted(tmp_path / "s.regard", (0.9, 0.9, 0.9), ids, **options)
    left = other if len(ids) < 90 else files[0]
    words = " ".join(diff(left, other)[1].split())
    assert said in words and ("profiles" in words) == ("budget" in options)
    for doubt in json.loads(diff(left, other, "--json")[1])["doubts"]:
        assert " ".join(doubt.split()) in words


def test_attention_that_is_in_neither_is_named(diff, tmp_path):
    path = make_state(tmp_path / "half.regard", "unheard")
    doubt = "half.regard: not recorded: layers.*.attn (ByHand), 3 of them"
    assert " ".join(diff(path, path)[1].split()).count(doubt) == 1
    assert doubt in json.loads(diff(path, path, "--json")[1])["doubts"]
