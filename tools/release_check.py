"""Checks that this commit can be released: its version, its archives, and the installed wheel.

    python tools/release_check.py            (`make release-check`)

One line per step, with its seconds; the first step that fails ends the check with status 1. Wheels
are built for this machine only: `make dist` makes those that are published.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dist import ROOT, DistError, Installed, build, content_faults, install, unpack, use

CHANGELOG, CITATION = "CHANGELOG.md", "CITATION.cff"
SOURCE = "src/regard/__init__.py"
# of the sdist, with the wheel: the files that the fast lane leaves in these folders, in a minute or
# two; tests/house needs a git checkout, and tests/tools builds archives itself
TESTS = ("tests/learn", "tests/mask", "tests/summary", "tests/recording", "tests/study", "tests/nn")

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_VERSION = re.compile(r"(\d+\.\d+\.\d+\S*) \(\d{4}-\d\d-\d\d\)")
_Result = TypeVar("_Result")


class ReleaseError(Exception):
    """This commit cannot be released; the message says why."""


def package_version(source: str) -> str:
    """`__version__` of the package, from its text."""
    return _only(r'^__version__ = "(.+)"$', source, SOURCE)


def newest_version(changelog: str) -> str:
    """The first heading that is a version with its date; "Unreleased" stands above it."""
    headings = (_VERSION.fullmatch(title) for title in _HEADING.findall(changelog))
    versions = [heading[1] for heading in headings if heading]
    if not versions:
        shape = "'## 1.2.3 (2026-01-31)'"
        raise ReleaseError(f"{CHANGELOG} has no section of a version, such as {shape}")
    return versions[0]


def unreleased(changelog: str) -> str:
    """What stands under "Unreleased"; empty if there is no such section."""
    _, _, below = changelog.partition("## Unreleased\n")
    return below.partition("\n## ")[0].strip()


def version_faults(source: str, changelog: str, citation: str, tags: list[str]) -> list[str]:
    """What disagrees about the version: package, changelog, citation, and the tag if there is one.

    An untagged commit may have changes under "Unreleased"; a tagged one may not.
    """
    version = package_version(source)
    claims = {CHANGELOG: newest_version(changelog)}
    claims[CITATION] = _only(r"^version: (\S+)$", citation, CITATION)
    claims |= {f"the tag {tag}": tag.removeprefix("v") for tag in tags}
    result = [
        f"{where} says {claim}, {SOURCE} says {version}"
        for where, claim in claims.items()
        if claim != version
    ]
    if tags and unreleased(changelog):
        result.append(f"{CHANGELOG} has changes under Unreleased, and this commit is tagged")
    return result


def tags_of_head(root: Path) -> list[str]:
    """The version tags of the commit that is checked out: v1.2.3."""
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v*"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"git tag failed: {done.stderr.strip()}")
    return done.stdout.split()


def check_version(root: Path) -> str:
    """The version that everything agrees on."""
    source, changelog, citation = (
        (root / name).read_text(encoding="utf-8") for name in (SOURCE, CHANGELOG, CITATION)
    )
    tags = tags_of_head(root)
    if wrong := version_faults(source, changelog, citation, tags):
        raise ReleaseError("; ".join(wrong))
    return f"{package_version(source)}, {'tag ' + tags[0] if tags else 'not tagged'}"


def run_tests(installed: Installed, source: Path) -> str:
    """The sdist's tests against the wheel; the last line of pytest."""
    words = ["-m", "pytest", "-n", str(os.cpu_count()), "-p", "no:cacheprovider"]
    words += ["--lane", "fast", *TESTS]
    return installed.run("python", *words, path=os.environ["PATH"], cwd=source).split("\n")[-2]


def main() -> None:
    """Every step, in the order in which a user meets them."""
    _step("version", lambda: check_version(ROOT), str)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sdist = _step("sdist", lambda: _sound(build("sdist", ROOT, work)), _size)
        source = unpack(sdist, work)
        (wheels := work / "wheels").mkdir()
        wheel = _step("wheel", lambda: _sound(build("wheel", source, wheels)), _size)
        installed = _step("install", lambda: install(wheel, work), lambda _: "an empty environment")
        _step("regard doctor", lambda: installed.run("regard", "doctor"), lambda _: "no problems")
        _step("a lesson, an attention", lambda: use(installed), str)
        _step("tests", lambda: run_tests(installed, source), str)


def _step(name: str, work: Callable[[], _Result], said: Callable[[_Result], str]) -> _Result:
    started = time.perf_counter()
    result = work()
    print(f"{time.perf_counter() - started:6.1f} s  {name}: {said(result)}", flush=True)
    return result


def _sound(archive: Path) -> Path:
    if wrong := content_faults(archive):
        raise ReleaseError(f"{archive.name}: {'; '.join(wrong)}")
    return archive


def _size(archive: Path) -> str:
    return f"{archive.name}, {archive.stat().st_size / 1e6:.1f} MB"


def _only(pattern: str, text: str, where: str) -> str:
    matches: list[str] = re.findall(pattern, text, re.MULTILINE)
    if len(matches) != 1:
        raise ReleaseError(f"{where} has {len(matches)} lines that match {pattern}, not one")
    return matches[0]


if __name__ == "__main__":
    try:
        main()
    except (ReleaseError, DistError) as error:
        sys.exit(f"release-check: {error}")
