"""The lesson as a value: the notes' numbers, every option, JSON that can be recomputed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.learn.lesson.block import layer_norm
from regard.learn.lesson.make import Lesson, Options, make_lesson

SENTENCES = st.lists(
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8),
    min_size=1,
    max_size=12,
).map(" ".join)
SENTENCES = SENTENCES.filter(lambda text: text.split())


def lesson(text: str = "The cat sat", **options) -> Lesson:
    return make_lesson(Options(text, **options))


def test_the_notes_own_numbers():
    made = lesson()
    assert np.round(made.output[0], 4).tolist() == [0.8446, 0.5777, 0.8446, 0.5777]
    assert made.heads[0].scores[0].tolist() == [2, 0, 2]
    assert np.round(made.heads[0].weights[0], 4).tolist() == [0.4223, 0.1554, 0.4223]
    assert made.is_notes_example
    assert made.projections.w_o is None
    assert made.block is None


@pytest.mark.parametrize(
    "options",
    [{"token": "cat"}, {"block": True}, {"heads": 1}, {"d_k": 4}, {"d_v": 4}],
)
def test_what_leaves_the_numbers_alone_is_still_the_notes_example(options):
    assert lesson(**options).is_notes_example


@pytest.mark.parametrize(
    "options",
    [
        {"projections": "random:0"},
        {"heads": 2},
        {"d_k": 2},
        {"d_v": 2},
        {"scaled": False},
        {"causal": True},
        {"positions": True},
        {"text": "The cat sat down"},
        {"text": "The sat cat"},
    ],
)
def test_what_changes_the_numbers_is_not(options):
    assert not lesson(**options).is_notes_example


def test_the_case_of_the_words_does_not_matter():
    assert lesson("THE CAT SAT").is_notes_example


def test_no_scale():
    made = lesson(scaled=False)
    share = math.exp(2) / (2 * math.exp(2) + 1)
    assert made.output[0] == pytest.approx([2 * share, 1 - share, 2 * share, 1 - share])


def test_d_k_divides_by_its_own_root():
    head = lesson(d_k=2).heads[0]
    assert head.scaled == pytest.approx(head.scores / math.sqrt(2))


def test_d_v_decides_the_width_of_the_output_and_d_k_does_not():
    assert lesson(d_v=7).output.shape == (3, 7)
    assert lesson(d_k=7).output.shape == (3, 4)


def test_causal_first_row_is_its_own_value():
    made = lesson(causal=True)
    assert made.output[0].tolist() == [1, 0, 1, 0]


def test_order_does_not_matter_without_positions_and_does_with_them():
    one, other = lesson("The cat sat"), lesson("sat cat The")
    assert one.output[0] == pytest.approx(other.output[2])
    one, other = lesson("The cat sat", positions=True), lesson("sat cat The", positions=True)
    assert not np.allclose(one.output[0], other.output[2])


def test_a_repeated_word_has_one_embedding_and_two_rows():
    made = lesson("the cat the")
    assert made.embedding.x[0].tolist() == made.embedding.x[2].tolist()
    assert made.output.shape == (3, 4)


def test_heads_are_concatenated_and_go_through_w_o():
    made = lesson(heads=2, projections="random:3")
    assert made.concat.tolist() == np.hstack([h.context for h in made.heads]).tolist()
    assert made.projections.w_o is not None
    assert made.output == pytest.approx(made.concat @ made.projections.w_o)
    assert made.output.shape == (3, 4)


def test_identity_heads_look_at_their_own_dimensions():
    made = lesson(heads=2)
    x = made.embedding.x
    assert made.heads[0].queries.tolist() == x[:, :2].tolist()
    assert made.heads[1].values.tolist() == x[:, 2:].tolist()
    assert made.output.tolist() == made.concat.tolist()


def test_heads_that_do_not_divide_need_d_k():
    with pytest.raises(ShapeError, match="does not divide into 3 heads"):
        lesson(heads=3)
    assert lesson(heads=3, d_k=2).concat.shape == (3, 6)


def test_the_block_follows_the_attention():
    made = lesson(block=True, heads=2, projections="random:5")
    assert made.block is not None
    assert made.block.residual == pytest.approx(made.embedding.x + made.output)
    assert made.block.normed == pytest.approx(layer_norm(made.block.residual))


def test_a_block_brings_a_narrow_output_back_to_the_width():
    made = lesson(block=True, d_v=2)
    assert made.projections.w_o is not None
    assert made.output.shape == (3, 4)
    assert lesson(block=True).projections.w_o is None


def test_a_block_needs_a_w_o_that_fits(tmp_path):
    path = tmp_path / "p.json"
    eye = np.eye(4).tolist()
    path.write_text(json.dumps({"w_q": eye, "w_k": eye, "w_v": np.eye(4, 2).tolist()}))
    assert lesson(projections=str(path)).output.shape == (3, 2)
    with pytest.raises(ShapeError, match=r"adds x \(width 4\) to the attention output \(width 2\)"):
        lesson(projections=str(path), block=True)


@pytest.mark.parametrize(("name", "value"), [("heads", 2), ("d_k", 3), ("d_v", 3)])
def test_sizes_that_contradict_the_file_are_refused(tmp_path, name, value):
    path = tmp_path / "p.json"
    eye = np.eye(4).tolist()
    path.write_text(json.dumps({"w_q": eye, "w_k": eye, "w_v": eye}))
    with pytest.raises(ShapeError, match=rf"{value}: the file has"):
        lesson(projections=str(path), **{name: value})
    same = {"heads": 1, "d_k": 4, "d_v": 4}[name]
    assert lesson(projections=str(path), **{name: same}).output.shape == (3, 4)


def test_embeddings_decide_the_width(tmp_path):
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"a": [1, 2, 3, 4, 5, 6], "b": [0, 1, 0, 1, 0, 1]}))
    made = lesson("a b a", embeddings=path, heads=3)
    assert made.projections.sizes.d_k == 2
    assert made.output.shape == (3, 6)


@pytest.mark.parametrize("spec", ["foo", "", "Identity", "random", "eye"])
def test_unknown_projections_say_what_is_known(spec):
    with pytest.raises(InputError, match="random:"):
        lesson(projections=spec)


def test_a_projection_file_need_not_end_in_json(tmp_path):
    path = tmp_path / "matrices.txt"
    eye = np.eye(4).tolist()
    path.write_text(json.dumps({"w_q": eye, "w_k": eye, "w_v": eye}))
    assert lesson(projections=str(path)).output == pytest.approx(lesson().output)


def _recompute(given_: dict) -> None:
    """Every intermediate follows from those before it, from the JSON alone."""
    x = np.array(given_["embeddings"]["x"])
    for head in given_["heads"]:
        w_q, w_k, w_v = (np.array(head[name]) for name in ("w_q", "w_k", "w_v"))
        assert np.array(head["queries"]) == pytest.approx(x @ w_q)
        assert np.array(head["keys"]) == pytest.approx(x @ w_k)
        assert np.array(head["values"]) == pytest.approx(x @ w_v)
        scores = np.array(head["queries"]) @ np.array(head["keys"]).T
        assert np.array(head["scores"]) == pytest.approx(scores)
        root = math.sqrt(w_k.shape[1]) if given_["options"]["scaled"] else 1.0
        assert np.array(head["scaled"]) == pytest.approx(scores / root)
        masked = np.array(
            [[-np.inf if cell is None else cell for cell in row] for row in head["masked"]]
        )
        seen = np.isfinite(masked)
        assert masked[seen] == pytest.approx(np.array(head["scaled"])[seen])
        assert (~seen).sum() == (math.comb(len(x), 2) if given_["options"]["causal"] else 0)
        powers = np.exp(masked - masked.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=1, keepdims=True)
        assert np.array(head["weights"]) == pytest.approx(weights)
        assert np.array(head["context"]) == pytest.approx(weights @ np.array(head["values"]))
    concat = np.hstack([head["context"] for head in given_["heads"]])
    assert np.array(given_["concat"]) == pytest.approx(concat)
    output = concat if given_["w_o"] is None else concat @ np.array(given_["w_o"])
    assert np.array(given_["output"]) == pytest.approx(output)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"scaled": False, "positions": True},
        {"heads": 2, "projections": "random:1", "block": True},
        {"heads": 4, "d_k": 3, "d_v": 5, "projections": "random:2", "causal": True},
    ],
)
def test_json_can_be_recomputed(options):
    given_ = json.loads(json.dumps(lesson("The big cat sat", **options).as_dict(), allow_nan=False))
    _recompute(given_)
    block = given_["block"]
    assert (block is not None) == options.get("block", False)
    if block is not None:
        assert np.array(block["residual"]) == pytest.approx(
            np.array(given_["embeddings"]["x"]) + np.array(given_["output"])
        )
        assert np.array(block["output"]) == pytest.approx(layer_norm(np.array(block["residual_2"])))


def test_json_names_what_was_asked_and_what_was_made_up(tmp_path):
    path = tmp_path / "e.json"
    path.write_text('{"a": [1], "b": [2]}')
    given_ = lesson("a b a", embeddings=path, token="3").as_dict()
    assert given_["tokens"] == ["a", "b", "a"]
    assert given_["labels"] == ["a", "b", "a₂"]
    assert given_["row"] == 2
    assert given_["options"]["embeddings"] == str(path)
    assert given_["options"]["projections"] == "identity"
    assert lesson("The dog").as_dict()["embeddings"]["made_up"] == ["dog"]


@settings(max_examples=60, deadline=None)
@given(
    SENTENCES,
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["identity", "random:0", "random:9"]),
)
def test_any_sentence_works(text, heads, causal, positions, scaled, projections):
    made = lesson(
        text, heads=heads, causal=causal, positions=positions, scaled=scaled, block=True,
        projections=projections,
    )  # fmt: skip
    count = len(text.split())
    for head in made.heads:
        assert head.weights.sum(axis=1) == pytest.approx(np.ones(count))
        if causal:
            assert (np.triu(head.weights, 1) == 0).all()
    assert np.isfinite(made.output).all()
    assert made.block is not None
    assert np.isfinite(made.block.output).all()
    json.dumps(made.as_dict(), allow_nan=False)


def test_the_largest_numbers_a_file_may_hold_stay_finite(tmp_path):
    embeddings, projections = tmp_path / "e.json", tmp_path / "p.json"
    embeddings.write_text(json.dumps({"a": [1e12, -1e12], "b": [1e12, 1e12]}))
    huge = [[1e12, -1e12], [1e12, 1e12]]
    w_o = {"w_o": huge}
    projections.write_text(json.dumps({"w_q": huge, "w_k": huge, "w_v": huge} | w_o))
    made = lesson("a b", embeddings=embeddings, projections=str(projections), block=True)
    json.dumps(made.as_dict(), allow_nan=False)


@pytest.mark.parametrize("heads", [2, 4])
def test_no_two_heads_of_the_notes_are_equal(heads):
    made = lesson("The cat sat", heads=heads)
    assert len({head.weights.round(9).tobytes() for head in made.heads}) == heads


def test_vectors_are_chosen_by_name(tmp_path):
    assert lesson("The cat sat", vectors="features").embedding.width == 8
    assert not lesson("The cat sat", vectors="features").is_notes_example
    assert lesson("The cat sat", vectors="smollm2").embedding.names is None
    with pytest.raises(InputError, match="'words' is not known; give notes, features, smollm2"):
        lesson("The cat sat", vectors="words")
    file = tmp_path / "own.json"
    with pytest.raises(InputError, match="leave one of them out"):
        lesson("The cat sat", vectors="features", embeddings=file)
