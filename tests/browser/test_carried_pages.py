"""The self-contained page from a file, and in a notebook's frame."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import regard
from browser.reading import values
from regard.recording import open
from regard.viewer.notebook import recording_page
from support.recordings import make_state, on_disk

WORDS = [f"w{n % 20}" for n in range(64)]


@pytest.fixture
def page(tmp_path):
    """A file's address, and the recording that it carries."""
    recording = open(on_disk(tmp_path / "run.regard", WORDS, exact=(0, 1)))
    file = tmp_path / "page.html"
    file.write_text(recording_page(recording), encoding="utf-8")
    yield file.as_uri(), recording
    recording.close()


def test_a_file_opens_draws_and_says_what_it_carries(tab, page):
    shown = tab(page[0], "overview")
    assert "every head of run.regard" in shown.locator("[data-part=carried]").inner_text()


def test_a_file_names_attention_that_was_not_recorded(tab, tmp_path):
    file = tmp_path / "page.html"
    with open(make_state(tmp_path / "run.regard", "unheard")) as recording:
        file.write_text(recording_page(recording), encoding="utf-8")
    shown = tab(file.as_uri(), "overview")
    assert "layers.*.attn (ByHand)" in shown.locator("[data-part=unheard]").inner_text()


def test_a_file_shows_the_weights_of_a_row(tab, page):
    shown = tab(f"{page[0]}#view=row&head=L0H1&row=40", "row")
    top = float(np.asarray(page[1]["L0H1"][40]).max())
    assert min(abs(weight - top) for weight in values(shown, "[data-value]")) < 1e-6


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252"])
def test_a_notebooks_frame_draws_and_follows_links(tab, tmp_path, charset):
    given = (torch.randn(4, 32, 8, generator=torch.Generator().manual_seed(n)) for n in range(3))
    html = regard.attend(*given)._repr_html_()
    file = tmp_path / "notebook.html"
    file.write_text(f'<!doctype html><meta charset="{charset}">{html}', encoding="utf-8")
    notebook = tab(file.as_uri())
    frame = notebook.frame_locator("iframe")
    frame.locator("html[data-ready=overview]").wait_for()
    frame.locator('a[href*="view=findings"]').first.click()
    frame.locator("html[data-ready=findings]").wait_for()
    assert re.match(r"about:srcdoc", notebook.frames[1].url or "about:srcdoc")
