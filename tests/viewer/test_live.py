"""What a notebook is given: `rec.view()` with a widget and without, and a page in a frame."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from html import unescape
from types import SimpleNamespace

import IPython
import IPython.display
import numpy as np
import pytest

import regard
from regard.errors import InputError
from regard.learn import Options, make_lesson
from regard.recording import Memory, Recording
from regard.viewer import live
from regard.viewer.notebook import frame, lesson_page, page_title, recording_page, without_picture
from support.recordings import in_memory, write_training
from viewer.shell import Elements, use_small_page

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def recording():
    return in_memory(layers=2, prompts=2)[0]


@pytest.fixture
def shown(monkeypatch):
    """What a kernel's cell would show."""
    found = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: found.append(data))
    return found


@pytest.fixture
def no_widgets(monkeypatch):
    monkeypatch.setattr(live, "find_spec", lambda name: None)


def test_words_a_picture_and_the_widget_are_outputs_of_their_own(recording, shown):
    recording.view()._ipython_display_()
    words, picture, widget = shown
    assert repr(recording) in words["text/plain"] and "text 0: 12 tokens" in words["text/plain"]
    assert words["text/plain"].splitlines()[-1].startswith("Run the cell again")
    assert b64decode(picture["image/png"]).startswith(b"\x89PNG")
    assert list(widget) == [WIDGET]


def test_a_head_and_a_prompt_open_there(recording):
    view = recording.view("L0H2", prompt=-1, height=400)
    data = Elements(view._page()).text("script", id="regard-data")
    opened = {"prompt": "1", "view": "head", "head": "L0H2"}
    assert json.loads(data) == {"kind": "kernel", "open": opened}
    assert view._widget.height == 400
    assert "L0H2, queries from top to bottom" in view.outputs()[0]["text/plain"]


def test_the_widget_answers_with_the_kernels_bytes(recording):
    view, sent = recording.view(), []
    widget = view._widget
    assert widget is view._widget  # however often it is shown
    widget.send = lambda *message: sent.append(message)
    widget._handle_custom_msg({"id": "v/1", "address": "/api/nothing/"}, [])
    assert [message["id"] for message, _ in sent] == ["v/1", "v/1"]
    assert sent[1][0]["status"] == 404


def test_a_training_run_has_words_and_no_picture():
    recording = Recording(write_training(Memory(), np.ones((3, 2, 4), np.float32)))
    words, widget = recording.view().outputs()
    assert "No picture: there are no heads here." in words["text/plain"]
    assert "regard-still-1" in words["text/html"] and list(widget) == [WIDGET]


def test_without_widgets_the_page_is_carried_and_says_so(recording, shown, no_widgets, monkeypatch):
    use_small_page(monkeypatch)
    recording.view("L0H1")._ipython_display_()
    (only,) = shown
    assert "<iframe" in only["text/html"] and "Install regard[notebook]" in only["text/html"]


def test_in_a_terminal_it_is_one_line(recording, shown, monkeypatch, capsys):
    monkeypatch.setattr(IPython, "get_ipython", SimpleNamespace)
    recording.view()._ipython_display_()
    assert not shown
    assert capsys.readouterr().out.strip() == repr(recording.view())
    assert "`regard view FILE`" in repr(recording.view())


def test_what_does_not_exist_is_refused_at_once(recording):
    with pytest.raises(InputError, match="layer 9 does not exist"):
        recording.view("L9H9")
    with pytest.raises(InputError, match="prompt 7 does not exist"):
        recording.view("L0H0", prompt=7)
    with pytest.raises(InputError, match="prompt 7 does not exist"):
        recording.view(prompt=7)


def test_a_recorder_has_the_view_of_what_it_recorded():
    import torch

    layer = regard.nn.SelfAttention(4)
    with regard.record(layer) as rec:
        layer(torch.randn(5, 4))
    assert "SelfAttention, 1 prompt" in repr(rec.view())


def test_nothing_of_notebooks_is_imported_before_a_view_is_shown():
    script = (
        "import sys; from regard.recording import Memory, Recording;"
        "from regard.recording.schema import CONTENTS;"
        "store = Memory(); store.note({'contents': CONTENTS}); Recording(store).view();"
        "assert not {'anywidget', 'ipywidgets', 'IPython', 'starlette'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    use_small_page(monkeypatch)


def test_a_frame_holds_the_page_to_the_letter():
    page = '<p title="a">\'&amp;</p></iframe>✓ 猫'
    html = frame(page, 'say "×"')
    ((tag, attributes, _),) = Elements(html).found
    assert (tag, attributes["srcdoc"], attributes["title"]) == ("iframe", page, 'say "×"')
    assert html.isascii()
    # it may draw and save, and no more
    assert attributes["sandbox"] == "allow-scripts allow-forms allow-downloads"
    assert "src" not in attributes


def test_why_there_is_no_picture_is_told_as_text():
    html = without_picture("<b>", "because\nof <i>")
    assert "<b>" not in html and "<i>" not in html
    assert "because of <i>" in unescape(html)


def test_a_head_opens_at_that_head():
    recording, _ = in_memory(prompts=2)
    page = Elements(recording_page(recording, prompt=1, head="L0H2"))
    assert '"open":{"view":"head","head":"L0H2"}' in page.text("script", id="regard-data")
    assert page.text("title") == "L0H2 · tiny · text 1" == page_title(recording, 1, "L0H2")


def test_a_lesson_is_carried_as_data():
    page = Elements(lesson_page(make_lesson(Options("The cat sat"))))
    assert page.text("script", id="regard-data").startswith('{"kind":"lesson","lesson":{"tokens"')
    assert page.text("title") == "Attention, step by step: The cat sat"
