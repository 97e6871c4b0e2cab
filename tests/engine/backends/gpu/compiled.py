"""Compiles the kernels that prune for sm_90, which needs no GPU, and reads what became of their
loops; a child process, because Triton decides on import whether it compiles.

    python compiled.py <head dim> <queries>     one JSON object: by kernel,
        "carried"   types of the vectors that a loop passes on to its next turn
        "frozen"    what is computed twice in a loop, of things that move with it and of things
                    that do not: one source line has one meaning, so one of the two is wrong. (What
                    is fetched ahead stands before the loop too, for its first turn.)
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

import regard
from regard.engine import api
from regard.engine.backends.gpu import prune, wanted
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.launch import blocks
from regard.engine.call import RowState

TARGET = GPUTarget("cuda", 90, 32)
# with two operands that broadcast, one line is two of these
RESHAPING = {"tt.broadcast", "tt.expand_dims", "tt.splat", "tt.addptr", "arith.extsi"}
VALUE = re.compile(r"%\w+")


def compiled(kernel: JITFunction[Any], *args: Any, **options: Any) -> Any:
    """As a launch on a Hopper GPU would compile it."""
    backend = make_backend(TARGET)
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, kinds, given = binder(*args, debug=False, **options)
    made, signature, constants, attributes = kernel._pack_args(
        backend, options, bound, kinds, given
    )
    source = ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, target=TARGET, options=made.__dict__)


def listings(dim: int, queries: int) -> dict[str, str]:
    """The middle layer of every kernel that some rows' best keys take."""
    found: dict[str, str] = {}

    def run(kernel: JITFunction[Any], grid: Any, *args: Any, **options: Any) -> None:
        found[kernel.__name__] = compiled(kernel, *args, **options).asm["ttgir"]

    prune.run = wanted.run = run
    query, key = (torch.zeros(1, 2, n, dim, dtype=torch.bfloat16) for n in (queries, 2100))
    bound = bind(api._call(query, key, key, regard.Causal(), None, None, None, None, 0.0))
    pruner = prune.Pruner(bound, 8)
    maxima = bound.new(blocks(2100, 64), pruner.tall)
    pruner.see(maxima, 0, RowState(bound.new(queries), bound.new(queries)))
    return found


def carried(text: str) -> list[str]:
    """Types of all vectors that loops pass on."""
    loops = re.findall(r"scf\.for .* iter_args\(.*?\) -> \((.*)\)\s+:", text)
    return sorted({kind for loop in loops for kind in re.findall(r"tensor<([^,>]*)", loop)})


def _places(text: str) -> dict[str, str]:
    """Names of places in the source → the places, callers and all."""
    named = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))

    def place(name: str) -> str:
        return re.sub(r"#loc\d*", lambda inner: place(inner[0]), named.get(name, "?"))

    return {name: place(name) for name in named}


def frozen(text: str) -> list[str]:
    """Places whose copies differ in the loops that they move with."""
    places, moves = _places(text), defaultdict[str, frozenset[int]](frozenset)
    copies = defaultdict[tuple[str, str, int], set[frozenset[int]]](set)
    regions: list[tuple[int, list[str], set[int]]] = []  # (loop or 0, results, what these follow)
    for number, line in enumerate(text.splitlines(), 1):
        body, _, behind = line.strip().partition(" loc(")
        left, equals, right = body.partition(" = ")
        if not VALUE.match(left):
            left, equals, right = "", "", body
        results, kind = VALUE.findall(left), right.split(" ")[0]
        follows = frozenset[int]().union(*(moves[name] for name in VALUE.findall(right)))
        if body.startswith("}") and body.endswith("{"):  # else, do
            continue
        if body.startswith("}") and regions:
            loop, results, gathered = regions.pop()
            moves.update(dict.fromkeys(results, frozenset(gathered - {loop})))
            continue
        if kind == "scf.for":
            header = right.partition(" -> ")[0]
            inner = [header.split(" ")[1], *re.findall(r"[(\s](%\w+) = %", header)[1:]]
            moves.update(dict.fromkeys(inner, follows | {number}))
        elif kind == "scf.yield" and regions:
            regions[-1][2].update(follows)
        elif equals and kind not in RESHAPING | {"arith.constant", "ttg.convert_layout"}:
            within = next((loop for loop, _, _ in reversed(regions) if loop), 0)
            copies[kind, places.get(behind.rstrip(")"), ""), within].add(follows)
        moves.update(dict.fromkeys(results, follows))
        if body.endswith("{"):
            regions.append((number if kind == "scf.for" else 0, results, set(follows)))
    return [
        f"{kind} {place}" for (kind, place, _), found in copies.items() if place and len(found) > 1
    ]


def main(dim: int, queries: int) -> None:
    made = listings(dim, queries)
    told = {name: {"carried": carried(text), "frozen": frozen(text)} for name, text in made.items()}
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
