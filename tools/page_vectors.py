"""Writes what Python's definitions say, for the tests of the page's mathematics to compare with.

python tools/page_vectors.py FILE    lessons with every intermediate, colours, gradients, gradings
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.attention import scale, score, softmax
from regard.colour import TIMES_UNIFORM, codes, is_light, palette
from regard.errors import InputError
from regard.learn import Lesson, Options, make_lesson
from regard.learn.grading.cells import read_number
from regard.learn.grading.exercise import exercise_key
from regard.learn.grading.marking import Mark, mark
from regard.learn.grading.submission import Submission, parse_submission
from regard.learn.lesson.block import vocabulary_of
from regard.learn.lesson.embeddings import bare, features, notes, smollm2, vocabulary
from regard.learn.lesson.projections import random_projections, settle
from regard.viewer.lesson import EXERCISES, PAGE_SEED, lesson_data
from regard.views.uniform import encode_times

LESSONS: dict[str, Options] = {
    "notes": Options("The cat sat"),
    "made up": Options("Every river finds the sea", token="river"),
    "random": Options("The cat sat", projections="random:7"),
    "causal": Options("The cat sat on the mat", causal=True, projections="random:1"),
    "positions": Options("The cat sat", positions=True),
    "unscaled": Options("The cat sat", scaled=False, projections="random:2"),
    "heads": Options("The cat sat down", heads=2, projections="random:3", causal=True),
    "narrow values": Options("The cat sat", d_k=3, d_v=2, projections="random:4"),
    "block": Options("The cat sat", block=True, projections="random:5", positions=True),
    "one token": Options("cat", causal=True),
}
NEXT = (
    Options("The cat sat", next=True),
    Options("The cat sat on the mat", next=True, temperature=0.0, projections="random:3"),
    Options("The cat sat down", next=True, temperature=0.4, causal=True),
    Options("The cat", next=True, temperature=3.0, positions=True),
    Options("She put the money", next=True, vectors="features", projections="by-hand"),
    Options("She put the money", next=True, vectors="smollm2", temperature=0.7),
)
CELLS = (
    "0.50", "1/2", "−3", "–3", ".5e-1", "2.", "+2", "42%", "42.23 %", "-5 %", "0,42", "1,5",
    "12,3456", "1,000", "1.000,5", "½", "1½", "3 / 4", "4223/10000", "1/0", "1/3", "4.2·10^-3",
    "4.2×10⁻³",
    "4 x 10^{2}", "1e3", "1e999", "≈0.42", "~ 0.5", "cat", "0x10", "1 2", "0.4.2", "--1",
    "?", "", "–", "…", "__", "٣", "1_000", "nan", "Infinity", "1e", "%", "0.1%%", "1/2%",
    "√2", "-2√3", "2/√3", "2 / sqrt(3)", "√(4)", "2.83/√4", "1/1.414", "√", "2√", "1/√0", "√2/10",
)  # fmt: skip
BANK, IT = "She sat on the bank of the river.", "The animal did not cross because it was too tired"
MADE = (
    ("The cat sat", "notes", "one"),
    ("the  CAT sat ", "notes", "random"),
    ("A dog saw the cat and the dog", "notes", "one"),
    ("Nobody knows", "notes", "random"),
    (BANK, "features", "by-hand"),
    (IT, "features", "one"),
    ("Our Zwölfzylindermotor, 自注意力机制是什么呢 🙂🙂🙂🙂🙂🙂🙂 x\u200by", "features", "random"),
    (BANK, "smollm2", "one"),
    (" ".join(f"blorp{n}" for n in range(20)), "smollm2", "random"),
)
WORDS = (
    "dog", "Dog.", "“Dog”", "café", "cafe\u0301", "CAFÉ", "naïve", "Straße", "ΣΊΣΥΦΟΣ", "猫",
    "「猫」", "River,", "the", "Bank", "It", "constructor", "__proto__", "🙂", "👩\u200d🚀", "…",
    "--", "don't", "x" * 55, "x" * 56, "x" * 64, "長い" * 100, "हिन्दी", "0", "",
    *(f"word{n}" for n in range(40)),
)  # fmt: skip
SEEDS = (0, 7, 2**31, 2**32, 10**18 - 1)
ANSWERS = ("Q", "K", "V", "scores", "scaled", "weights", "output")


def vectors() -> dict[str, Any]:
    """Everything, by name."""
    return {
        "python": sys.executable,
        "lessons": {name: _lesson(make_lesson(asked)) for name, asked in LESSONS.items()},
        "next": [_next(make_lesson(asked)) for asked in NEXT],
        "palette": palette().tolist(),
        "light": [is_light(code) for code in range(len(palette()))],
        "codes": _codes(),
        "rows": _rows(),
        "gradients": _gradients(),
        "temperature": _temperature(),
        "quantiles": _quantiles(),
        "gradings": _gradings(),
        "cells": [_cell(text) for text in CELLS],
        "made": [_made(*asked) for asked in MADE],
        "words": [_word(word) for word in WORDS],
        "random_projections": [_drawn(seed, heads) for seed in SEEDS for heads in (1, 2)],
    }


def _lesson(lesson: Lesson) -> dict[str, Any]:
    return {"data": lesson_data(lesson), "worked": lesson.as_dict()}


def _next(lesson: Lesson) -> dict[str, Any]:
    """The vocabulary and the hidden state that the next word follows from, and what follows."""
    known = vocabulary(lesson.options.vectors).words
    words, rows = vocabulary_of(lesson.sentence.tokens, lesson.embedding.words, known)
    assert lesson.next is not None and lesson.block is not None
    assert tuple(words) == lesson.next.words
    start = {"hidden": lesson.block.output[-1].tolist(), "embeddings": rows.tolist()}
    return start | lesson.next.as_dict()


def _made(sentence: str, vectors: str, heads: str) -> dict[str, Any]:
    """What the page is to make of a sentence by itself."""
    spec = {"one": "identity", "by-hand": "by-hand", "random": f"random:{PAGE_SEED}"}[heads]
    count = 2 if heads == "random" else None
    options = Options(sentence, vectors=vectors, projections=spec, heads=count)
    data = lesson_data(make_lesson(options))
    for same in ("real", "next_words", "exercises", "languages", "vocabularies", "head_sources"):
        del data[same]
    return {"asked": {"sentence": sentence, "vectors": vectors, "heads": heads}, "data": data}


def _word(word: str) -> dict[str, Any]:
    """A word's vector in every vocabulary."""
    known = {one.name: one for one in (notes(), features(), smollm2())}
    return {
        "word": word,
        "bare": bare(word),
        "vectors": {name: one.vector(word).tolist() for name, one in known.items()},
        "made_up": {name: word not in one for name, one in known.items()},
    }


