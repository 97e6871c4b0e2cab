"""Every row at once: the matrices of each head, of all heads together, and of the block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.arrays import Array
from regard.learn.languages import Language
from regard.learn.lesson import Lesson
from regard.learn.lesson.block import Block
from regard.learn.lesson.head import Head
from regard.learn.lesson.projections import is_identity
from regard.learn.story.document import Grid, Grids, Part, Prose, Role, Section
from regard.learn.story.grids import dims, grid
from regard.learn.text import short_indices


def table_sections(lesson: Lesson) -> list[Section]:
    """One section per head that is shown, then one for what joins them, then the block's."""
    shown = short_indices(len(lesson.heads))
    sections = [_head_section(lesson, h) for h in shown]
    if lesson.projections.w_o is not None:
        left_out = len(lesson.heads) - len(shown)
        sections.append(_joined_section(lesson, lesson.projections.w_o, left_out))
    if lesson.block is not None:
        sections.append(_block_section(lesson, lesson.block))
    return sections


def _head_section(lesson: Lesson, h: int) -> Section:
    head, many, say = lesson.heads[h], len(lesson.heads) > 1, lesson.say
    parts: list[Part] = []
    if h == 0 and (many or lesson.embedding.positions is not None):
        parts.append(Grids(tuple(_inputs(lesson))))
    if not all(map(is_identity, (head.w_q, head.w_k, head.w_v))):
        rows = _dims(lesson, "x", head.w_q.shape[0])
        parts.append(_views(say, "w_{1}", rows, (head.w_q, head.w_k, head.w_v)))
    views = (head.queries, head.keys, head.values)
    parts += [
        _views(say, "{0} = X @ w_{1}", lesson.sentence.labels, views),
        Grids(tuple(_score_grids(lesson, head))),
        Grids((_context_grid(lesson, head, many),)),
    ]
    title = say("story.all_rows_head", head=h + 1) if many else say("softmax.all_rows")
    why = say("story.all_rows_why", name=lesson.sentence.name)
    return Section(title, why, tuple(parts))


def _inputs(lesson: Lesson) -> list[Grid]:
    x, labels, say = lesson.embedding, lesson.sentence.labels, lesson.say
    columns = _dims(lesson, "x", x.width)
    if x.positions is None:
        return [grid("X", x.x, labels, columns, "x", say=say)]
    words, positions = say("symbol.words"), say("symbol.positions")
    return [
        grid(words, x.words, labels, columns, "x", say=say),
        grid(positions, x.positions, labels, columns, "quiet", say=say),
        grid(f"X = {words} + {positions}", x.x, labels, columns, "x", say=say),
    ]


def _dims(lesson: Lesson, letter: str, count: int) -> tuple[str, ...]:
    """Names of features where the dimensions are features, else x1, x2, …"""
    return lesson.names(letter, count) or dims(letter, count)


def _views(say: Language, title: str, rows: Sequence[str], matrices: tuple[Array, ...]) -> Grids:
    """One grid each for query, key and value, in their colours."""
    roles: tuple[Role, ...] = ("q", "k", "v")
    return Grids(
        tuple(
            grid(
                title.format(role.upper(), role),
                matrix,
                rows,
                dims(role, matrix.shape[1]),
                role,
                say=say,
            )
            for role, matrix in zip(roles, matrices, strict=True)
        )
    )


def _score_grids(lesson: Lesson, head: Head) -> list[Grid]:
    labels, say, asked = lesson.sentence.labels, lesson.say, lesson.options
    scores = say("symbol.scores")
    grids = [grid(f"{scores} = Q @ Kᵀ", head.scores, labels, labels, "score", say=say)]
    if asked.scaled or asked.causal:
        divided = f"{say('symbol.scaled')} = {scores} / √d_k"
        title = divided if asked.scaled else say("story.not_scaled")
        title = say("story.later_hidden", title=title) if asked.causal else title
        grids.append(grid(title, head.masked, labels, labels, "score", say=say))
    shares = np.where(np.isneginf(head.masked), -np.inf, head.weights)
    title = f"{say('symbol.weights')} = softmax(…)"
    grids.append(grid(title, shares, labels, labels, "weight", say=say, shaded=True))
    return grids


def _context_grid(lesson: Lesson, head: Head, many: bool) -> Grid:
    say, count = lesson.say, head.context.shape[1]
    mixed = f"{say('symbol.weights')} @ V"
    title = mixed if many else f"{say('symbol.output')} = {mixed}"
    columns = dims("o", count) if many else _dims(lesson, "o", count)
    return grid(title, head.context, lesson.sentence.labels, columns, "output", say=say)


def _joined_section(lesson: Lesson, w_o: Array, left_out: int) -> Section:
    labels, say = lesson.sentence.labels, lesson.say
    title = f"{say('symbol.output')} = concat @ w_o"
    inner, outer = dims("c", w_o.shape[0]), _dims(lesson, "o", w_o.shape[1])
    parts: list[Part] = [
        Grids(
            (
                grid("concat", lesson.concat, labels, inner, "plain", say=say),
                grid("w_o", w_o, inner, outer, "plain", say=say),
                grid(title, lesson.output, labels, outer, "output", say=say),
            )
        )
    ]
    if left_out:
        parts.insert(0, Prose(say("story.heads_left_out", count=left_out)))
    return Section(say("story.joined_title"), say("story.joined_why"), tuple(parts))


def _block_section(lesson: Lesson, block: Block) -> Section:
    labels, width, say = lesson.sentence.labels, block.output.shape[1], lesson.say
    hidden = dims("h", block.w_1.shape[1])

    def rows(title: str, matrix: Array, letter: str) -> Grid:
        return grid(title, matrix, labels, dims(letter, matrix.shape[1]), "plain", say=say)

    made = (
        grid("w_1", block.w_1, dims("n", width), hidden, "plain", say=say),
        grid("w_2", block.w_2, hidden, dims("m", width), "plain", say=say),
    )
    between = (
        rows(f"r = X + {say('symbol.output')}", block.residual, "r"),
        rows("n = norm(r)", block.normed, "n"),
        rows("h = n @ w_1", block.hidden, "h"),
        rows("mlp = max(h, 0) @ w_2", block.mlp, "m"),
    )
    title = f"{say('symbol.hidden_state')} = norm(n + mlp)"
    last = grid(title, block.output, labels, dims("o", width), "output", say=say)
    parts = (Grids(made), Grids(between), Grids((last,)))
    return Section(say("story.block_title"), say("story.block_why"), parts)
