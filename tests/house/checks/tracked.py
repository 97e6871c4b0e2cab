"""What belongs to the repository, as git sees it: tracked files and new ones that it would take."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath

# The brackets keep these lines from finding themselves.
WORKPLACE = "/wor[k]/|/roo[t]/"
REGISTRY = "(https?|ssh)://[^/ ]*(registry|pypi|pythonhosted|npm|artifactor|nexus|mirror|proxy)"
SETTING = "(index-url|find-links|registry) ?= ?(https?:|file:|/)"
PRIVATE = r"://[a-zA-Z0-9.-]+\.(internal|intranet|local|lan|corp)\b"


def files(root: Path) -> list[PurePosixPath]:
    """Paths relative to the root, sorted; files that were removed but not yet staged left out."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = {name for name in listed.split("\0") if name and (root / name).exists()}
    return sorted(PurePosixPath(name) for name in names)


def folders(root: Path) -> list[str]:
    """Folders that hold files themselves, as `a/b/`; the root left out."""
    return sorted({f"{path.parent}/" for path in files(root) if path.parent.name})


def undrawn(root: Path, page: str = "LAYOUT.md") -> list[str]:
    """Folders that the page does not name as `path/`, and names on it that are no folders."""
    path = root / page
    if not path.exists():
        return [f"there is no {page}"]
    named = set(re.findall(r"`([\w.][\w./-]*/)`", path.read_text(encoding="utf-8")))
    holding = folders(root)
    missing = [f"{page} does not name `{folder}`" for folder in holding if folder not in named]
    parents = {f"{parent}/" for folder in holding for parent in PurePosixPath(folder).parents}
    gone = [f"{page} names `{n}`, which is no folder" for n in sorted(named - {*holding, *parents})]
    return missing + gone


def workplace_words(root: Path) -> list[str]:
    """Lines that name a machine's folders or a package registry: packages go by name alone."""
    pattern = "|".join((WORKPLACE, REGISTRY, SETTING, PRIVATE))
    lines = _git(root, "grep", "--untracked", "-nIE", pattern, "--", ".").splitlines()
    return [line.strip() for line in lines]


def _git(root: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True)
    if done.returncode > 1 or done.stderr:  # git grep exits with 1 where nothing is found
        raise RuntimeError(f"git {command[0]} failed: {done.stderr}")
    return done.stdout