def _drawn(seed: int, heads: int) -> dict[str, Any]:
    """Seeds as text: the largest are beyond what a number of JavaScript holds."""
    drawn = random_projections(settle(8, heads=heads), seed, w_o=True)
    return {
        "seed": str(seed),
        "heads": [{n: getattr(h, n).tolist() for n in ("w_q", "w_k", "w_v")} for h in drawn.heads],
        "w_o": None if drawn.w_o is None else drawn.w_o.tolist(),
    }


def _codes() -> dict[str, Any]:
    times = np.concatenate([[0.0, 1e-9], np.geomspace(0.05, 200, 97), [1e9]])
    shares = np.linspace(-0.1, 1.1, 61)
    return {
        "times": times.tolist(),
        "tile_codes": encode_times(times[None], np.zeros((1, times.size), bool)).codes[0].tolist(),
        "time_shares": TIMES_UNIFORM.shares(times).tolist(),
        "low": TIMES_UNIFORM.low,
        "high": TIMES_UNIFORM.high,
        "shares": shares.tolist(),
        "codes": codes(shares).tolist(),
    }


def _rows() -> list[dict[str, Any]]:
    """Single rows of scores, from even to saturated, with what is said about their weights."""
    rng = np.random.default_rng(3)
    cases = [np.zeros(4), np.array([6.0, 4.0]), np.array([40.0, 0, -3]), np.array([2.0])]
    cases += [rng.standard_normal(n) * size for n in (3, 16) for size in (0.1, 1, 8, 32)]
    return [_row(scores) for scores in cases]


