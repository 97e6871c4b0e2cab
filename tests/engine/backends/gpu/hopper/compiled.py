"""Compiles the kernel for sm_90, which needs no GPU, and says what became of it; a child process,
because Triton decides on import whether it compiles.

    python compiled.py <variant>        one JSON object
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import create_function_from_signature

import regard
from regard.engine import api
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.forward import new_found
from regard.engine.backends.gpu.hopper.forward import arguments
from regard.engine.backends.gpu.hopper.kernel import attention

TARGET = GPUTarget("cuda", 90, 32)
SIX = {"entropy", "raw", "logit", "squares", "away", "visible"}
VARIANTS: dict[str, dict[str, Any]] = {
    "causal": {"mask": regard.Causal(), "names": {"entropy", "raw", "squares"}},
    "narrow": {"dim": 64, "dtype": torch.float16, "names": {"entropy", "raw", "squares"}},
    "no output": {
        "output": False, "names": {"entropy"}, "mask": regard.Padding([7]), "maxima": True,
    },
    "everything": {
        "dim": 64, "mask": regard.Window(100) & regard.Padding([7]), "names": SIX, "sink": True,
        "given": True, "maxima": True,
    },
}  # fmt: skip


def words(
    dim: int = 128, dtype: torch.dtype = torch.bfloat16, mask: Any = None, names: Any = (),
    output: bool = True, sink: bool = False, given: bool = False, maxima: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """A launch over 130 queries and 300 keys, grouped."""
    query, key = torch.zeros(1, 4, 130, dim, dtype=dtype), torch.zeros(1, 2, 300, dim, dtype=dtype)
    level = torch.zeros(4) if sink else None
    bound = bind(api._call(query, key, key, mask, None, None, None, level, 0.0))
    found = new_found(bound, output, set(names))
    spans = None if bound.rule.low is None else torch.zeros(1, 2, 4, dtype=torch.int32)
    best = bound.new(5, 128) if maxima else None
    told, constants = arguments(bound, found, found.state if given else None, best, spans, 0, 128)
    return dict(zip(attention.arg_names, told, strict=False)) | constants


def compiled(launch: dict[str, Any]) -> Any:
    """As a launch on a Hopper GPU would compile it."""
    backend = make_backend(TARGET)
    binder = create_function_from_signature(attention.signature, attention.params, backend)
    bound, kinds, given = binder(**launch)
    options, signature, constants, attributes = attention._pack_args(
        backend, given, bound, kinds, given
    )
    source = GluonASTSource(attention, signature, constants, attributes)
    return triton.compile(source, target=TARGET, options=options.__dict__)


def inner_loops(listing: str) -> list[Counter[str]]:
    """How often each instruction stands in a loop that multiplies and holds no other loop."""
    line = r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(\S+)(.*?);"
    found = re.findall(line, listing, re.MULTILINE)
    places = {int(at, 16): n for n, (at, _, _) in enumerate(found)}
    loops = []
    for n, (_, name, rest) in enumerate(found):
        to = re.search(r"0x([0-9a-f]+)", rest) if name.startswith("BRA") else None
        if to is not None and places.get(int(to[1], 16), n + 1) <= n:
            loops.append(range(places[int(to[1], 16)], n + 1))
    inner = [
        one for one in loops
        if not any(o != one and one.start <= o.start and o.stop <= one.stop for o in loops)
    ]  # fmt: skip
    counts = [Counter(found[n][1].partition(".")[0] for n in loop) for loop in inner]
    return [count for count in counts if count["HGMMA"]]


def main(variant: str) -> None:
    kernel = compiled(words(**VARIANTS[variant]))
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(kernel.asm["ptx"])
        binary.write_bytes(kernel.asm["cubin"])
        assembler = [get_ptxas(90).path, "-v", "--gpu-name=sm_90a", str(text), "-o", "/dev/null"]
        said = subprocess.run(assembler, capture_output=True, text=True, check=True)
        lister = [knobs.nvidia.cuobjdump.path, "-sass", str(binary)]
        listing = subprocess.run(lister, capture_output=True, text=True, check=True).stdout
    print(json.dumps({
        "said": said.stdout + said.stderr,
        "products": kernel.asm["ptx"].count("wgmma.mma_async"),
        "copies": kernel.asm["ptx"].count("cp.async.bulk.tensor"),
        "shared": kernel.metadata.shared,
        "loops": inner_loops(listing),
    }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
