"""Whether pip can install regard, with all its extras, beside each package it is used with.

One package at a time, newest versions of both, nothing installed: pip resolves and reports. The
table stands in docs/versions.md between two marks.

    make resolve                       all of them, about a minute each
    python tools/resolve.py peft trl   some, printed only
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "versions.md"
MARKS = "<!-- resolved: written by tools/resolve.py -->", "<!-- resolved: end -->"
PEERS = (
    "kvpress", "vllm", "transformer-lens", "nnsight", "inseq", "trl", "axolotl", "llamafactory",
    "verl", "peft", "diffusers", "sentence-transformers", "lightning",
)  # fmt: skip
SHOWN = ("torch", "transformers")
_LIMIT = 900  # seconds for one of them


@dataclass(frozen=True)
class Answer:
    """What pip found."""

    peer: str
    versions: dict[str, str]  # by package; empty where nothing fits
    why_not: str = ""

    def row(self) -> str:
        """Of the table."""
        if not self.versions:
            return f"| {self.peer} | – | – | – | **no**: {self.why_not} |"
        shown = " | ".join(self.versions.get(name, "–") for name in SHOWN)
        return f"| {self.peer} | {self.versions.get(self.peer, '?')} | {shown} | yes |"


def requirements(project: dict[str, object], extra: str = "all") -> list[str]:
    """What regard asks for with an extra: extras that name others are followed."""
    about = project["project"]
    assert isinstance(about, dict)
    found: list[str] = list(about["dependencies"]) if extra == "all" else []
    for one in about["optional-dependencies"][extra]:
        inner = re.fullmatch(rf"{about['name']}\[(.*)\]", one)
        names = inner.group(1).split(",") if inner else []
        found += [r for name in names for r in requirements(project, name.strip())] or [one]
    return list(dict.fromkeys(found))


def reason(said: str) -> str:
    """The last sentence of pip's that says what cannot be, in one line."""
    lines = [line.strip() for line in said.splitlines()]
    wanted = [n for n in lines if "depends on" in n or "requires" in n or n.startswith("ERROR")]
    return "; ".join(dict.fromkeys(wanted[-6:])).replace("|", "/") or "pip said nothing"


def newest(peer: str) -> str:
    """The newest version that pip sees; it would take an older one rather than say no."""
    command = [sys.executable, "-m", "pip", "index", "versions", peer]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.match(r"\S+ \((.+)\)", done.stdout)
    if found is None:
        sys.exit(f"pip names no version of {peer}: {done.stdout!r}")
    return found.group(1)


def resolve(peer: str, ours: list[str]) -> Answer:
    """Ask pip."""
    wanted = f"{peer}=={newest(peer)}"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
            "--disable-pip-version-check", "--report", str(report), *ours, wanted,
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            return Answer(wanted, {}, f"pip did not finish within {_LIMIT} seconds")
        if done.returncode != 0:
            return Answer(wanted, {}, reason(done.stderr))
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return Answer(
        peer, {_plain(one["metadata"]["name"]): one["metadata"]["version"] for one in found}
    )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def table(answers: list[Answer], day: str) -> str:
    """With the day it was made."""
    head = ["package", "newest", *SHOWN, "resolves beside `regard[all]`"]
    rows = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *(a.row() for a in answers)]
    return "\n".join([f"Resolved by pip on {day}, Python {sys.version.split()[0]}.", "", *rows])


def written(page: str, marks: tuple[str, str], made: str) -> str:
    """The page with a table between its marks."""
    before, _, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not end:
        sys.exit(f"{PAGE.name} has no place for the table: put {marks[0]} and {marks[1]} there")
    return f"{before}{marks[0]}\n\n{made}\n\n{marks[1]}{after}"


def main(some: list[str]) -> None:
    """Resolve, and write the page where all were asked for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        ours = requirements(tomllib.load(file))
    answers = []
    for number, peer in enumerate(some or PEERS, 1):
        print(f"{number}/{len(some or PEERS)} {peer} …", end=" ", file=sys.stderr, flush=True)
        answers.append(resolve(peer, ours))
        print("yes" if answers[-1].versions else answers[-1].why_not, file=sys.stderr, flush=True)
    made = table(answers, datetime.now(UTC).date().isoformat())
    if some:
        print(made)
    else:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), MARKS, made), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
