"""What the learner's room starts from: the lesson's own numbers, splits, exercises, a real head."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard import attention
from regard.learn import Options, make_lesson
from regard.learn.grading.exercise import exercise_key
from regard.learn.grading.submission import parse_submission
from regard.learn.languages import Phrase
from regard.learn.lesson.embeddings import features, sinusoids, smollm2
from regard.learn.lesson.head import attend
from regard.learn.lesson.projections import is_identity
from regard.mask import Causal
from regard.viewer.lesson import EXERCISES, lesson_data

FIELDS = {
    "tokens", "labels", "row", "options", "embeddings", "projections", "heads", "w_o", "block",
    "is_notes_example", "splits", "real", "next_words", "exercises", "languages", "vocabularies",
    "head_sources",
}  # fmt: skip


def data_of(sentence="The cat sat", **options):
    return lesson_data(make_lesson(Options(sentence, **options)))


def parameters(split):
    matrices = [head[name] for head in split["heads"] for name in ("w_q", "w_k", "w_v")]
    return sum(np.size(matrix) for matrix in [*matrices, split["w_o"]])


def test_the_notes_example_starts_from_the_notes_numbers():
    data = data_of()
    assert data.keys() == FIELDS
    assert data["is_notes_example"]
    assert data["embeddings"]["words"] == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    assert data["embeddings"]["made_up"] == []
    assert data_of("The dog sat")["embeddings"]["made_up"] == ["dog"]
    assert all(is_identity(np.array(data["heads"][0][n])) for n in ("w_q", "w_k", "w_v"))
    assert data["w_o"] is None


def test_it_is_json_without_anything_that_json_has_no_word_for():
    for options in ({}, {"causal": True}, {"projections": "random:3", "heads": 2, "block": True}):
        text = json.dumps(data_of("Some made up words", **options), allow_nan=False)
        assert json.loads(text)["options"]["causal"] is options.get("causal", False)


def test_positions_are_there_even_where_the_lesson_leaves_them_out():
    for asked in (False, True):
        data = data_of(positions=asked)
        np.testing.assert_array_equal(data["embeddings"]["positions"], sinusoids(3, 4))
        assert data["options"]["positions"] is asked


def test_the_block_has_its_matrices_even_where_the_lesson_stops_before_it():
    with_block = make_lesson(Options("The cat sat", projections="random:5", block=True)).block
    data = data_of(projections="random:5")
    assert data["block"] == {"w_1": with_block.w_1.tolist(), "w_2": with_block.w_2.tolist()}


@pytest.mark.parametrize("projections", ["identity", "random:11"])
def test_splits_have_the_same_parameters_to_the_number(projections):
    splits = data_of(projections=projections)["splits"]
    assert [len(split["heads"]) for split in splits] == [1, 2, 4]
    assert {parameters(split) for split in splits} == {4 * 4 * 4}
    narrow = data_of(projections="random:2", d_k=3)["splits"]  # which are not the lesson's own
    assert all(split["words"]["say"] == "origins.not_own" for split in narrow)
    assert {parameters(split) for split in narrow} == {64}
    # Identities ask differently for every count, so that the notes' heads are not equal.
    for name in ("w_q", "w_k", "w_v")[projections == "identity" :]:
        whole = [np.hstack([head[name] for head in split["heads"]]) for split in splits]
        np.testing.assert_array_equal(whole[0], whole[1])
        np.testing.assert_array_equal(whole[0], whole[2])


def test_a_split_of_as_many_heads_as_the_lesson_is_the_lesson():
    lesson = make_lesson(Options("The cat sat", projections="random:2", heads=2))
    split = lesson_data(lesson)["splits"][1]
    assert split["heads"] == lesson_data(lesson)["heads"]
    assert split["w_o"] == lesson.projections.w_o.tolist()


def test_no_two_heads_of_a_split_of_the_notes_are_equal():
    data = data_of()
    x = np.array(data["embeddings"]["words"])
    for split in data["splits"]:
        weights = [attend(x, *map(np.array, head.values())).weights for head in split["heads"]]
        assert len({w.round(9).tobytes() for w in weights}) == len(weights)


def test_the_vocabularies_are_those_of_the_lesson():
    given = data_of()["vocabularies"]
    assert given["features"]["words"]["fish"] == features().vector("fish").tolist()
    assert given["features"]["names"] == list(features().names)
    assert given["notes"]["words"]["sat"] == [1, 1, 1, 1]
    assert given["smollm2"]["words"].split() == list(smollm2().words)


def test_sources_that_a_table_holds_are_left_for_the_page_to_say():
    data = data_of("The blorp", vectors="features", projections="by-hand")
    assert data["projections"] == {"say": "vectors.heads_by_hand", "values": {}}
    assert data["embeddings"]["source"]["values"] == {
        "source": {"say": "vectors.from_features", "values": {}},
        "words": ["blorp"],
    }


def test_folders_of_the_one_who_made_the_page_are_not_passed_on(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"The": [1, 0], "cat": [0, 1]}))
    projections = tmp_path / "own.json"
    eye = np.eye(2).tolist()
    projections.write_text(json.dumps({"w_q": eye, "w_k": eye, "w_v": eye}))
    data = data_of("The cat", embeddings=file, projections=str(projections))
    assert data["options"]["embeddings"] == "mine.json"
    assert data["options"]["projections"] == "own.json"
    assert str(tmp_path) not in json.dumps(data)
    assert [len(split["heads"]) for split in data["splits"]] == [1, 2]


def test_exercises_are_those_that_grading_hands_out():
    exercises = data_of()["exercises"]
    assert [one["seed"] for one in exercises] == list(EXERCISES)
    for one in exercises:
        key = parse_submission(exercise_key(one["seed"]))
        assert one["tokens"] == list(key.tokens)
        np.testing.assert_array_equal(one["x"], key.steps["embeddings"].values)
        for name in ("w_q", "w_k", "w_v"):
            np.testing.assert_array_equal(one["heads"][0][name], key.steps[name].values)


def test_the_real_head_does_what_its_words_say():
    real = data_of()["real"]
    q, k, v = (np.array(real[name]) for name in ("queries", "keys", "values"))
    assert len(q) == len(k) == len(v) == len(real["tokens"])
    assert real["scale"] == q.shape[1] ** -0.5
    weights = attention.attend(q, k, k, allowed=Causal()).weights
    tokens, masses = real["tokens"], []
    for i, row in enumerate(weights):
        after = [j for j in range(1, i) if tokens[j - 1] == tokens[i]]
        if after:
            masses.append(row[after].sum())
    words = {"label": real["label"], "share": f"{np.mean(masses):.2f}", "rows": len(masses)}
    assert real["words"] == Phrase("real_head.induction", words).as_dict()
