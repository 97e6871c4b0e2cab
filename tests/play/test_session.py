"""Readings against the model itself: eager weights, its own logits, its own knock-outs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from play.tiny import TEXT, make_session
from regard.errors import InputError, ShapeError
from regard.play import session as sessions
from regard.play.requests import CutEdge, ReadRequest
from regard.play.session import ForgottenError


def _read(session, **asked):
    return session.read(session.state_of(ReadRequest(**asked)))


def _eager(session, ids):
    model = session.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    return np.stack([one[0].numpy() for one in out.attentions]), out.logits[0, -1].numpy()


def test_a_reading_is_the_models_own_attention():
    session = make_session()
    reading = _read(session, text=TEXT)
    weights, logits = _eager(session, reading.state.ids)
    assert reading.texts == TEXT.split()
    np.testing.assert_allclose(reading.weights("", range(12)), weights, atol=1e-5)
    np.testing.assert_allclose(reading.logits, logits, atol=1e-4)
    one = reading.weights("", range(5, 7), layer=2, head=1)
    np.testing.assert_array_equal(one, reading.weights("", range(5, 7))[2:, 1:2])


def test_an_appended_token_reads_as_if_it_had_been_typed():
    session = make_session()
    first = _read(session, text=TEXT)
    grown = _read(session, text=TEXT, more=(first.state.ids[1], first.state.ids[2]))
    stepped = _read(session, text=TEXT, more=(first.state.ids[1],))
    again = _read(session, text=TEXT, more=(first.state.ids[1], first.state.ids[2]))
    assert again is grown  # it was kept
    assert len(stepped.parts) == 2 and stepped.parts[0] is first.parts[0]
    typed = _read(make_session(), text=f"{TEXT} cat")
    assert stepped.texts == typed.texts
    np.testing.assert_allclose(
        stepped.weights("", range(13)), typed.weights("", range(13)), atol=1e-5
    )
    np.testing.assert_allclose(stepped.logits, typed.logits, atol=1e-4)
    whole = session.recording(stepped)
    np.testing.assert_allclose(whole["L1H2"].dense(), typed.weights("", range(13))[1, 2], atol=1e-5)


def test_a_short_prompt_is_recorded_when_somebody_asks_for_that():
    session, other = make_session(), make_session()
    _read(session, text="the dog")  # tells that every layer is heard
    cut = {"text": TEXT, "heads": ("L0H1",), "edges": (CutEdge(7, 1),)}
    glanced, recorded = _read(session, **cut), _read(other, **cut)
    assert glanced.parts[0].recording is None and recorded.parts[0].recording is not None
    assert glanced.stacks == recorded.stacks and glanced.size("") == recorded.size("")
    assert glanced.stream_texts("") == recorded.stream_texts("")
    np.testing.assert_allclose(
        glanced.weights("", range(12)), recorded.weights("", range(12)), atol=1e-6
    )
    np.testing.assert_allclose(glanced.logits, recorded.logits, atol=1e-5)
    made, wanted = session.recording(glanced), other.recording(recorded)
    np.testing.assert_allclose(made["L2H3"].dense(), wanted["L2H3"].dense(), atol=1e-6)
    assert session.recording(glanced) is made


def test_a_model_that_attends_otherwise_than_before_is_recorded():
    session = make_session()
    session._heard = (1, 2)  # as if a shorter prompt had gone through one layer
    reading = _read(session, text=TEXT)
    assert reading.parts[0].recording is not None
    assert reading.stacks == {"": session._heard}


def test_going_back_is_the_same_reading():
    session = make_session()
    first = _read(session, text=TEXT)
    before = first.weights("", range(12)).copy()
    for token in (4, 5, 6):
        _read(session, text=TEXT, more=(token,))
    back = _read(session, text=TEXT)
    assert back is first
    assert (back.weights("", range(12)) == before).all()


def test_heads_that_are_off_are_those_of_a_knock_out():
    session = make_session()
    whole, less = _read(session, text=TEXT), _read(session, text=TEXT, heads=("L1H2",))
    with torch.no_grad(), regard.knock_out(session.model, heads=["L1H2"]):
        logits = session.model(torch.tensor([whole.state.ids])).logits[0, -1]
    np.testing.assert_allclose(less.logits, logits.numpy(), atol=1e-4)
    assert np.abs(less.logits - whole.logits).max() > 1e-3
    np.testing.assert_allclose(
        less.weights("", range(12))[:2], whole.weights("", range(12))[:2], atol=1e-6
    )


def test_heads_that_matter_are_measured():
    session = make_session()
    whole = _read(session, text=TEXT)
    found = session.effects(whole)
    assert len(found) == 12
    token = int(whole.logits.argmax())
    for label, before, after in found[:3]:
        for reading, share in ((whole, before), (_read(session, text=TEXT, heads=(label,)), after)):
            logs = reading.logits.astype(np.float64)
            shares = np.exp(logs - logs.max())
            assert shares[token] / shares.sum() == pytest.approx(share, abs=1e-4)
    sizes = [abs(after - before) for _, before, after in found]
    assert sizes == sorted(sizes, reverse=True)


def test_an_edge_that_is_cut_has_no_weight_and_rows_still_sum_to_one():
    session = make_session()
    cut = _read(session, text=TEXT, edges=(CutEdge(7, 1), CutEdge(8, 2, "L0H3")))
    weights = cut.weights("", range(12))
    assert (weights[:, :, 7, 1] == 0).all()
    assert weights[0, 3, 8, 2] == 0 and (weights[0, :3, 8, 2] > 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_an_edge_stays_cut_while_tokens_are_appended():
    session = make_session()
    edges = (CutEdge(12, 3),)
    _read(session, text=TEXT, edges=edges)
    grown = _read(session, text=TEXT, more=(5,), edges=edges)
    assert len(grown.parts) == 2
    assert (grown.weights("", range(12, 13))[:, :, 0, 3] == 0).all()


def test_a_reading_can_be_given_up_between_two_layers():
    session, seen = make_session(), []

    def stop():
        if len(seen) == 2:
            raise RuntimeError("given up")

    state = session.state_of(ReadRequest(text=TEXT))
    with pytest.raises(RuntimeError, match="given up"):
        session.read(state, stop, lambda one: seen.append((one.done, one.of)))
    assert seen == [(1, 3), (2, 3)]
    assert _read(session, text=TEXT).logits is not None  # the model is as it was


def test_a_long_prompt_is_followed_layer_by_layer(monkeypatch):
    monkeypatch.setattr(sessions, "LONG", 12)
    session, seen = make_session(), []
    reading = session.read(session.state_of(ReadRequest(text=TEXT)), advanced=seen.append)
    assert [one.done for one in seen] == [1, 2, 3]
    assert [one.texts for one in seen] == [TEXT.split(), None, None]
    for layer, one in enumerate(seen):
        mean = reading.weights("", range(11, 12), layer=layer)[0, :, 0].mean(0)
        assert [key for key, _ in one.heavy] == list(np.argsort(-mean, kind="stable"))
        np.testing.assert_allclose([w for _, w in one.heavy], np.sort(mean)[::-1], atol=1e-5)


def test_what_is_no_longer_kept_is_said(monkeypatch):
    monkeypatch.setattr(sessions, "_KEPT", 2)
    session = make_session()
    first = _read(session, text="the cat")
    assert session.get(first.key) is first
    for text in ("the dog", "the mat"):
        _read(session, text=text)
    with pytest.raises(ForgottenError):
        session.get(first.key)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"text": "  "}, InputError, "empty"),
        ({"text": "cat " * 65}, ShapeError, "shorten it by 1"),
        ({"text": "cat", "more": (10_000,)}, InputError, "vocabulary"),
        ({"text": "cat", "heads": ("L9H0",)}, InputError, "layer 9 does not exist"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(asked, error, words):
    with pytest.raises(error, match=words):
        _read(make_session(), **asked)


def test_two_sentences_are_read_together_and_compared_apart():
    session = make_session("pair")
    reading = _read(session, text="the cat sat", pair="the dog ran")
    assert session.kind == "pair" and reading.logits is None
    assert "".join(reading.texts) == "[CLS] the cat sat [SEP] the dog ran [SEP]"
    assert reading.state.pair == (0, 0, 0, 0, 0, 1, 1, 1, 1)
    weights = reading.weights("", range(9))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert (weights[:, :, 1, 6] > 0).all()  # across the two
    same = _read(session, text="the cat sat", pair="the cat sat")
    assert same.similarity == pytest.approx(1, abs=1e-5)
    assert -1 <= reading.similarity < same.similarity


def test_a_character_of_several_tokens_stands_once(monkeypatch):
    session = make_session()
    cut = ["a", "<0xC3>", "<0x84>", "b"]
    monkeypatch.setattr(sessions, "texts_of", lambda _, ids: cut[: len(ids)])
    assert session._texts([1, 2, 3, 4]) == ["a", "Ä", "⋯", "b"]
