"""Every row at once: the matrices of each head, of all heads together, and of the block.

Grids of text; large ones keep their first and last rows and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from regard.arrays import Array
from regard.learn.languages import Language
from regard.learn.lesson import Lesson
from regard.learn.lesson.block import Block
from regard.learn.lesson.head import Head
from regard.learn.lesson.projections import is_identity
from regard.learn.story.document import Grid, Grids, Part, Prose, Role, Section
from regard.learn.text import figures, short_indices


def table_sections(lesson: Lesson) -> list[Section]:
    """One section per head that is shown, then one for what joins them, then the block's."""
    shown = short_indices(len(lesson.heads))
    if lesson.layer is not None and len(shown) > _HEADS:
        shown = shown[:1]
    sections = [_head_section(lesson, h) for h in shown]
    if lesson.projections.w_o is not None:
        left_out = len(lesson.heads) - len(shown)
        sections.append(_joined_section(lesson, lesson.projections.w_o, left_out))
    if lesson.block is not None:
        sections.append(_block_section(lesson, lesson.block))
    if lesson.layer is not None and lesson.layer.stages:
        sections.append(_stages_section(lesson, lesson.layer.stages))
    return sections


def _stages_section(lesson: Lesson, stages: Sequence[tuple[str, str, Array]]) -> Section:
    say = lesson.say
    made = (
        _grid(
            lesson,
            f"{name} = {formula}" if formula else name, rows, lesson.sentence.labels,
            dims(name[0], rows.shape[1]), "plain",
        )
        for name, formula, rows in stages
    )  # fmt: skip
    return Section(say("story.block_title"), say("story.block_why"), (Grids(tuple(made)),))


# of a layer, which is larger than a lesson
_HEADS = 4  # shown whole
_FOLDED = 12  # rows and columns of a matrix shown whole


def _grid(lesson: Lesson, *given: Any, **options: Any) -> Grid:
    most = LARGEST if lesson.layer is None else _FOLDED
    return grid(*given, say=lesson.say, most=most, **options)


