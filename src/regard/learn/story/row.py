"""The walk-through of one row: embedding, projections, scores, scaling, softmax, sum, heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.arrays import Array
from regard.attention import scale, softmax
from regard.learn.languages import Language, listing
from regard.learn.lesson import Lesson
from regard.learn.lesson.head import Head
from regard.learn.lesson.projections import is_identity
from regard.learn.story.document import Line, Lines, Part, Prose, Role, Section, Span
from regard.learn.story.lines import (
    LINE_WIDTH,
    flow,
    line,
    line_width,
    product_lines,
    products,
    quiet,
    total,
    vector,
    vector_line,
)
from regard.learn.text import (
    bracketed,
    cells,
    column,
    factor,
    figure,
    figures,
    padded,
    right_aligned,
    short_indices,
)

_MOST, _SHORT = 8, 6


@dataclass(frozen=True)
class SeenKeys:
    """The keys of one row: `kept` are spelt out, `rest` are seen too, `hidden` are masked."""

    labels: tuple[str, ...]
    kept: tuple[int, ...]
    rest: tuple[int, ...]
    hidden: tuple[int, ...]

    @property
    def seen(self) -> tuple[int, ...]:
        """All keys the row may see, in order."""
        return tuple(sorted(self.kept + self.rest))

    def names(self, form: str = "{}") -> list[str]:
        """Labels of the keys that are spelt out, put into a form such as "k({})", equally wide."""
        names = [form.format(self.labels[j]) for j in self.kept]
        return [padded(name, max(map(cells, names))) for name in names]


def seen_keys(lesson: Lesson, head: Head) -> SeenKeys:
    """The keys of the row that is spelt out."""
    focus = lesson.sentence.focus
    row = head.masked[focus]
    seen = [int(j) for j in np.flatnonzero(np.isfinite(row))]
    strongest = sorted(seen, key=lambda j: -head.weights[focus, j])[:_SHORT]
    own = {focus} & set(seen) if lesson.key_labels == lesson.sentence.labels else set()
    kept = tuple(seen if len(seen) <= _MOST else sorted({*own, *strongest}))
    return SeenKeys(
        labels=lesson.key_labels,
        kept=kept,
        rest=tuple(j for j in seen if j not in kept),
        hidden=tuple(j for j in range(row.size) if j not in seen),
    )


def embedding_section(lesson: Lesson) -> Section:
    """Step 1: words become vectors."""
    x, say = lesson.embedding, lesson.say
    if lesson.layer is not None:
        title, why = say("story.input_title"), say("story.input_why")
        return Section(title, why, (Lines(tuple(_inputs(lesson))),))
    title = say("embedding.name")
    if x.positions is None:
        return Section(title, say("story.embedding_why"), (Lines(tuple(_inputs(lesson))),))
    i, name = lesson.sentence.focus, lesson.sentence.name
    start = line(f"x({name}) = ")
    room = LINE_WIDTH - line_width(start) - 2
    summands = [line(vector(x.words[i], "x", room)), line(vector(x.positions[i], "quiet", room))]
    added = total(start, summands, line(" = ", vector(x.x[i], "x", room)))
    remark = quiet(say("story.word_position", place=i + 1, index=i))
    return Section(title, say("story.embedding_why_positions"), (Lines((*added, remark)),))


def _inputs(lesson: Lesson) -> list[Line]:
    labels, x = lesson.sentence.labels, lesson.embedding.x
    kept = short_indices(len(labels))
    if lesson.sentence.focus not in kept:
        kept.insert(-1, lesson.sentence.focus)
    items = [vector_line(f"{labels[j]} = ", x[j], "x") for j in kept]
    if len(kept) < len(labels):
        items.append(quiet(lesson.say("count.more", count=len(labels) - len(kept))))
    return flow(items)


def projection_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 2: three learned views of every token, in head `number`."""
    head, i, say = lesson.heads[number], lesson.sentence.focus, lesson.say
    j = i if lesson.key_labels == lesson.sentence.labels else 0  # the key that is spelt out
    own, key = lesson.sentence.name, lesson.key_labels[j]
    plain = (head.queries, head.keys) if head.plain is None else head.plain
    views: tuple[tuple[Role, str, Array, Array, Array, Array], ...] = (
        ("q", own, lesson.embedding.x[i], head.w_q, plain[0][i], head.queries[i]),
        ("k", key, lesson.sources[0][j], head.w_k, plain[1][j], head.keys[j]),
        ("v", key, lesson.sources[1][j], head.w_v, head.values[j], head.values[j]),
    )
    lines: list[Line] = []
    for (role, name, x, w, made, final), bias in zip(views, head.biases, strict=True):
        alike = bias is None and name == own and np.array_equal(w, head.w_q)
        if role != "q" and alike and head.biases[0] is None:
            lines.append(vector_line(f"{role}({name}) = ", made, role, f"   (w_{role} = w_q)"))
        else:
            many = len(lesson.heads) > 1
            w_name = f"w_{role}"
            w_name = say("story.of_head", name=w_name, head=number + 1) if many else w_name
            w_name += "" if bias is None else f" + b_{role}"
            lines.append(vector_line(f"{role}({name}) = x @ {w_name} = ", made, role))
            lines += product_lines(say, (role, role), x, w, made, bias)
        if not np.array_equal(made, final):
            lines.append(vector_line("  " + say("story.after_projection"), final, role))
    closing = Prose(say("story.projection_closing"))
    title, why = say("story.projection_title"), say("story.projection_why")
    return Section(title, why, (Lines(tuple(lines)), closing))


