"""Projections out of a JSON file, checked against the width of the embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.arrays import Array
from regard.errors import InputError, ShapeError
from regard.learn.languages import Phrase
from regard.learn.lesson.numbers import as_matrix, read_json
from regard.learn.lesson.projections import Projections, Triple
from regard.learn.text import listed, printable

_NAMES = ("w_q", "w_k", "w_v")


def read_projections(path: Path, width: int) -> Projections:
    """{"w_q": …, "w_k": …, "w_v": …} or {"heads": [{…}, …]}, either with an optional "w_o"."""
    where = f"--projections {printable(str(path))}"
    given = read_json(path, "--projections")
    if not isinstance(given, dict):
        raise InputError(f'{where}: not an object; give {{"w_q": [[…]], "w_k": …, "w_v": …}}')
    triples = _heads(given, where)
    for h, triple in enumerate(triples):
        _check(triple, triples[0], width, where, f"head {h + 1}: " if len(triples) > 1 else "")
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


def _check(triple: Triple, first: Triple, width: int, where: str, prefix: str) -> None:
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