def _row(scores: Array) -> dict[str, Any]:
    weights = softmax(scores[None])[0]
    jacobian = np.diag(weights) - np.outer(weights, weights)
    kept = weights[weights > 0]
    return {
        "scores": scores.tolist(),
        "weights": weights.tolist(),
        "entropy": float(-(kept * np.log(kept)).sum()),
        "jacobian_norm": float(np.linalg.norm(jacobian)),
    }


def _gradients() -> list[dict[str, Any]]:
    """gradient_at_query, for scores as they are and divided."""
    found = []
    for d_k in (1, 4, 64, 512):
        rng = np.random.default_rng(d_k)
        queries, keys = rng.standard_normal((3, d_k)), rng.standard_normal((8, d_k))
        upstream = rng.standard_normal((3, 8))
        for factor in (1.0, d_k**-0.5):
            scores = factor * (queries @ keys.T)
            gradient, weights = gradient_at_query(scores, upstream, keys, factor)
            found.append(
                {
                    "scores": scores.tolist(),
                    "upstream": upstream.tolist(),
                    "keys": keys.tolist(),
                    "factor": factor,
                    "gradient": gradient.tolist(),
                    "weights": weights.tolist(),
                }
            )
    return found


def gradient_at_query(x: Array, upstream: Array, keys: Array, factor: float) -> tuple[Array, Array]:
    """∂L/∂q for scores x = factor · q Kᵀ and g = ∂L/∂weights; and the weights p.

        ∂L/∂q = factor · Kᵀ (diag(p) − p pᵀ) g

    The Jacobian of softmax ignores a constant added to g. Taking g's value at the largest weight
    off first keeps what is left of a saturated row, which 1 − p ≈ 0 would round away.
    """
    weights = softmax(x)
    peak = weights.argmax(axis=-1)[..., None]
    g = upstream - np.take_along_axis(upstream, peak, axis=-1)
    at_scores = weights * (g - (weights * g).sum(axis=-1, keepdims=True))
    return factor * (at_scores @ keys), weights


def _temperature() -> list[dict[str, Any]]:
    """The first note's [6, 4], as it is and divided by √4: weights and ∂weight₁/∂(q·k₁)."""
    raw = score(np.array([[2.0, 3, 4, 1]]), np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]]))
    found = []
    for scores, factor in ((raw, 1.0), (scale(raw, 0.5), 0.5)):
        first, second = softmax(scores)[0].tolist()
        slope = factor * first * second
        found.append({"scores": scores[0].tolist(), "weights": [first, second], "slope": slope})
    return found


def _quantiles() -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    samples = [rng.standard_normal(n) for n in (1, 2, 100, 512)]
    return [
        {
            "sample": sample.tolist(),
            "median": float(np.median(sample)),
            "p99": float(np.quantile(sample, 0.99)),
        }
        for sample in samples
    ]


def _gradings() -> list[dict[str, Any]]:
    """Hand calculations: the key, and the key with slips that later steps follow or do not."""
    found = []
    for seed in EXERCISES:
        key = parse_submission(exercise_key(seed))
        for name, texts in _attempts(key).items():
            found.append({"seed": seed, "name": name, "cells": texts} | _judged(key, texts))
    return found


def _cell(text: str) -> dict[str, Any]:
    """How one cell is read: null where it is no number, a value of null where it is blank."""
    try:
        value, unit = read_number(text)
    except InputError:
        return {"text": text, "read": None}
    whole = np.isnan(unit)
    return {
        "text": text,
        "read": {"value": None if np.isnan(value) else value, "unit": None if whole else unit},
    }


