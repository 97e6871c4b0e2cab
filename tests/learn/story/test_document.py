"""The neutral document."""

from __future__ import annotations

from regard.learn import Options, make_lesson
from regard.learn.story import Document, narrate
from regard.learn.story.document import Grid, Grids, Lines, Prose, Section, Span


def test_the_formula_says_whether_scores_are_divided():
    assert Document("t", (), ()).formula == "Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V"
    assert "√" not in Document("t", (), (), scaled=False).formula


def test_every_text_can_be_rewritten_and_nothing_else_changes():
    grid = Grid("t", "weight", ("r",), ("c",), (("1",),), ((0.5,),), "more")
    section = Section("s", "why", (Prose("p"), Lines(((Span("l", "q"),),)), Grids((grid,))), 1)
    plain = Document("d", ("o",), (section,), scaled=False)
    roles = {"weight", "q"}
    marked = plain.rewritten(lambda text: text if text in roles else f"{text}!")
    assert (marked.title, marked.opening, marked.scaled) == ("d!", ("o!",), False)
    assert marked.sections[0] == Section(
        "s!",
        "why!",
        (
            Prose("p!"),
            Lines(((Span("l!", "q"),),)),
            Grids((Grid("t!", "weight", ("r!",), ("c!",), (("1!",),), ((0.5,),), "more!"),)),
        ),
        1,
    )


def test_a_whole_lesson_survives_rewriting():
    story = narrate(make_lesson(Options("The cat sat", heads=2, causal=True, block=True)))
    assert story.rewritten(lambda text: text) == story
