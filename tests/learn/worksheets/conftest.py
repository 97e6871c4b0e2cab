"""Sheets filled in by a student who knows the key, or almost."""

from __future__ import annotations

import re

import pytest

from regard.learn.worksheets import grade_written


@pytest.fixture
def graded(tmp_path):
    """Grade a text as a file."""

    def grade(text):
        path = tmp_path / "sheet.md"
        path.write_text(text, encoding="utf-8")
        return grade_written(path)

    return grade


@pytest.fixture
def answered():
    """A sheet with other words under one of its answers."""

    def put(text, number, words):
        pattern = rf"(## answer {number}\n\n).*?(?=\n\n## |\n*\Z)"
        changed, count = re.subn(pattern, lambda m: m[1] + words, text, flags=re.DOTALL)
        assert count == 1
        return changed

    return put
