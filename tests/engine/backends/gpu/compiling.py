"""Compiles what a sweep launches for some GPU, without one, and reads what became of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
from triton.runtime.jit import JITFunction, create_function_from_signature

from regard.engine import api
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.call import Call

__all__ = [
    "assembled",
    "bound_of",
    "call_of",
    "carried",
    "collecting",
    "compiled",
    "inner_loops",
    "spilled",
]


def call_of(
    dim: int, dtype: torch.dtype, queries: int, keys: int, mask: Any = None, bias: Any = None,
    sink: Any = None,
) -> Call:  # fmt: skip
    """A batch of two, two query heads a key head."""
    query, key = (
        torch.zeros(2, heads, n, dim, dtype=dtype) for heads, n in ((4, queries), (2, keys))
    )
    return api._call(query, key, key, mask, None, bias, None, sink, 0.0)


def bound_of(*given: Any, **rule: Any) -> Bound:
    return bind(call_of(*given, **rule))


def compiled(kernel: JITFunction[Any], *args: Any, capability: int = 90, **options: Any) -> Any:
    """As a launch on such a GPU would compile it."""
    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, kinds, given = binder(*args, debug=False, **options)
    made, signature, constants, attributes = kernel._pack_args(
        backend, options, bound, kinds, given
    )
    source = GluonASTSource if isinstance(kernel, GluonJITFunction) else ASTSource
    return triton.compile(
        source(kernel, signature, constants, attributes), target=target, options=made.__dict__
    )


@contextmanager
def collecting(*pages: ModuleType, capability: int = 90) -> Iterator[dict[str, Any]]:
    """What these modules launch is compiled instead, by the kernel's name."""
    kernels: dict[str, Any] = {}

    def run(kernel: Any, grid: Any, *args: Any, **constants: Any) -> None:
        kernels[kernel.__name__] = compiled(kernel, *args, capability=capability, **constants)

    with ExitStack() as stack:
        for page in pages:
            stack.enter_context(patch.object(page, "run", run))
        yield kernels


# ── the assembler's ──────────────────────────────────────────────────────────────────────────


def assembled(kernel: Any, *options: str) -> str:
    """What ptxas says of it."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(kernel.asm["ptx"])
        file.flush()
        command = [get_ptxas(90).path, "-v", "--gpu-name=sm_90a", *options, file.name]
        run = subprocess.run(
            [*command, "-o", "/dev/null"], capture_output=True, text=True, check=True
        )
    return run.stdout + run.stderr


def spilled(kernel: Any) -> int:
    """Bytes that did not fit into registers."""
    log = assembled(kernel, "--fmad=false")
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))


def inner_loops(kernel: Any) -> list[Counter[str]]:
    """How often each instruction stands in a loop that multiplies and holds no other loop."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        binary.write_bytes(kernel.asm["cubin"])
        lister = [knobs.nvidia.cuobjdump.path, "-sass", str(binary)]
        listing = subprocess.run(lister, capture_output=True, text=True, check=True).stdout
    line = r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(\S+)(.*?);"
    lines = re.findall(line, listing, re.MULTILINE)
    places = {int(at, 16): n for n, (at, _, _) in enumerate(lines)}
    loops = []
    for n, (_, name, rest) in enumerate(lines):
        to = re.search(r"0x([0-9a-f]+)", rest) if name.startswith("BRA") else None
        if to is not None and places.get(int(to[1], 16), n + 1) <= n:
            loops.append(range(places[int(to[1], 16)], n + 1))
    inner = [
        loop for loop in loops
        if not any(o != loop and loop.start <= o.start and o.stop <= loop.stop for o in loops)
    ]  # fmt: skip
    counts = [Counter(lines[n][1].partition(".")[0] for n in loop) for loop in inner]
    return [count for count in counts if count["HGMMA"]]


# ── the middle layer's ───────────────────────────────────────────────────────────────────────


def carried(text: str) -> list[str]:
    """Types of the vectors that a loop passes on to its next turn."""
    loops = re.findall(r"scf\.for .* iter_args\(.*?\) -> \((.*)\)\s+:", text)
    return sorted({kind for loop in loops for kind in re.findall(r"tensor<([^,>]*)", loop)})
