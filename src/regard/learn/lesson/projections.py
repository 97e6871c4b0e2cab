"""w_q, w_k, w_v of every head, and w_o: the identity, random numbers, by hand, from a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError, ShapeError
from regard.learn.languages import Phrase
from regard.learn.lesson.embeddings import features
from regard.learn.lesson.numbers import as_matrix, draws, read_json
from regard.learn.text import listed, printable, quoted

_MOST_HEADS = 64
_MOST_DIMS = 1024


@dataclass(frozen=True)
class Sizes:
    """Width of the input, number of heads, and each head's widths."""

    width: int
    heads: int
    d_k: int
    d_v: int

    @property
    def concat(self) -> int:
        """Width of all heads' outputs side by side."""
        return self.heads * self.d_v


@dataclass(frozen=True)
class Triple:
    """The three projections of one head."""

    w_q: Array  # (width, d_k)
    w_k: Array  # (width, d_k)
    w_v: Array  # (width, d_v)


@dataclass(frozen=True)
class Projections:
    """All heads' projections, w_o where there is one, and a sentence on where they come from."""

    heads: tuple[Triple, ...]
    w_o: Array | None  # (heads · d_v, width)
    source: Phrase
    seed: int = 0  # for what is made up after them
    b_o: Array | None = None  # (width,), added after concat @ w_o

    @property
    def sizes(self) -> Sizes:
        """The widths these matrices have."""
        (width, d_k), d_v = self.heads[0].w_q.shape, self.heads[0].w_v.shape[1]
        return Sizes(width, len(self.heads), d_k, d_v)


def settle(
    width: int, *, heads: int | None = None, d_k: int | None = None, d_v: int | None = None
) -> Sizes:
    """The sizes asked for; by default the heads share the width equally."""
    count = 1 if heads is None else heads
    _check("--heads", count, _MOST_HEADS)
    for name, given in (("--d-k", d_k), ("--d-v", d_v)):
        if given is not None:
            _check(name, given, _MOST_DIMS)
    if d_k is None and width % count:
        fits = [str(n) for n in range(1, min(width, _MOST_HEADS) + 1) if width % n == 0]
        raise ShapeError(
            f"--heads {count}: a width of {width} does not divide into {count} heads; "
            f"give {', '.join(fits)} heads, or --d-k"
        )
    share = width // count
    key = share if d_k is None else d_k
    value = (key if width % count else share) if d_v is None else d_v
    return Sizes(width, count, key, value)


def _check(option: str, given: int, most: int) -> None:
    if not 1 <= given <= most:
        raise InputError(f"{option} {given}: give a whole number from 1 to {most}")


def identity_projections(sizes: Sizes, *, w_o: bool) -> Projections:
    """Each head passes its own share of the dimensions through unchanged.

    The second half of several heads ask one dimension further than they are found by: where both
    halves of every vector are equal, as in the notes, the heads would otherwise be equal too.
    """
    triples = []
    for h in range(sizes.heads):
        found_by = _window(sizes.width, sizes.d_k, h)
        asks = _window(sizes.width, sizes.d_k, h, shift=int(2 * h >= sizes.heads > 1))
        triples.append(Triple(asks, found_by, _window(sizes.width, sizes.d_v, h)))
    out = np.eye(sizes.concat, sizes.width) if w_o else None
    return Projections(tuple(triples), out, _identity_words(sizes, w_o))


def random_projections(sizes: Sizes, seed: int, *, w_o: bool) -> Projections:
    """Numbers of deviation 1/√width, so that q, k and v are about as large as x."""

    def draw(head: int, which: int, rows: int, columns: int) -> Array:
        return draws([seed, head + 1, which], (rows, columns), spread=rows**-0.5)

    w, d_k, d_v = sizes.width, sizes.d_k, sizes.d_v
    triples = tuple(
        Triple(draw(h, 1, w, d_k), draw(h, 2, w, d_k), draw(h, 3, w, d_v))
        for h in range(sizes.heads)
    )
    out = draw(0, 4, sizes.concat, w) if w_o else None
    name = "origins.random_mixed" if w_o else "origins.random"
    return Projections(triples, out, Phrase(name, {"seed": seed}), seed)


def seed_in(spec: str) -> int | None:
    """The seed in 'random:SEED'; None where the text is not of that kind at all."""
    if not spec.startswith("random"):
        return None
    if not re.fullmatch(r"random:[0-9]{1,18}", spec):
        raise InputError(f"--projections {quoted(spec)}: give a seed ≥ 0 with it, as in random:7")
    return int(spec.removeprefix("random:"))


def _window(width: int, d: int, head: int, *, shift: int = 0) -> Array:
    """(width, d): head h passes d dimensions from h·d on; a rectangular identity for one head."""
    w = np.zeros((width, d))
    for column in range(min(d, width)):
        w[(head * d + column + shift) % width, column] = 1.0
    return w


def _identity_words(sizes: Sizes, w_o: bool) -> Phrase:
    """What 'the identity' means for these sizes, honestly."""
    equal = sizes.heads > 1 and sizes.concat == sizes.heads * sizes.d_k == sizes.width
    if equal:
        return Phrase("origins.identity_heads")
    if sizes.heads == 1 and sizes.d_k == sizes.d_v == sizes.width:
        return Phrase("origins.identity")
    parts = {
        "look": _fate("w_q = w_k", sizes.width, sizes.d_k),
        "give": _fate("w_v", sizes.width, sizes.d_v),
    }
    if not w_o:
        return Phrase("origins.identity_sizes", parts)
    mix = _fate("w_o", sizes.concat, sizes.width)
    several = "origins.identity_sizes_heads" if sizes.heads > 1 else "origins.identity_sizes_mixed"
    return Phrase(several, {**parts, "mix": mix})


