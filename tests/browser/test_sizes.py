"""What is sent stays small."""

from __future__ import annotations

import gzip
from pathlib import Path

from bench.page import _file
from regard.viewer.files import load_page

MOST_BUNDLE = 300_000  # bytes, deflated
MOST_FILE = 2_000_000


def test_the_bundle():
    page = load_page()
    assert set(page) == {"/", "/page.js", "/page.css"}, "the page is not built; run make page"
    assert sum(len(gzip.compress(one.body)) for one in page.values()) < MOST_BUNDLE


def test_twelve_layers_of_twelve_heads_in_one_file(tmp_path: Path):
    assert _file(tmp_path).stat().st_size < MOST_FILE
