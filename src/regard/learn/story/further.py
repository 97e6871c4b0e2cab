"""Where the notes go on: their [6 4], several heads, the block; and what to type next."""

from __future__ import annotations

import numpy as np

from regard.arrays import Array
from regard.attention import scale, score, softmax
from regard.learn.languages import Language
from regard.learn.lesson import NOTES_SENTENCE, Lesson
from regard.learn.lesson.block import WIDENING, Block
from regard.learn.lesson.projections import is_identity
from regard.learn.story.document import Line, Lines, Prose, Section
from regard.learn.story.lines import LINE_WIDTH, line, quiet, vector, vector_line
from regard.learn.text import bracketed, cells, figure, figures, padded

_QUERY = np.array([[2.0, 3.0, 4.0, 1.0]])
_KEYS = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
_COMMANDS = (
    'regard learn "The cat sat" --heads 2 --block',
    'regard learn "bank of the river" --vectors features',
    "regard learn --exercise 7",
)


def further_sections(lesson: Lesson) -> list[Section]:
    """About ten lines each, and only what the lesson has not shown."""
    sections = []
    if tuple(token.lower() for token in lesson.sentence.tokens) == NOTES_SENTENCE:
        sections.append(_six_and_four(lesson.say))
    if (two := lesson.in_two_heads) is not None:
        sections.append(_two_heads(two))
    if (block := lesson.rest_of_block) is not None:
        sections.append(_block(lesson, block))
    return sections


def next_section(say: Language) -> Section:
    """Three commands, in the language of the lesson."""
    language = "" if say.code == "en" else f" --language {say.code}"
    commands = tuple(line(command + language) for command in _COMMANDS)
    return Section(say("further.next_title"), say("further.next_why"), (Lines(commands),))


def _six_and_four(say: Language) -> Section:
    """[6 4] undivided and divided: the softmax of both, and its gradient ∂p₁/∂(q·k1) = f·p₁·p₂ for
    scores that were multiplied by f."""
    root = _QUERY.shape[-1] ** 0.5
    scores = score(_QUERY, _KEYS)[0]
    given = [f"k{n + 1} = {bracketed(figures(key))}" for n, key in enumerate(_KEYS)]
    products = [
        f"q·k{n + 1} = {' + '.join(figures(terms[terms != 0]))} = {figure(float(terms.sum()))}"
        for n, terms in enumerate(_QUERY * _KEYS)
    ]
    names = say("story.undivided"), say("story.divided", root=figure(root))
    wide = max(map(cells, names))
    return Section(
        say("further.note_title"),
        say("further.note_why", root=figure(root)),
        (
            Lines(
                (
                    line("   ".join([f"q = {bracketed(figures(_QUERY[0]))}", *given])),
                    line("   ".join(products)),
                    _shares(say, padded(names[0], wide), scores, 1.0),
                    _shares(say, padded(names[1], wide), scores, root),
                )
            ),
            Prose(say("further.note_temperature")),
        ),
    )


def _shares(say: Language, name: str, scores: Array, divisor: float) -> Line:
    """scores → weights, and the gradient of the first weight."""
    scaled = scale(scores, 1 / divisor)
    weights = softmax(scaled)
    divided = "" if divisor == 1 else f" / {figure(divisor)}"
    gradient = figure(float(weights[0] * weights[1]) / divisor)
    return line(
        f"{name}  ",
        vector(scaled, "score"),
        " → ",
        vector(weights, "weight"),
        f"  {say('symbol.gradient')} {'·'.join(figures(weights))}{divided} = {gradient}",
    )


def _two_heads(two: Lesson) -> Section:
    """The row's weights and weighted sum in each head, concatenated, through w_o."""
    i, say, w_o = two.sentence.focus, two.say, two.projections.w_o
    lines: list[Line] = []
    for n, head in enumerate(two.heads):
        name = f"{say('count.head', number=n + 1)}: "
        room = (LINE_WIDTH - cells(name) - 7) // 2
        weights = vector(head.weights[i], "weight", room)
        lines.append(line(name, weights, " @ V = ", vector(head.context[i], "plain", room)))
    lines.append(vector_line("concat = ", two.concat[i]))
    start = f"{say('symbol.output')} = concat @ w_o = "
    lines.append(vector_line(start, two.output[i], "output"))
    if w_o is not None and is_identity(w_o):
        lines.append(quiet("  " + say("story.w_o_identity")))
    why = say("further.heads_why", d_k=two.projections.sizes.d_k, name=two.sentence.name)
    return Section(say("further.heads_title"), why, (Lines(tuple(lines)),))


def _block(lesson: Lesson, block: Block) -> Section:
    """x + attention → norm → MLP → norm, for the row."""
    i, say = lesson.sentence.focus, lesson.say
    lines = (
        vector_line(f"r = x + {say('symbol.attention')} = ", block.residual[i]),
        vector_line("n = norm(r) = ", block.normed[i]),
        vector_line("h = max(n @ w_1, 0) = ", block.activated[i]),
        vector_line("mlp = h @ w_2 = ", block.mlp[i]),
        vector_line(f"{say('symbol.hidden_state')} = norm(n + mlp) = ", block.output[i], "output"),
    )
    made_up = Prose(say("next_layer.mlp_made_up", times=WIDENING))
    why = say("further.block_why", name=lesson.sentence.name)
    return Section(say("further.block_title"), why, (Lines(lines), made_up))
