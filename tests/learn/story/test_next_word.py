"""The next word as it is told: every shown number is the lesson's."""

from __future__ import annotations

import pytest

from regard.learn import Options, make_lesson
from regard.learn.story import narrate
from regard.learn.story.document import Lines, Prose


def told(lesson):
    """The last numbered step: its lines and its sentences."""
    section = [one for one in narrate(lesson).sections if one.number is not None][-1]
    lines = ["".join(span.text for span in line) for part in section.parts
             if isinstance(part, Lines) for line in part.lines]  # fmt: skip
    return section, lines, [part.text for part in section.parts if isinstance(part, Prose)]


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_the_likeliest_words_stand_first_with_their_numbers(temperature):
    lesson = make_lesson(Options("Bees make honey", next=True, temperature=temperature))
    section, lines, sentences = told(lesson)
    found = lesson.next
    assert section.title == "The next word"
    assert lines[0].startswith("h(honey) = [")
    for line, place in zip(lines[1:], found.order, strict=True):
        assert line.split()[0] == found.words[place]
        assert f"{found.logits[place]:.4f}" in line
        assert float(line.split("p = ")[1].split()[0]) == pytest.approx(
            found.probabilities[place], abs=1e-4
        )
    assert found.likeliest in sentences[0]
    assert "not trained" in sentences[1]


def test_of_many_words_ten_are_shown_and_the_rest_summed_up():
    lesson = make_lesson(Options(" ".join(f"w{n}" for n in range(20)), next=True))
    _, lines, _ = told(lesson)
    assert len(lines) == 1 + 10 + 1
    assert lines[-1].strip().startswith("13 other words")
    assert max(map(len, lines)) <= 77


def test_it_is_told_in_the_language_asked_for():
    _, _, sentences = told(make_lesson(Options("The cat sat", next=True, language="de")))
    assert "nicht trainiert" in sentences[1]


@pytest.mark.parametrize(
    ("temperature", "said"),
    [
        (0.0, "Tie between the, cat, sat: the first is taken, the."),
        (1.0, "Equally likely: the, cat, sat."),
    ],
)
def test_equal_logits_are_called_equal(temperature, said):
    lesson = make_lesson(Options("The cat sat", next=True, temperature=temperature))
    _, lines, sentences = told(lesson)
    assert said in sentences[0] and "Likeliest" not in sentences[0]
    assert not any(" / " in line for line in lines)


def test_at_temperature_0_nothing_is_divided():
    _, lines, sentences = told(make_lesson(Options("Bees make honey", next=True, temperature=0.0)))
    assert not any(" / " in line for line in lines)
    assert "without a division" in sentences[0] and "Tie" not in sentences[0]
