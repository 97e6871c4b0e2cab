"""Every row at once: the matrices of each head, of all heads together, and of the block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.learn.lesson import Lesson
from regard.learn.lesson.block import Block
from regard.learn.lesson.projections import is_identity
from regard.learn.steps import Array, Head
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
    head, many = lesson.heads[h], len(lesson.heads) > 1
    parts: list[Part] = []
    if h == 0 and (many or lesson.embedding.positions is not None):
        parts.append(Grids(tuple(_inputs(lesson))))
    if not all(map(is_identity, (head.w_q, head.w_k, head.w_v))):
        rows = dims("x", head.w_q.shape[0])
        parts.append(_views("w_{1}", rows, (head.w_q, head.w_k, head.w_v)))
    views = (head.queries, head.keys, head.values)
    parts += [
        _views("{0} = X @ w_{1}", lesson.sentence.labels, views),
        Grids(tuple(_score_grids(lesson, head))),
        Grids((_context_grid(lesson, head, many),)),
    ]
    title = f"Head {h + 1}: every row at once" if many else "Every row at once"
    why = (
        f'One matrix product per step does it for all tokens; "{lesson.sentence.name}" is one row.'
    )
    return Section(title, why, tuple(parts))


def _inputs(lesson: Lesson) -> list[Grid]:
    x, labels = lesson.embedding, lesson.sentence.labels
    columns = dims("x", x.width)
    if x.positions is None:
        return [grid("X", x.x, labels, columns, "x")]
    return [
        grid("words", x.words, labels, columns, "x"),
        grid("positions", x.positions, labels, columns, "quiet"),
        grid("X = words + positions", x.x, labels, columns, "x"),
    ]


def _views(title: str, rows: Sequence[str], matrices: tuple[Array, ...]) -> Grids:
    """One grid each for query, key and value, in their colours."""
    roles: tuple[Role, ...] = ("q", "k", "v")
    return Grids(
        tuple(
            grid(title.format(role.upper(), role), matrix, rows, dims(role, matrix.shape[1]), role)
            for role, matrix in zip(roles, matrices, strict=True)
        )
    )


def _score_grids(lesson: Lesson, head: Head) -> list[Grid]:
    labels = lesson.sentence.labels
    grids = [grid("scores = Q @ Kᵀ", head.scores, labels, labels, "score")]
    if lesson.options.scaled or lesson.options.causal:
        title = "scaled = scores / √d_k" if lesson.options.scaled else "not scaled"
        title += ", later keys hidden" if lesson.options.causal else ""
        grids.append(grid(title, head.masked, labels, labels, "score"))
    shares = np.where(np.isneginf(head.masked), -np.inf, head.weights)
    grids.append(grid("weights = softmax(…)", shares, labels, labels, "weight", shaded=True))
    return grids


def _context_grid(lesson: Lesson, head: Head, many: bool) -> Grid:
    title = "weights @ V" if many else "output = weights @ V"
    columns = dims("o", head.context.shape[1])
    return grid(title, head.context, lesson.sentence.labels, columns, "output")


def _joined_section(lesson: Lesson, w_o: Array, left_out: int) -> Section:
    labels = lesson.sentence.labels
    inner, outer = dims("c", w_o.shape[0]), dims("o", w_o.shape[1])
    parts: list[Part] = [
        Grids(
            (
                grid("concat", lesson.concat, labels, inner, "plain"),
                grid("w_o", w_o, inner, outer, "plain"),
                grid("output = concat @ w_o", lesson.output, labels, outer, "output"),
            )
        )
    ]
    if left_out:
        parts.insert(0, Prose(f"{left_out} heads are left out above; --json has them all."))
    return Section(
        "All heads together", "w_o brings the heads back to the width of x.", tuple(parts)
    )


def _block_section(lesson: Lesson, block: Block) -> Section:
    labels, width = lesson.sentence.labels, block.output.shape[1]

    def rows(title: str, matrix: Array, letter: str) -> Grid:
        return grid(title, matrix, labels, dims(letter, matrix.shape[1]), "plain")

    made = (
        grid("w_1", block.w_1, dims("n", width), dims("h", block.w_1.shape[1]), "plain"),
        grid("w_2", block.w_2, dims("h", block.w_1.shape[1]), dims("m", width), "plain"),
    )
    between = (
        rows("r = X + output", block.residual, "r"),
        rows("n = norm(r)", block.normed, "n"),
        rows("h = n @ w_1", block.hidden, "h"),
        rows("mlp = max(h, 0) @ w_2", block.mlp, "m"),
    )
    last = grid("hidden state = norm(n + mlp)", block.output, labels, dims("o", width), "output")
    why = "The hidden states are what the next block receives as its X."
    return Section(
        "The block: every row at once", why, (Grids(made), Grids(between), Grids((last,)))
    )