def _attempts(key: Submission) -> dict[str, dict[str, list[list[str]]]]:
    """Cells as a learner types them, by step."""

    def printed(change: Any) -> dict[str, list[list[str]]]:
        return {
            step: [
                [change(step, r, c, float(v)) for c, v in enumerate(row)]
                for r, row in enumerate(key.steps[step].values)
            ]
            for step in ANSWERS
        }

    def cut(v: float) -> str:
        return f"{np.trunc(v * 100 + np.sign(v) * 1e-9) / 100:.2f}"

    return {
        "four decimals": printed(lambda s, r, c, v: f"{v:.4f}"),
        "cut to two": printed(lambda s, r, c, v: cut(v)),
        "as short as they are": printed(lambda s, r, c, v: f"{v:g}"),
        "one row": printed(lambda s, r, c, v: f"{v:.3f}" if r == 1 else ""),
        "a half as a fraction": printed(
            lambda s, r, c, v: f"{round(v * 2)}/2" if s == "scaled" else f"{v:.4f}"
        ),
        "a wrong key": printed(lambda s, r, c, v: f"{v + (s == 'K' and (r, c) == (1, 0)):.4f}"),
        "weights not normalised": printed(
            lambda s, r, c, v: f"{v * (1 + (s == 'weights' and r == 0)):.4f}"
        ),
        "a unit off, two units off": printed(
            lambda s, r, c, v: f"{v + 1e-4 * (s == 'weights') * (1 + c):.4f}"
        ),
        **_hidden(key),
        "percentages": printed(
            lambda s, r, c, v: f"{100 * v:.2f} %" if s == "weights" else f"{v:.4f}"
        ),
        "decimal commas": printed(lambda s, r, c, v: f"{v:.4f}".replace(".", ",")),
        "minus and blanks": printed(
            lambda s, r, c, v: "?" if (r + c) % 2 else f"{v:.2f}".replace("-", "−")
        ),
    }


def _hidden(key: Submission) -> dict[str, dict[str, list[list[str]]]]:
    """Steps left blank and rounded before going on; in the last a slip follows them."""
    given = {step: key.steps[step].values for step in ("Q", "K", "V", "scores")}
    root = np.sqrt(given["K"].shape[1])
    found = {}
    for name, places, shown in (
        ("scaled hidden, two places", 2, ("weights", "output")),
        ("scaled and weights hidden", 2, ("output",)),
        ("weights hidden, three places", 3, ("scaled", "output")),
        ("exponentials rounded", 2, ("scaled", "weights")),
        ("a slip behind hidden steps", 2, ("output",)),
    ):
        scaled = np.round(given["scores"] / root, places)
        e = np.exp(scaled)
        e = np.round(e, places) if name == "exponentials rounded" and e.min() > 0.1 else e
        weights = e / e.sum(axis=1, keepdims=True)
        output = np.round(weights, places) @ given["V"] + (name.startswith("a slip")) * 0.5
        steps = {"scaled": scaled, "weights": weights, "output": output}
        texts = {s: [[f"{v:g}" for v in row] for row in m] for s, m in given.items()}
        for step, matrix in steps.items():
            texts[step] = [[f"{v:.4f}" if step in shown else "" for v in row] for row in matrix]
        found[name] = texts
    return found


def _judged(key: Submission, texts: dict[str, list[list[str]]]) -> dict[str, Any]:
    task = {name: key.steps[name].values.tolist() for name in key.steps if name not in ANSWERS}
    document = {"tokens": list(key.tokens), **task, **texts}
    judged = mark(parse_submission(json.dumps(document), as_json=True))
    return {"steps": {step.step: _step(step) for step in judged.steps if step.step in ANSWERS},
            "first_wrong": _first(judged)}  # fmt: skip


def _step(step: Any) -> dict[str, Any]:
    return {
        "units": step.printed.units.tolist(),
        "value": step.right.value.tolist(),
        "low": step.right.low.tolist(),
        "high": step.right.high.tolist(),
        "wrong": step.wrong.tolist(),
    }


def _first(judged: Mark) -> str | None:
    return judged.first_wrong.step if judged.first_wrong else None


def main(arguments: list[str]) -> int:
    """Write them; the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python tools/page_vectors.py FILE\n")
        return 2
    Path(arguments[0]).write_text(json.dumps(vectors(), allow_nan=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
