"""Which keys of a row are spelt out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.learn import Options, make_lesson
from regard.learn.story.row import seen_keys


def keys_of(text: str, **options):
    lesson = make_lesson(Options(text, **options))
    return seen_keys(lesson, lesson.heads[0]), lesson


def test_few_keys_are_all_spelt_out():
    keys, _ = keys_of("The cat sat")
    assert keys.kept == keys.seen == (0, 1, 2)
    assert keys.rest == keys.hidden == ()


def test_a_causal_row_names_what_is_hidden():
    keys, _ = keys_of("The cat sat", causal=True, token="cat")
    assert keys.kept == (0, 1)
    assert keys.hidden == (2,)


def test_of_many_keys_the_strongest_and_oneself_are_kept():
    keys, lesson = keys_of(" ".join(f"w{n}" for n in range(30)), token="17")
    weights = lesson.heads[0].weights[16]
    assert 16 in keys.kept
    assert set(weights.argsort()[-6:]) <= set(keys.kept)
    assert len(keys.kept) <= 7
    assert keys.kept == tuple(sorted(keys.kept))


def test_names_are_equally_wide():
    keys, _ = keys_of("a long word")
    assert keys.names("v({})") == ["v(a)   ", "v(long)", "v(word)"]
    assert keys.names() == ["a   ", "long", "word"]


@given(st.integers(1, 40), st.booleans(), st.data())
def test_kept_rest_and_hidden_are_all_keys(count, causal, data):
    token = str(data.draw(st.integers(1, count)))
    words = " ".join(f"w{n}" for n in range(count))
    keys, lesson = keys_of(words, causal=causal, token=token)
    assert sorted(keys.kept + keys.rest + keys.hidden) == list(range(count))
    assert keys.seen == tuple(range(lesson.sentence.focus + 1 if causal else count))