_BAR = 24
_SAFE = 30.0  # e^30 is still a number one can read


def score_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 3: the row's query against every key it may see."""
    head, i, name = lesson.heads[number], lesson.sentence.focus, lesson.sentence.name
    keys, say = seen_keys(lesson, head), lesson.say
    texts = [figures(head.keys[j]) for j in keys.kept]
    q = figures(head.queries[i])
    results = figures(head.scores[i, list(keys.kept)])
    lines: list[Line] = []
    for j, label, k, result in zip(keys.kept, keys.names("k({})"), texts, results, strict=True):
        angle = _angle(say, head.queries[i], head.keys[j])
        lines += _score(line(f"q({name})·{label} = "), q, k, result, angle)
    if keys.rest:
        lines.append(quiet(say("story.strongest", count=len(keys.rest))))
    parts: list[Part] = [Lines(tuple(lines))]
    if keys.hidden:
        hidden = listing([keys.labels[j] for j in keys.hidden], 6)
        why = "story.hidden" if lesson.layer is None else "story.hidden_by_mask"
        parts.append(Prose(say(why, name=name, names=hidden)))
    return Section(say("story.scores_title"), say("story.scores_why"), tuple(parts))


def _score(start: Line, q: list[str], k: list[str], result: str, angle: str) -> list[Line]:
    """The products, their sum, and the same number by lengths and angle."""
    lines = total(start, products(q, k, ("q", "k")), line(" = ", Span(result, "score")))
    again = Span(angle, "quiet")
    if line_width(lines[-1]) + 2 + cells(angle) <= LINE_WIDTH:
        lines[-1] += line("  ", again)
    else:
        lines.append(line(" " * (line_width(start) - 2), again))
    return lines


def _angle(say: Language, q: Array, k: Array) -> str:
    """The same dot product from the two lengths and the angle between them."""
    a, b = float(np.linalg.norm(q)), float(np.linalg.norm(k))
    if a == 0.0 or b == 0.0:
        return say("story.no_direction")
    cosine = float(np.clip((q / a) @ (k / b), -1.0, 1.0))
    degrees = f"{math.degrees(math.acos(cosine)):.1f}".removesuffix(".0")
    return f"= {figure(a)} × {figure(b)} × cos {degrees}°"


