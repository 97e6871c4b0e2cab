"""What the first page asks for is there before it asks."""

from __future__ import annotations

import pytest

from regard.viewer import answers
from regard.viewer.serve import warm_up
from regard.viewer.work import Pool
from viewer.served import make_empty, make_opened


@pytest.fixture
def pool():
    one = Pool(1)
    yield one
    one.close()


def test_the_first_page_is_made_before_it_is_asked_for(tmp_path, pool, monkeypatch):
    one = make_opened(tmp_path)
    warm_up([one], pool).result(timeout=300)
    monkeypatch.setattr(answers, "thumbnails_of", None)  # nothing is computed any more
    assert answers.thumbnails(one).kinds.any()


def test_a_recording_without_a_prompt_is_no_trouble(pool):
    assert warm_up([make_empty()], pool).result(timeout=300) is None