def _head_section(lesson: Lesson, h: int) -> Section:
    head, many, say = lesson.heads[h], len(lesson.heads) > 1, lesson.say
    parts: list[Part] = []
    if h == 0 and (many or lesson.embedding.positions is not None):
        parts.append(Grids(tuple(_inputs(lesson))))
    if not all(map(is_identity, (head.w_q, head.w_k, head.w_v))):
        rows = tuple(_dims(lesson, "x", w.shape[0]) for w in (head.w_q, head.w_k))
        parts.append(_views(lesson, "w_{1}", rows, (head.w_q, head.w_k, head.w_v)))
    views = (head.queries, head.keys, head.values)
    parts += [
        _views(lesson, _projected(head), (lesson.sentence.labels, lesson.key_labels), views),
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
        return [_grid(lesson, "X", x.x, labels, columns, "x")]
    words, positions = say("symbol.words"), say("symbol.positions")
    return [
        _grid(lesson, words, x.words, labels, columns, "x"),
        _grid(lesson, positions, x.positions, labels, columns, "quiet"),
        _grid(lesson, f"X = {words} + {positions}", x.x, labels, columns, "x"),
    ]


def _dims(lesson: Lesson, letter: str, count: int) -> tuple[str, ...]:
    """Names of features where the dimensions are features, else x1, x2, …"""
    return lesson.names(letter, count) or dims(letter, count)


def _projected(head: Head) -> str:
    if head.plain is not None:
        return "{0}"
    return "{0} = X @ w_{1}" if head.biases[0] is None else "{0} = X @ w_{1} + b_{1}"


def _views(
    lesson: Lesson, title: str, rows: Sequence[Sequence[str]], matrices: tuple[Array, ...]
) -> Grids:
    """One grid each for query, key and value, in their colours; rows of queries, then of keys."""
    roles: tuple[Role, ...] = ("q", "k", "v")
    return Grids(
        tuple(
            _grid(
                lesson,
                title.format(role.upper(), role),
                matrix,
                rows[role != "q"],
                dims(role, matrix.shape[1]),
                role,
            )
            for role, matrix in zip(roles, matrices, strict=True)
        )
    )


def _score_grids(lesson: Lesson, head: Head) -> list[Grid]:
    labels, say, asked = lesson.sentence.labels, lesson.say, lesson.options
    columns, scores = lesson.key_labels, say("symbol.scores")
    made = [_grid(lesson, f"{scores} = Q @ Kᵀ", head.scores, labels, columns, "score")]
    if asked.scaled or asked.causal:
        divided = f"{say('symbol.scaled')} = {scores} / √d_k"
        title = divided if asked.scaled else say("story.not_scaled")
        if not np.array_equal(head.biased, head.scaled):
            title += " + bias"
        if asked.causal:
            title = say("story.later_hidden", title=title)
        elif not head.visible.all():
            title = say("story.mask_hidden", title=title)
        made.append(_grid(lesson, title, head.masked, labels, columns, "score"))
    shares = np.where(np.isneginf(head.masked), -np.inf, head.weights)
    title = f"{say('symbol.weights')} = softmax(…)"
    made.append(_grid(lesson, title, shares, labels, columns, "weight", shaded=True))
    return made


def _context_grid(lesson: Lesson, head: Head, many: bool) -> Grid:
    say, count = lesson.say, head.context.shape[1]
    mixed = f"{say('symbol.weights')} @ V"
    title = mixed if many else f"{say('symbol.output')} = {mixed}"
    columns = dims("o", count) if many else _dims(lesson, "o", count)
    return _grid(lesson, title, head.context, lesson.sentence.labels, columns, "output")


def _joined_section(lesson: Lesson, w_o: Array, left_out: int) -> Section:
    labels, say = lesson.sentence.labels, lesson.say
    plus = "" if lesson.projections.b_o is None else " + b_o"
    title = f"{say('symbol.output')} = concat @ w_o{plus}"
    inner, outer = dims("c", w_o.shape[0]), _dims(lesson, "o", w_o.shape[1])
    parts: list[Part] = [
        Grids(
            (
                _grid(lesson, "concat", lesson.concat, labels, inner, "plain"),
                _grid(lesson, "w_o", w_o, inner, outer, "plain"),
                _grid(lesson, title, lesson.output, labels, outer, "output"),
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
        return _grid(lesson, title, matrix, labels, dims(letter, matrix.shape[1]), "plain")

    made = (
        _grid(lesson, "w_1", block.w_1, dims("n", width), hidden, "plain"),
        _grid(lesson, "w_2", block.w_2, hidden, dims("m", width), "plain"),
    )
    between = (
        rows(f"r = X + {say('symbol.output')}", block.residual, "r"),
        rows("n = norm(r)", block.normed, "n"),
        rows("h = n @ w_1", block.hidden, "h"),
        rows("mlp = max(h, 0) @ w_2", block.mlp, "m"),
    )
    title = f"{say('symbol.hidden_state')} = norm(n + mlp)"
    last = _grid(lesson, title, block.output, labels, dims("o", width), "output")
    parts = (Grids(made), Grids(between), Grids((last,)))
    return Section(say("story.block_title"), say("story.block_why"), parts)


LARGEST = 40  # rows or columns shown whole
_FIRST, _LAST = 6, 3

_T = TypeVar("_T")


def grid(
    title: str,
    matrix: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    role: Role,
    *,
    say: Language,
    shaded: bool = False,
    most: int = LARGEST,
) -> Grid:
    """The matrix with its labels, folded where it has more rows or columns than `most`."""
    down, across = _kept(len(rows), most), _kept(len(columns), most)
    part = matrix[np.ix_(_present(down), _present(across))]
    texts = np.array(figures(part), dtype=object).reshape(part.shape).tolist()
    shades = np.where(np.isfinite(part), part, 0.0).tolist() if shaded else None
    return Grid(
        title=title,
        role=role,
        rows=tuple("⋮" if r is None else rows[r] for r in down),
        columns=tuple("…" if c is None else columns[c] for c in across),
        cells=_spread(texts, down, across, "…"),
        shades=None if shades is None else _spread(shades, down, across, 0.0),
        remark=_remark(
            say, (len(rows), len(_present(down))), (len(columns), len(_present(across)))
        ),
    )


def dims(letter: str, count: int) -> tuple[str, ...]:
    """q1, q2, …: names of dimensions."""
    return tuple(f"{letter}{d + 1}" for d in range(count))


def _kept(count: int, most: int) -> list[int | None]:
    """Indices to show; None stands for those left out."""
    if count <= most:
        return list(range(count))
    return [*range(_FIRST), None, *range(count - _LAST, count)]


def _present(kept: list[int | None]) -> list[int]:
    return [i for i in kept if i is not None]


def _spread(
    cells: list[list[_T]], down: list[int | None], across: list[int | None], gap: _T
) -> tuple[tuple[_T, ...], ...]:
    """Cells with a gap wherever indices were left out."""
    rows = iter(cells)
    spread = []
    for r in down:
        row = iter(next(rows)) if r is not None else None
        spread.append(tuple(gap if row is None or c is None else next(row) for c in across))
    return tuple(spread)


def _remark(say: Language, rows: tuple[int, int], columns: tuple[int, int]) -> str:
    """Of rows and of columns: how many there are, and how many are shown."""
    sizes = dict(
        zip(("rows", "shown_rows", "columns", "shown_columns"), rows + columns, strict=True)
    )
    is_cut = (rows[1] < rows[0], columns[1] < columns[0])
    if is_cut == (False, False):
        return ""
    if is_cut == (True, True):
        return say("story.shown_both", **sizes)
    return say("story.shown_rows" if is_cut[0] else "story.shown_columns", **sizes)
