"""`regard view`: recordings in the browser, from a server on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from regard.cli.terminal import harmless, write
from regard.errors import InputError
from regard.files import is_folder


def view(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE|DIR", help="Recordings, or folders of them."
    ),
    port: int = typer.Option(0, help="Port on 127.0.0.1; 0 picks a free one."),
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="Open the browser, or only print the address."
    ),
) -> None:
    """Explore recordings in the browser, down to single weights.

    Starts a server that only this machine can reach. It shows what was recorded, writes nothing and
    makes no requests to other hosts. Stop the server with Ctrl-C.

    A recording that is still being written is updated live. Several recordings can be compared.
    """
    from regard.viewer.serve import serve

    paths = [path for given in files for path in _recordings(given)]

    def say(address: str) -> None:
        names = ", ".join(harmless(str(path)) for path in paths[:5])
        more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
        write(f"{names}{more}; Ctrl-C ends this", error=True)
        write(address)

        sys.stdout.flush()

    serve(paths, port, open_page, say)


def _recordings(given: Path) -> list[Path]:
    """A file; a folder of one recording's ranks; or each recording in a folder."""
    if not is_folder(given):
        return [given]
    if any(given.glob("rank-*.regard")):
        return [given]
    found = sorted(given.glob("*.regard"))
    if not found:
        raise InputError(f"{harmless(str(given))}: no recording is in this folder (*.regard)")
    return found
