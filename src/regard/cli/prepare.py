"""`regard prepare`: GPU kernels compiled ahead of their first use."""

from __future__ import annotations

from typing import Annotated

import typer


def prepare(
    dims: Annotated[str, typer.Option(help="Comma-separated head dimensions.")] = "64,128",
    dtypes: Annotated[
        str, typer.Option(help="Comma-separated: bfloat16, float16, float32.")
    ] = "bfloat16",
    masks: Annotated[
        str, typer.Option(help="Comma-separated: none, causal, window, lengths.")
    ] = "none,causal",
    training: Annotated[
        bool, typer.Option("--training", help="Also compile the kernels for gradients.")
    ] = False,
) -> None:
    """Compile the GPU kernels ahead of their first use.

    Triton compiles a kernel when it is first launched, which takes some seconds, and keeps it on
    disk. Run this command once per machine, or while building an image, to avoid that wait.
    """
    import time

    from regard.cli.bench import numbers
    from regard.cli.terminal import status, write
    from regard.engine.ahead import compile_kind, kinds
    from regard.engine.plan import survey
    from regard.errors import UnavailableError

    every = kinds(numbers(dims, "--dims"), dtypes.split(","), masks.split(","))
    why = survey()["triton"]
    if why:
        raise UnavailableError(f"there are no GPU kernels to compile here: {'; '.join(why)}")
    start = time.perf_counter()
    for n, kind in enumerate(every):
        status().print(f"[{n + 1}/{len(every)}] {kind}", markup=False)
        compile_kind(kind, training)
    write(f"ready: {len(every)} kinds of calls, {time.perf_counter() - start:.0f} s")
