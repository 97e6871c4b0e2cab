"""The page's sources: who may import whom, how long a file may be, what may not be in it.

    shell ──► learner, engineer, play ──► parts ──► colour, maths
                              └────────► source ◄──┘

maths imports maths alone; the rooms do not import each other, but for the type of a lesson, which
play requests from its server.
"""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import Final

from house.checks.source import Source, Sources

LONGEST: Final = 400
_WRITTEN: Final = "// Written by "  # by a tool, from a file that is read instead
_ROOT: Final = "web/src"
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
    "https://": "the page requests nothing from elsewhere",
    "localStorage": "nothing of a recording stays in the browser",
}


def long_files(sources: Sources) -> list[str]:
    """Files of more lines than a reader should be given at once."""
    return [
        f"{source.path}: {source.lines} lines; at most {LONGEST}"
        for source in _page(sources)
        if source.lines > LONGEST and not source.text.startswith(_WRITTEN)
    ]


def upward_imports(sources: Sources) -> list[str]:
    """Imports that the picture does not have."""
    wrong = []
    for source in _page(sources):
        own = _unit(source.path)
        for how, name in _IMPORT.findall(source.text):
            target = normpath(join(dirname(source.path), name))
            if not target.startswith(f"{_ROOT}/"):
                if how != "type":
                    wrong.append(f"{source.path}: {name} is outside: types alone come from there")
            elif (unit := _unit(target)) != own and unit not in MAY_IMPORT.get(own, set()):
                wrong.append(f"{source.path}: {own} may not import {unit}")
    return wrong


def forbidden_words(sources: Sources) -> list[str]:
    """What would open a hole, each with its reason."""
    return [
        f"{source.path}: {word}: {reason}"
        for source in _page(sources)
        for word, reason in _FORBIDDEN.items()
        if word in source.text
    ]


def _page(sources: Sources) -> list[Source]:
    return sources.below(_ROOT, ".ts", ".tsx", ".css")


def _unit(path: str) -> str:
    return path.split("/")[2]
