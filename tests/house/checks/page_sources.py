"""The page's sources: who may import whom, how long a file may be, what may not be in it.

    shell ──► learner, engineer, play ──► parts ──► colour, maths
                              └────────► source ◄──┘

maths knows nothing but maths; the rooms do not know each other, but for the type of a lesson, which
play asks its server for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["LONGEST", "MAY_IMPORT", "forbidden_words", "long_files", "upward_imports"]

LONGEST: Final = 400
_WRITTEN: Final = "// Written by "  # a tool, out of a file that is read instead
_LOWER: Final = {"maths", "colour", "source", "parts", "style"}

MAY_IMPORT: Final[dict[str, set[str]]] = {
    "maths": set(),
    "style": set(),
    "source": {"maths", "colour"},
    "colour": {"source"},  # the type of a scale
    "parts": _LOWER | {"shell"},
    "shell": _LOWER | {"learner", "engineer"},
    "learner": _LOWER | {"shell"},
    "engineer": _LOWER | {"shell"},
    "play": _LOWER | {"shell", "learner"},
    "widget": set(),  # what stands around the page's frame in a notebook
    "main.tsx": _LOWER | {"shell", "learner", "engineer", "play"},
}

_IMPORT: Final = re.compile(
    r"""(?:import\s+(type)\s[^;"']*?from|from|import)\s*\(?\s*["'](\.[^"']*)["']"""
)
_FORBIDDEN: Final = {
    "innerHTML": "token text is only ever a text node",
    "dangerouslySetInnerHTML": "token text is only ever a text node",
    "eval(": "the page's policy refuses it",
    "new Function": "the page's policy refuses it",
    "https://": "the page asks nothing from elsewhere",
    "localStorage": "nothing of a recording stays in the browser",
}


def _sources(web: Path) -> Iterator[Path]:
    for pattern in ("*.ts", "*.tsx", "*.css"):
        yield from sorted((web / "src").rglob(pattern))


def long_files(web: Path) -> list[str]:
    """Files of more lines than a reader should be given at once."""
    texts = ((path, path.read_text()) for path in _sources(web))
    lengths = ((path, text.count("\n")) for path, text in texts if not text.startswith(_WRITTEN))
    return [
        f"{path.relative_to(web)}: {lines} lines; at most {LONGEST}"
        for path, lines in lengths
        if lines > LONGEST
    ]


def upward_imports(web: Path) -> list[str]:
    """Imports that the picture does not have."""
    wrong = []
    root = (web / "src").resolve()
    for path in _sources(web):
        own = _unit(path.resolve(), root)
        for how, found in _IMPORT.findall(path.read_text()):
            target = (path.parent / found).resolve()
            if not target.is_relative_to(root):
                if how != "type":
                    where = path.relative_to(web)
                    wrong.append(f"{where}: {found} is outside: types alone come from there")
                continue
            unit = _unit(target, root)
            if unit != own and unit not in MAY_IMPORT.get(own, set()):
                wrong.append(f"{path.relative_to(web)}: {own} may not import {unit}")
    return wrong


def _unit(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0]


def forbidden_words(web: Path) -> list[str]:
    """What would open a hole, each with its reason."""
    return [
        f"{path.relative_to(web)}: {word}: {reason}"
        for path in _sources(web)
        for word, reason in _FORBIDDEN.items()
        if word in path.read_text()
    ]
