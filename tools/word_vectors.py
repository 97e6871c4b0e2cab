"""Writes src/regard/learn/lesson/smollm2_words.json: a real model's words as 8 numbers.

python tools/word_vectors.py    fetches SmolLM2-135M once (as `regard models` does)

The embeddings have 576 numbers. Their principal components hold little of what words mean: the
first is how frequent a word is, the next seven hold 5 % of the variance and give "river" the
neighbours "son, solar, horse". So the eight directions are chosen with labels: those along which
the groups of words in features.json lie farthest apart, measured in the spread inside groups
(linear discriminants; a 0 in a group's name sets it apart here and changes no feature). They are
directions of the model's own space; all other words fall where they do.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from regard.arrays import Array
from regard.models import load

FOLDER = Path(__file__).resolve().parents[1] / "src" / "regard" / "learn" / "lesson"
FREQUENT: Final = 2500  # tokens are numbered by how frequent they are
WIDTH: Final = 8
LENGTH: Final = 2.5  # of every vector: q·k / √8 reaches 2.2, so no row of weights is saturated
PER_UNIT: Final = 10  # one decimal, as made-up vectors have
SHRINKAGE: Final = 3.0  # of the spread inside groups towards a ball: 150 words, 576 dimensions
SMALLEST_GROUP: Final = 4
BEGINNINGS: Final = ("The", "They will", "It is very")
ENDS_A_WORD: Final = 0.6  # probability that a blank or a mark follows


def made() -> dict[str, Any]:
    """The file's content."""
    loaded = load("smollm2")
    groups = [words.split() for name, words in _features()["words"].items() if name]
    ids = _whole_words(loaded, _features()["words"].values())
    rows = loaded.model.get_input_embeddings().weight.detach().float().numpy()
    words = list(ids)
    embeddings = rows[list(ids.values())].astype(np.float64)
    x = unit(without_frequency(embeddings))
    numbered = {word: n for n, word in enumerate(words)}
    chosen = [[numbered[w] for w in group if w in numbered] for group in groups]
    seen = x @ directions(x, [group for group in chosen if len(group) >= SMALLEST_GROUP])
    seen -= seen.mean(axis=0)
    whole = np.rint(PER_UNIT * LENGTH * unit(seen / seen.std(axis=0))).astype(np.int8)
    return {
        "count": len(words),
        "wide": rows.shape[1],
        "percent": round(100 * _share(embeddings, whole / PER_UNIT), 1),
        "per_unit": PER_UNIT,
        "words": " ".join(words),
        "numbers": base64.b64encode(whole.tobytes()).decode(),
    }


def _features() -> dict[str, Any]:
    given: dict[str, Any] = json.loads((FOLDER / "features.json").read_text(encoding="utf-8"))
    return given


def _whole_words(loaded: Any, wanted: Any) -> dict[str, int]:
    """Word → token: the most frequent ones that are whole words, and those of the features."""
    tokens = loaded.tokenizer.convert_ids_to_tokens(range(len(loaded.tokenizer)))
    found = {t: n for n, t in enumerate(tokens) if t.startswith("Ġ")}
    plain = {t[1:]: n for t, n in found.items() if t[1:].isascii() and t[1:].isalpha()}
    frequent = [w for w in plain if w.islower()][: 2 * FREQUENT]
    ends = _chance_of_an_end(loaded, [plain[w] for w in frequent], tokens)
    words = {w: plain[w] for w, p in zip(frequent, ends, strict=True) if p > ENDS_A_WORD}
    words = dict(list(words.items())[:FREQUENT])
    for word in " ".join(wanted).split():
        token = plain.get(word, plain.get(word.capitalize()))
        if token is not None:
            words.setdefault(word, token)
    return words


def _chance_of_an_end(loaded: Any, ids: list[int], tokens: list[str]) -> list[float]:
    """Of each token, after a few common beginnings: how probable it is that the word ends there."""
    ends = torch.tensor([(t is not None and not t[:1].isalpha()) or t[:1] == "Ġ" for t in tokens])
    mean = np.zeros(len(ids))
    for beginning in BEGINNINGS:
        before = loaded.tokenizer(beginning).input_ids
        for start in range(0, len(ids), 500):
            part = torch.tensor([[*before, n] for n in ids[start : start + 500]])
            with torch.no_grad():
                chances = loaded.model(part).logits[:, -1].softmax(-1)
            mean[start : start + 500] += chances[:, ends].sum(-1).numpy() / len(BEGINNINGS)
    return mean.tolist()


def without_frequency(x: Array) -> Array:
    """Rows about their mean, without their first principal component: how frequent words are."""
    centred = x - x.mean(axis=0)
    first = np.linalg.svd(centred, full_matrices=False)[2][:1]
    return centred - (centred @ first.T) @ first


def unit(x: Array) -> Array:
    """Rows of length 1, so that no direction belongs to a few long ones."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def directions(x: Array, groups: list[list[int]]) -> Array:
    """(576, WIDTH): the linear discriminants of the groups."""
    members = np.concatenate([x[group] for group in groups])
    inside = sum((x[g] - x[g].mean(0)).T @ (x[g] - x[g].mean(0)) for g in groups) / len(members)
    ball = SHRINKAGE * np.trace(inside) / len(inside) * np.eye(len(inside))
    whitening = np.linalg.cholesky(np.linalg.inv(inside + ball))
    means = np.stack([len(g) ** 0.5 * (x[g].mean(0) - members.mean(0)) for g in groups])
    best: Array = whitening @ np.linalg.svd(means @ whitening, full_matrices=False)[2][:WIDTH].T
    return best


def _share(embeddings: Array, kept: Array) -> float:
    """How much of the variance of the embeddings a linear function of the kept numbers tells."""
    centred = embeddings - embeddings.mean(axis=0)
    basis = np.linalg.qr(kept - kept.mean(axis=0))[0]
    return float(((basis.T @ centred) ** 2).sum() / (centred**2).sum())


if __name__ == "__main__":
    text = json.dumps(made(), indent=1)
    (FOLDER / "smollm2_words.json").write_text(text + "\n", encoding="utf-8")