def scale_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 4: divide by √d_k, or what would have happened."""
    head, i, say = lesson.heads[number], lesson.sentence.focus, lesson.say
    d_k = head.w_k.shape[1]
    root = figure(math.sqrt(d_k))
    why = say("story.scale_why")
    keys = seen_keys(lesson, head)
    if not lesson.options.scaled:
        words = say("story.undivided"), say("story.divided", root=root)
        return Section(say("story.scale_left_out"), why, (_unscaled(head, i, keys, words),))
    before, after = figures(head.scores[i, keys.kept]), figures(head.scaled[i, keys.kept])
    items = [
        line(f"{keys.labels[j]}: ", Span(b, "score"), f" / {root} = ", Span(a, "score"))
        for j, b, a in zip(keys.kept, before, after, strict=True)
    ]
    if keys.rest:
        items.append(quiet(say("count.more", count=len(keys.rest))))
    title = say("story.scale_title", d_k=d_k, root=root)
    biased = figures(head.biased[i, keys.kept])
    if biased != after:
        added = figures(head.biased[i, keys.kept] - head.scaled[i, keys.kept])
        items += [
            line(f"{keys.labels[j]}: {a} + {factor(b)} = ", Span(c, "score"))
            for j, a, b, c in zip(keys.kept, after, added, biased, strict=True)
        ]
    return Section(title, why, (Lines(tuple(flow(items))),))


def _unscaled(head: Head, i: int, keys: SeenKeys, names: tuple[str, str]) -> Part:
    """The same row without and with the division, so named."""
    raw = head.scores[i, keys.seen][None, :]
    divided = scale(raw, head.w_k.shape[1] ** -0.5)
    wide = max(map(cells, names))
    room = (LINE_WIDTH - wide - 5) // 2
    rows = zip(names, (raw, divided), strict=True)
    return Lines(
        tuple(
            line(
                f"{padded(words, wide)}  ",
                vector(given, "score", room),
                " → ",
                vector(softmax(given), "weight", room),
            )
            for words, given in rows
        )
    )


def softmax_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 5: scores become shares of the row."""
    head, i, say = lesson.heads[number], lesson.sentence.focus, lesson.say
    keys = seen_keys(lesson, head)
    title, why = say("story.softmax_title"), say("story.softmax_why")
    if not keys.seen:
        return Section(title, why, (nothing_seen(lesson),))
    scores = head.masked[i, keys.seen]
    shift = float(scores.max()) if np.abs(scores).max() > _SAFE else 0.0
    parts: list[Part] = [Lines(tuple(_shares(say, head, i, keys, shift)))]
    if shift:
        parts.append(Prose(say("softmax.shifted")))
    return Section(title, why, tuple(parts))


def nothing_seen(lesson: Lesson) -> Part:
    """Of a row that the mask leaves no key."""
    return Prose(lesson.say("story.sees_nothing", name=lesson.sentence.name))


def _shares(say: Language, head: Head, i: int, keys: SeenKeys, shift: float) -> list[Line]:
    """One line per key: power, division, weight and a bar; then the sum."""
    kept, rest, weights = list(keys.kept), list(keys.rest), head.weights[i]
    powers, names = np.exp(head.masked[i] - shift), keys.names()
    kept_powers, kept_weights = powers[kept], weights[kept]
    exponents = head.masked[i, kept] - shift
    if head.sink[i] > 0:  # one more key, whose value is zero
        exponents = np.append(exponents, head.lse[i] + np.log(head.sink[i]) - shift)
        kept_powers = np.append(kept_powers, np.exp(exponents[-1]))
        kept_weights = np.append(kept_weights, head.sink[i])
        names.append(padded(say("story.sink"), cells(names[0])))
    e_others, w_others = powers[rest].sum(), weights[rest].sum()
    *es, e_rest, e_sum = column([*kept_powers, e_others, kept_powers.sum() + e_others])
    *ws, w_rest, w_sum = column([*kept_weights, w_others, kept_weights.sum() + w_others])
    shown = figures(exponents)
    wide = max(map(len, shown))
    starts = [f"{n}  e^{s:<{wide}} = " for n, s in zip(names, shown, strict=True)]
    left, gap = cells(starts[0]), " " * (len(e_sum) + len(e_sum.strip()) + 10)
    bar = max(min(_BAR, LINE_WIDTH - left - len(e_sum) - len(gap) - len(w_sum) - 2), 0)
    lines = [
        line(
            f"{start}{e}    {e} / {e_sum.strip()} = ",
            Span(w, "weight"),
            Span("  " + "▇" * round(weight * bar), "weight"),
        )
        for weight, start, e, w in zip(kept_weights, starts, es, ws, strict=True)
    ]
    if rest:
        more = right_aligned(say("count.others", count=len(rest)) + " = ", left)
        lines.append(line(f"{more}{e_rest}{gap}", Span(w_rest, "weight")))
    total_words = right_aligned(say("symbol.sum") + " = ", left)
    return [*lines, line(f"{total_words}{e_sum}{gap}", Span(w_sum, "weight"))]


