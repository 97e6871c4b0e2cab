"""Writes docs/cli: one page per verb with the very words of `--help`, so that none can differ.

python tools/cli_pages.py            write the pages, remove those of verbs that are gone
python tools/cli_pages.py --check    list the differences; exit 1 where there are any
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "cli"
INDEX = "README.md"
WIDTH = 100


def verbs(app: typer.Typer) -> list[str]:
    """The names of the verbs, in the order the help lists them."""
    command: Any = typer.main.get_command(app)
    return [name for name, verb in command.commands.items() if not verb.hidden]


def help_of(app: typer.Typer, *verb: str) -> str:
    """What `regard VERB --help` prints on a terminal of WIDTH columns, whatever this one is."""
    plain = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1"}
    # Two columns stay free on a terminal; the runner would otherwise take eighty.
    wide: dict[str, Any] = {"terminal_width": WIDTH - 2}
    asked = CliRunner().invoke(app, [*verb, "--help"], env=plain, prog_name="regard", **wide)
    if asked.exit_code != 0:
        raise RuntimeError(f"regard {' '.join(verb)} --help failed: {asked.output}")
    return "\n".join(line.rstrip() for line in asked.output.splitlines()).strip()


def pages(app: typer.Typer) -> dict[str, str]:
    """Every page by file name."""
    links = "\n".join(f"- [`regard {verb}`]({verb}.md)" for verb in verbs(app))
    index = f"{_page('regard', help_of(app))}\n{links}\n"
    return {INDEX: index} | {
        f"{verb}.md": _page(f"regard {verb}", help_of(app, verb)) for verb in verbs(app)
    }


def differences(folder: Path, wanted: dict[str, str]) -> list[str]:
    """What is missing, outdated or left over, one line each."""
    there = {path.name: path for path in sorted(folder.glob("*.md"))}
    found = [f"{name} is missing" for name in wanted if name not in there]
    for name, path in there.items():
        if name not in wanted:
            found.append(f"{name} belongs to no verb")
        elif path.read_text(encoding="utf-8") != wanted[name]:
            found.append(f"{name} differs from --help")
    return found


def write(folder: Path, wanted: dict[str, str]) -> None:
    """Make the folder hold exactly these pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the pages, or compare them; the exit status."""
    parser = argparse.ArgumentParser(description="Write docs/cli from --help.")
    parser.add_argument("--check", action="store_true", help="list differences, write nothing")
    given = parser.parse_args(arguments)
    from regard.cli import app

    wanted = pages(app)
    if not given.check:
        write(folder, wanted)
        return 0
    found = differences(folder, wanted)
    sys.stdout.writelines(f"{line}\n" for line in [*found, *(["run: make docs"] if found else [])])
    return 1 if found else 0


def _page(title: str, text: str) -> str:
    return f"# {title}\n\n<!-- written by `make docs` from --help -->\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
