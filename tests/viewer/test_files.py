"""The page's files: a fixed list, read once."""

from __future__ import annotations

from pathlib import Path

import regard.viewer
from regard.viewer.files import PAGE_FILES, load_page

STATIC = Path(regard.viewer.__file__).parent / "static"


def test_what_is_built_is_loaded_and_the_rest_left_out():
    built = {address for address, (name, _) in PAGE_FILES.items() if (STATIC / name).exists()}
    assert set(load_page()) == built


def test_names_stay_inside_their_folder():
    for name, kind in PAGE_FILES.values():
        assert "/" not in name
        assert ".." not in name
        assert kind.endswith("charset=utf-8")