def mix_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 6: the values, mixed by the weights."""
    head, say, keys = lesson.heads[number], lesson.say, seen_keys(lesson, lesson.heads[number])
    if not keys.seen:
        return Section(say("story.sum_title"), say("story.sum_why"), (nothing_seen(lesson),))
    # From the fullest form to the tersest; the last one always fits.
    for with_values, most in ((True, 8), (False, 8), (False, 5), (False, 4)):
        lines = _ledger(lesson, head, keys, with_values=with_values, most=most)
        if max(map(line_width, lines)) <= LINE_WIDTH:
            break
    many = len(lesson.heads) > 1
    title = say("story.sum_title_head", head=number + 1) if many else say("story.sum_title")
    return Section(title, say("story.sum_why"), (Lines(tuple(lines)),))


def _ledger(
    lesson: Lesson, head: Head, keys: SeenKeys, *, with_values: bool, most: int
) -> list[Line]:
    """weight × value = term, one line per key, added up column by column."""
    i, name, say = lesson.sentence.focus, lesson.sentence.name, lesson.say
    weights, kept, rest = head.weights[i], list(keys.kept), list(keys.rest)
    terms = weights[:, None] * head.values
    rows = np.vstack([terms[kept], terms[rest].sum(axis=0), head.context[i]])
    *term_rows, rest_row, sum_row = _aligned(rows)
    values = _aligned(head.values[kept])
    lines = []
    for w, label, v, term in zip(
        column(weights[kept]), keys.names("v({})"), values, term_rows, strict=True
    ):
        value = line(" ", Span(bracketed(v, most), "v")) if with_values else ()
        lines.append(line(Span(w, "weight"), f" × {label}", *value, " = ", bracketed(term, most)))
    left = line_width(lines[0]) - cells(bracketed(sum_row, most)) - 3
    if rest:
        words = right_aligned(say("count.others", count=len(rest)), left)
        lines.append(line(Span(words, "quiet"), " = ", bracketed(rest_row, most)))
    words = say("story.sum_output", name=name)
    summed = words if cells(words) <= left else say("symbol.sum")
    start = right_aligned(summed, left) + " = "
    return [*lines, line(start, Span(bracketed(sum_row, most), "output"))]


def _aligned(rows: Array) -> list[list[str]]:
    """All numbers with the same decimals and the same width."""
    texts = column(rows)
    return [texts[r * rows.shape[1] : (r + 1) * rows.shape[1]] for r in range(rows.shape[0])]


def heads_section(lesson: Lesson) -> Section:
    """Step 7: the heads side by side, then through w_o."""
    i, w_o, say = lesson.sentence.focus, lesson.projections.w_o, lesson.say
    lines: list[Line] = []
    if len(lesson.heads) > 1:
        lines += _side_by_side(lesson, i)
    lines.append(
        vector_line(f"{say('symbol.output')} = {_mixed(lesson)} = ", lesson.output[i], "output")
    )
    b_o = lesson.projections.b_o
    if w_o is not None and (b_o is not None or not is_identity(w_o)):
        lines += product_lines(say, ("o", "output"), lesson.concat[i], w_o, lesson.output[i], b_o)
    elif w_o is not None:
        lines.append(quiet("  " + say("story.w_o_identity")))
    return Section(say("story.heads_title"), say("story.heads_why"), (Lines(tuple(lines)),))


def _mixed(lesson: Lesson) -> str:
    return "concat @ w_o" if lesson.projections.b_o is None else "concat @ w_o + b_o"


def stages_section(lesson: Lesson, stages: Sequence[tuple[str, str, Array]]) -> Section:
    """A block, from its input to what the next block receives."""
    i, say = lesson.sentence.focus, lesson.say
    lines = [
        vector_line(f"{name} = {formula} = " if formula else f"{name} = ", rows[i])
        for name, formula, rows in stages
    ]
    title = say("story.stages_title", name=lesson.sentence.name)
    return Section(title, say("story.stages_why"), (Lines(tuple(lines)),))


def _side_by_side(lesson: Lesson, i: int) -> list[Line]:
    kept = short_indices(len(lesson.heads))
    names = [lesson.say("count.head", number=h + 1) for h in kept] + ["concat"]
    wide = max(map(cells, names))
    rows = [lesson.heads[h].context[i] for h in kept] + [lesson.concat[i]]
    texts = iter(column(np.concatenate(rows)))
    aligned = [[next(texts) for _ in row] for row in rows]
    most = next((m for m in (8, 7, 6, 5, 4, 3) if _fits(wide, aligned, m)), 2)
    lines = [
        line(f"{padded(name, wide)} = {bracketed(row, most)}")
        for name, row in zip(names, aligned, strict=True)
    ]
    if len(kept) < len(lesson.heads):
        more = lesson.say("story.more_heads", count=len(lesson.heads) - len(kept))
        lines.insert(-1, quiet(more))
    return lines


def _fits(name: int, rows: list[list[str]], most: int) -> bool:
    return max(name + 3 + cells(bracketed(row, most)) for row in rows) <= LINE_WIDTH