def _fate(name: str, rows: int, columns: int) -> Phrase:
    sizes = {"name": name, "rows": rows, "columns": columns}
    if rows == columns:
        return Phrase("origins.is_identity", sizes)
    return Phrase("origins.is_cut" if columns < rows else "origins.is_padded", sizes)


def is_identity(w: Array) -> bool:
    """Whether a projection is square and changes nothing."""
    return w.shape[0] == w.shape[1] and np.array_equal(w, np.eye(w.shape[0]))


# Two different heads for the hand-made features, small enough to be explained number by number.
#
# Head 1, topic: a token asks for what it is about itself, so words of one topic find each other.
# Head 2, doer: an action asks for a person or an animal; these ask for an action too, but less, so
# that the score from one word to another is not the score back.
# Each writes what it found back into the columns of its features.
GAIN = 2.0  # of the queries: scores twice as large make clearer weights
BACK = 1.0  # the same, of those who ask for their action: half as strong
TOPIC = ("animal", "place", "water", "money")
ASKS = ("action", "action", "person", "animal")
STRENGTHS = (GAIN, GAIN, BACK, BACK)
IS_FOUND_BY = ("person", "animal", "action", "action")
GIVES = ("person", "animal", "action", "past")


def projections_by_hand() -> Projections:
    """Two heads of 4 dimensions each on 8 features, and w_o (8 × 8), which sorts them back."""
    topic, gives = _picks(TOPIC), _picks(GIVES)
    heads = (
        Triple(GAIN * topic, topic, topic),
        Triple(_picks(ASKS) * np.array(STRENGTHS), _picks(IS_FOUND_BY), gives),
    )
    return Projections(heads, np.vstack([topic.T, gives.T]), Phrase("vectors.heads_by_hand"))


def _picks(names: Sequence[str]) -> Array:
    """(features, len(names)): each column passes one feature through."""
    known = features().names or ()
    picked = np.zeros((len(known), len(names)))
    for column, name in enumerate(names):
        picked[known.index(name), column] = 1.0
    return picked


_NAMES = ("w_q", "w_k", "w_v")


def read_projections(path: Path, width: int) -> Projections:
    """{"w_q": …, "w_k": …, "w_v": …} or {"heads": [{…}, …]}, either with an optional "w_o"."""
    where = f"--projections {printable(str(path))}"
    given = read_json(path, "--projections")
    if not isinstance(given, dict):
        raise InputError(f'{where}: not an object; give {{"w_q": [[…]], "w_k": …, "w_v": …}}')
    triples = _heads(given, where)
    for h, triple in enumerate(triples):
        prefix = f"head {h + 1}: " if len(triples) > 1 else ""
        _check_triple(triple, triples[0], width, where, prefix)
    w_o = as_matrix(given["w_o"], f"{where}: w_o") if given.get("w_o") is not None else None
    _check_output(w_o, triples, where)
    source = Phrase("origins.projections_file", {"file": printable(path.name)})
    return Projections(triples, w_o, source)


def _heads(given: dict[str, Any], where: str) -> tuple[Triple, ...]:
    if "heads" not in given:
        return (_triple(given, where, ""),)
    heads = given["heads"]
    if not isinstance(heads, list) or not heads or not all(isinstance(h, dict) for h in heads):
        raise InputError(f'{where}: "heads" is not a list of objects; give [{{"w_q": [[…]], …}}]')
    return tuple(_triple(head, where, f"head {h + 1}: ") for h, head in enumerate(heads))


def _triple(given: dict[str, Any], where: str, prefix: str) -> Triple:
    if missing := [name for name in _NAMES if name not in given]:
        has = listed([printable(key) for key in given]) or "nothing"
        raise InputError(f"{where}: {prefix}{listed(missing)} missing, the object has {has}")
    w_q, w_k, w_v = (as_matrix(given[name], f"{where}: {prefix}{name}") for name in _NAMES)
    return Triple(w_q, w_k, w_v)


def _check_triple(triple: Triple, first: Triple, width: int, where: str, prefix: str) -> None:
    """x @ w must multiply, and queries must meet keys of their own width."""
    for name in _NAMES:
        w: Array = getattr(triple, name)
        if w.shape[0] != width:
            raise ShapeError(
                f"{where}: {prefix}x (tokens × {width}) @ {name} ({_by(w)}) does not multiply; "
                f"give {name} {width} rows"
            )
        if w.shape != getattr(first, name).shape:
            raise ShapeError(
                f"{where}: {prefix}{name} is {_by(w)} and head 1's is "
                f"{_by(getattr(first, name))}; give all heads the same sizes"
            )
    if triple.w_q.shape != triple.w_k.shape:
        raise ShapeError(
            f"{where}: {prefix}w_q is {_by(triple.w_q)} and w_k is {_by(triple.w_k)}, so a query "
            "cannot meet a key; give both the same number of columns"
        )


def _check_output(w_o: Array | None, triples: tuple[Triple, ...], where: str) -> None:
    concat = len(triples) * triples[0].w_v.shape[1]
    if w_o is None and len(triples) > 1:
        raise InputError(f"{where}: {len(triples)} heads need w_o; give it {concat} rows")
    if w_o is not None and w_o.shape[0] != concat:
        raise ShapeError(
            f"{where}: the heads' outputs (tokens × {concat}) @ w_o ({_by(w_o)}) does not "
            f"multiply; give w_o {concat} rows"
        )


def _by(matrix: Array) -> str:
    return f"{matrix.shape[0]} × {matrix.shape[1]}"
