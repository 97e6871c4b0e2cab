"""Values of regard, as a notebook asks for them."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest
import torch

import regard
from regard.learn import Options, make_lesson
from regard.notebook import html_of, recording_of
from support.recordings import in_memory
from viewer.shell import Elements, use_small_page


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    use_small_page(monkeypatch)


def _qkv(*shape: int) -> list[torch.Tensor]:
    return [torch.randn(shape, generator=torch.Generator().manual_seed(n)) for n in range(3)]


def _page(html: str) -> Elements:
    found = re.search(r'srcdoc="([^"]*)"', html)
    assert found
    return Elements(unescape(found[1]))


def _data(value: object) -> str:
    return _page(value._repr_html_()).text("script", id="regard-data")


@pytest.mark.parametrize("mask", [None, regard.Causal(), torch.ones(2, 3, 6, 6).tril().bool()])
def test_an_attention_is_carried_with_its_weights(mask):
    a = regard.attend(*_qkv(2, 3, 6, 4), mask=mask)
    recording = recording_of(a)
    assert recording.labels() == ["L0H0", "L0H1", "L0H2"]
    for head in range(3):
        np.testing.assert_allclose(recording[0, head].dense(), a[0, head], atol=1e-6)
    assert '"form":"exact"' in _data(a)


def test_shared_keys_bias_and_sink_are_carried_too():
    q, k, v = _qkv(4, 5, 8)
    bias, sink = torch.randn(4, 5, 5), torch.randn(4)
    a = regard.attend(q, k[:2], v[:2], bias=bias, sink=sink, softcap=2.0)
    found = recording_of(a)
    np.testing.assert_allclose(found["L0H3"].dense(), a[3], atol=1e-6)


def test_an_attention_without_heads_and_one_without_output_show_themselves():
    q, k, v = _qkv(5, 8)
    for a in (regard.attend(q, k, v), regard.replay(q[None], k[None])):
        assert '"heads":["L0H0"]' in _data(a)


def test_only_so_many_heads_are_swept(monkeypatch):
    monkeypatch.setattr("regard.notebook.MOST_CELLS", 80)
    a = regard.attend(*_qkv(8, 6, 4))
    assert recording_of(a).labels() == ["L0H0", "L0H1"]


def test_what_is_too_large_is_not_swept(monkeypatch):
    monkeypatch.setattr("regard.notebook.MOST_CELLS", 8)
    a = regard.attend(*_qkv(2, 6, 4))
    html = a._repr_html_()
    assert "iframe" not in html
    assert "too many to sweep" in html and "Attention(shape=(2, 6, 6)" in html


def test_an_attention_that_was_released_says_so():
    a = regard.attend(*_qkv(2, 6, 4))
    a.release()
    assert "released" in a._repr_html_()


def test_showing_is_not_heard_by_a_recorder():
    layer = regard.nn.SelfAttention(4)
    with regard.record(layer) as rec:
        layer(torch.randn(5, 4))
        regard.attend(*_qkv(2, 6, 4))._repr_html_()
    assert len(rec.prompts) == 1


def test_a_recording_its_prompts_and_heads_show_themselves():
    recording, _ = in_memory(prompts=2)
    assert '"form"' in _data(recording)
    second = recording.prompts[1]
    assert "prompt 1 of its 2" in _data(second)
    assert '"open":{"view":"head","head":"L0H3"}' in _data(second["L0H3"])


def test_a_lesson_shows_itself():
    assert '"kind":"lesson"' in _data(make_lesson(Options("The cat sat")))


def test_text_stays_beside_the_picture():
    recording, _ = in_memory()
    assert repr(recording) in unescape(html_of(recording))


class _Layer(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return regard.attend(q, k, v).output


def test_what_was_recorded_shows_itself_once_it_is_finished():
    layer = _Layer()
    with regard.record(layer) as rec:
        layer(*_qkv(2, 6, 4))
        assert rec._repr_html_() is None
    assert '"heads":["L0H0","L0H1"]' in _data(rec)
