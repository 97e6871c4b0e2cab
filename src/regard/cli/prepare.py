"""`regard prepare`: GPU kernels compiled before somebody waits for them."""

from __future__ import annotations

from typing import Annotated

import typer


def prepare(
    dims: Annotated[str, typer.Option(help="Comma-separated head dimensions.")] = "64,128",
    dtypes: Annotated[str, typer.Option(help="bfloat16, float16, float32.")] = "bfloat16",
    masks: Annotated[str, typer.Option(help="none, causal, window, lengths.")] = "none,causal",
    training: Annotated[bool, typer.Option("--training", help="Gradients too.")] = False,
) -> None:
    """Compile the GPU kernels for head sizes, dtypes and masks ahead of their first use.

    Triton compiles a kernel when it is first launched and keeps it on disk; a first call otherwise
    waits some seconds for it. Run it once per machine, or while building an image.
    """
    import time

    from regard.cli.bench import numbers
    from regard.cli.terminal import status, write
    from regard.engine.backends.gpu.sweeps import TRITON
    from regard.errors import UnavailableError

    why = TRITON.unavailable()
    if why:
        raise UnavailableError(f"there are no GPU kernels to compile here: {'; '.join(why)}")
    from regard.engine.backends.gpu.ahead import compile_kind, kinds

    every = kinds(numbers(dims, "--dims"), dtypes.split(","), masks.split(","))
    start, total = time.perf_counter(), 0
    for n, kind in enumerate(every):
        status().print(f"[{n + 1}/{len(every)}] {kind}", markup=False)
        total += compile_kind(kind, training)
    write(f"{total} kernels ready, {time.perf_counter() - start:.0f} s")
