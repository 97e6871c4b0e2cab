"""`regard VERB`: collects the verbs; turns mistakes into one line and an exit status."""

from __future__ import annotations

import re
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from regard.cli.bench import bench
from regard.cli.check import check
from regard.cli.diff import diff
from regard.cli.doctor import doctor
from regard.cli.examples import example_lines, start_lines
from regard.cli.export import export
from regard.cli.grade import grade, with_values
from regard.cli.learn import learn
from regard.cli.models import models
from regard.cli.play import play
from regard.cli.plot import plot
from regard.cli.prepare import prepare
from regard.cli.record import record
from regard.cli.report import report
from regard.cli.retired import RETIRED
from regard.cli.show import show
from regard.cli.terminal import again, guard_streams, harmless, release_streams, spelt, write
from regard.cli.verify import verify
from regard.cli.view import view
from regard.errors import FileError, RegardError
from regard.files import shown

_INTERRUPTED = 130  # 128 + SIGINT, as shells count

# The root of what typer raises about a command line. Older releases have it from click, newer
# ones carry their own.
_UsageProblem: type[Any] = typer.BadParameter.__mro__[2]


# What newer releases of typer print for a Python type, as a reader of help expects it.
_VALUES = {
    "<str>": "TEXT", "<int>": "N", "<float>": "X", "<path>": "PATH", "<list[str]>": "TEXT",
    "<list[Path]>": "PATH",
}  # fmt: skip
_TYPE = re.compile("|".join(map(re.escape, _VALUES)))
_OF_ARGUMENT = re.compile(f"^(  [^- ]\\S*)( (?:{_TYPE.pattern}))", re.MULTILINE)


def _without_types(text: str) -> str:
    """Help with TEXT, N and PATH for Python's types, and arguments by name alone; columns stay."""
    named = _OF_ARGUMENT.sub(lambda found: found[1].ljust(len(found[0])), text)
    return _TYPE.sub(lambda found: _VALUES[found[0]].ljust(len(found[0])), named)


class _Verb(TyperCommand):
    """A verb whose help ends in examples and can be shown on any terminal."""

    def get_help(self, ctx: Any) -> str:
        plain = _without_types(super().get_help(ctx).rstrip())
        return spelt("\n".join([plain, *example_lines(str(self.name))]))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_values(args) if self.name == "grade" else args)


class _Verbs(TyperGroup):
    """All of them."""

    def get_help(self, ctx: Any) -> str:
        return spelt(super().get_help(ctx))


app = typer.Typer(
    name="regard",
    cls=_Verbs,
    help="Attention you can see: learn how it works, record a model, explore every head.",
    pretty_exceptions_enable=False,  # an unexpected error shows the plain traceback
    rich_markup_mode=None,  # plain --help: starts faster, reads the same in a pipe
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

# in the order of a course
_VERBS = (
    learn, grade, models, play, record, show, view, report, diff, plot, export, check,
    verify, bench, prepare, doctor,
)  # fmt: skip

for _verb in _VERBS:
    app.command(cls=_Verb)(_verb)


@app.callback(invoke_without_command=True)
def _regard(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Attention you can see: learn how it works, record a model, explore every head."""
    if version:
        import regard

        write(f"regard {regard.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        write("\n".join(start_lines()), error=True)
        raise typer.Exit(2)


def main() -> None:
    """The entry point. Mistakes end in one line on stderr, never a traceback."""
    guard_streams()
    status = _run()
    release_streams()
    sys.exit(status)


def _run() -> int:
    """The exit status of the verb, or of what was wrong with its words."""
    try:
        status = app(prog_name="regard", standalone_mode=False) or 0
        sys.stdout.flush()  # a full disk is an error here, not while the interpreter ends
        return status
    except RegardError as error:
        notes = getattr(error, "__notes__", [])  # what is left of the work, and where
        write(f"regard: {harmless('; '.join([str(error), *notes]))}", error=True)
        return error.exit_code
    except _UsageProblem as error:
        return _report(error)
    except OSError as error:  # of a file or folder that nothing above was prepared for
        name = shown(error.filename) if isinstance(error.filename, str) else "a file"
        write(f"regard: {name}: {error.strerror or error}", error=True)
        return FileError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED


def _report(error: Any) -> int:
    """What is wrong with the command line, and where to read how it would be right."""
    typed = " ".join([*sys.argv[1:2], getattr(error, "option_name", None) or ""]).strip()
    if typed in RETIRED:
        write(f"regard: {RETIRED[typed]}", error=True)
        return int(error.exit_code)
    message = " ".join(error.format_message().split()).rstrip(".")
    if no_number := _no_number(message):
        write(f"regard: {harmless(no_number)}", error=True)
        return int(error.exit_code)
    write(f"regard: {message[:1].lower()}{message[1:]}", error=True)
    verb = [word for word in sys.argv[1:2] if word in [verb.__name__ for verb in _VERBS]]
    write("try: " + again(" ".join(["regard", *verb, "--help"])), error=True)
    return int(error.exit_code)


def _no_number(message: str) -> str:
    """One sentence about a word in place of a number: --d-v x: give a whole number."""
    found = re.search(r"'(--[\w-]+)'.*\bvalid (integer|number|float)\b", message)
    if not found:
        return ""
    wanted = "a whole number" if found[2] == "integer" else "a number"
    for at, word in enumerate(sys.argv):
        if word == found[1] and at + 1 < len(sys.argv):
            return f"{word} {shown(sys.argv[at + 1])}: give {wanted}"
    return f"{found[1]}: give {wanted}"
