"""Every row at once: the matrices of each head, of all heads together, and of the block."""

from __future__ import annotations

import numpy as np

from regard.learn.block import Block
from regard.learn.document import Grid, Grids, Part, Prose, Section
from regard.learn.figures import short_indices
from regard.learn.grids import dims, grid
from regard.learn.lesson import Lesson
from regard.learn.steps import Array, Head

__all__ = ["table_sections"]


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
    if not _is_plain(head):
        parts.append(Grids(tuple(_projection_grids(head))))
    parts += [
        Grids(tuple(_view_grids(lesson, head))),
        Grids(tuple(_score_grids(lesson, head))),
        Grids((_context_grid(lesson, head, many),)),
    ]
    title = f"Head {h + 1}: every row at once" if many else "Every row at once"
    why = (
        f'One matrix product per step does it for all tokens; "{lesson.sentence.name}" is one row.'
    )
    return Section(title, why, tuple(parts))


def _is_plain(head: Head) -> bool:
    """Square identities need no table."""
    eye = np.eye(head.w_q.shape[0])
    return all(np.array_equal(w, eye) for w in (head.w_q, head.w_k, head.w_v))


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


def _projection_grids(head: Head) -> list[Grid]:
    rows = dims("x", head.w_q.shape[0])
    return [
        grid("w_q", head.w_q, rows, dims("q", head.w_q.shape[1]), "q"),
        grid("w_k", head.w_k, rows, dims("k", head.w_k.shape[1]), "k"),
        grid("w_v", head.w_v, rows, dims("v", head.w_v.shape[1]), "v"),
    ]


def _view_grids(lesson: Lesson, head: Head) -> list[Grid]:
    labels = lesson.sentence.labels
    return [
        grid("Q = X @ w_q", head.queries, labels, dims("q", head.queries.shape[1]), "q"),
        grid("K = X @ w_k", head.keys, labels, dims("k", head.keys.shape[1]), "k"),
        grid("V = X @ w_v", head.values, labels, dims("v", head.values.shape[1]), "v"),
    ]


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
