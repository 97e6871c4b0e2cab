"""`regard report -o page.html` as a shell sees it."""

from __future__ import annotations

from functools import partial

import pytest

from draw.recorded import on_disk
from viewer.shell import Elements


@pytest.fixture
def report(shell):
    return partial(shell, "report")


@pytest.fixture
def file(tmp_path):
    return on_disk(tmp_path / "run.regard")


def test_a_page_is_written_and_says_what_it_carries(report, file, tmp_path):
    page = tmp_path / "page.html"
    status, out, err = report(file, "-o", page, "--heads", "L0")
    assert (status, out) == (0, "")
    assert f"written: {page}" in err and "4 of 8 heads of run.regard" in err
    data = Elements(page.read_text(encoding="utf-8")).text("script", id="regard-data")
    assert '"heads":["L0H0","L0H1","L0H2","L0H3"]' in data
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.html", "run.regard"]


def test_a_head_that_is_not_there_leaves_no_file(report, file, tmp_path):
    status, _, err = report(file, "-o", tmp_path / "page.html", "--heads", "L0H9")
    assert status == 2 and "L0" in err
    assert not (tmp_path / "page.html").exists()


def test_heads_are_of_a_page_only(report, file):
    status, _, err = report(file, "--heads", "L0")
    assert status == 2 and "-o page.html" in err
