"""The walk-through's middle: scores, scaling, softmax of one row."""

from __future__ import annotations

import math

import numpy as np

from regard.arrays import Array
from regard.attention import scale, softmax
from regard.learn.languages import Language, listing
from regard.learn.lesson import Lesson
from regard.learn.lesson.head import Head
from regard.learn.story.document import Line, Lines, Part, Prose, Section, Span
from regard.learn.story.keys import SeenKeys, seen_keys
from regard.learn.story.lines import (
    LINE_WIDTH,
    flow,
    line,
    line_width,
    products,
    quiet,
    total,
    vector,
)
from regard.learn.text import cells, column, factor, figure, figures, padded, right_aligned

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
