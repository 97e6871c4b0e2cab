"""What no file of the repository may name, tracked or about to be."""

from __future__ import annotations

import subprocess
from pathlib import Path

# The brackets keep these lines from finding themselves.
WORKPLACE = "/wor[k]/|/roo[t]/"
REGISTRY = "(https?|ssh)://[^/ ]*(registry|pypi|pythonhosted|npm|artifactor|nexus|mirror|proxy)"
SETTING = "(index-url|find-links|registry) ?= ?(https?:|file:|/)"
PRIVATE = r"://[a-zA-Z0-9.-]+\.(internal|intranet|local|lan|corp)\b"


def workplace_words(root: Path) -> list[str]:
    """Lines that name a machine's folders or a package registry: packages go by name alone."""
    pattern = "|".join((WORKPLACE, REGISTRY, SETTING, PRIVATE))
    command = ["git", "grep", "--untracked", "-nIE", pattern, "--", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode > 1 or done.stderr:  # git grep exits with 1 if no line matches
        raise RuntimeError(f"git grep failed: {done.stderr}")
    return [line.strip() for line in done.stdout.splitlines()]
