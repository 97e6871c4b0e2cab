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
    text: str = typer.Option("", "--text", help="The prompt that the page opens with."),
    script: Path | None = typer.Option(
        None,
        "--script",
        metavar="FILE",
        help="Replay a scenario: one step per line (see docs/play.md).",
    ),
    device: str | None = typer.Option(
        None, "--device", help="Device to run on: cpu, cuda, cuda:1 …"
    ),
    port: int | None = typer.Option(
        None, help="Port on 127.0.0.1; 0 picks a free one. Default: 7437 if it is free."
    ),
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="Open the browser, or only print the address."
    ),
) -> None:
    """Type a prompt, see its attention, switch heads off.

    Starts a server that only this machine can reach, and runs the model in it. Point at a word to
    see what it attends to; switch heads off to see how the next-token probabilities change. The
    prompt never leaves this machine. Stop the server with Ctrl-C.
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

    serve_play(session, port, open_page, say, text=text, script=scenario)
