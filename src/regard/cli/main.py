"""`regard VERB`: collects the verbs; turns regard's errors into one line and an exit status."""

from __future__ import annotations

import sys

import typer

from regard.cli.doctor import doctor
from regard.cli.grade import grade
from regard.cli.learn import learn
from regard.cli.scaling import scaling
from regard.errors import RegardError

__all__ = ["app", "main"]

app = typer.Typer(
    name="regard",
    help="Attention you can see.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an unexpected error shows the plain traceback
    add_completion=False,
    rich_markup_mode=None,  # plain --help: starts faster, reads the same in a pipe
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for verb in (learn, scaling, grade, doctor):
    app.command()(verb)


@app.callback(invoke_without_command=True)
def version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Attention you can see."""
    if version:
        import regard

        typer.echo(f"regard {regard.__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point. User mistakes end in one line on stderr, never a traceback."""
    try:
        app()
    except RegardError as error:
        sys.stderr.write(f"regard: {error}\n")
        sys.exit(error.exit_code)
