"""`regard play`: a model behind a page on which its attention can be switched off."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from regard.cli.models import known_names
from regard.cli.terminal import status, write


def play(
    model: str = typer.Argument(
        "smollm2",
        metavar="MODEL",
        help="A name from `regard models`, a folder, or any model transformers loads.",
        autocompletion=known_names,
    ),
    script: Path | None = typer.Option(
        None, "--script", metavar="FILE", help="Replay a scenario: prompts, hovers, knock-outs."
    ),
    device: str | None = typer.Option(None, "--device", help="cpu, cuda, cuda:1 …"),
    port: int | None = typer.Option(
        None, help="Port on 127.0.0.1; 0 picks a free one. Default: 7437 where it is free."
    ),
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="Open the browser, or only print the address."
    ),
) -> None:
    """Type to a model in the browser, and switch its attention off.

    Starts a server that only this machine can reach, with the model behind it. Point at a word to
    see what it attends to; switch heads off and the next-token probabilities change. Nothing that
    is typed leaves this machine. Stop it with Ctrl-C.
    """
    from regard.play.script import read_script

    scenario = [] if script is None else read_script(script)
    with status().status(f"loading {model}"):
        from regard.play.serve import prepare

        session = prepare(model, device)

    def say(address: str) -> None:
        write(f"{session.name}; Ctrl-C ends this", error=True)
        write(address)
        sys.stdout.flush()

    from regard.play.serve import play as serve_play

    serve_play(session, port, open_page, say, script=scenario)
