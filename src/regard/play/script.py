"""A scenario in a file: what the page does by itself, one step a line.

    prompt The animal did not cross the street because it was too
    hover it
    head L17H5
    off L17H5
    cut it animal
    on L17H5
    next
    wait 1.5

`#` begins a remark. A word is named by its text, or by its number from 0 on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from regard.errors import FileError, InputError
from regard.files import open_file, reason, shown

_WORDS: Final = {  # verb → how many words follow; None: the rest of the line as it is
    "prompt": None, "compare": None, "hover": None, "pin": None, "head": 1, "off": 1, "on": 1,
    "cut": 2, "next": 0, "back": 0, "wait": 1, "map": 0,
}  # fmt: skip


def read_script(path: Path) -> list[dict[str, Any]]:
    """Its steps; InputError names the line that is none."""
    try:
        with open_file(path) as file:
            text = file.read().decode("utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{shown(path)}: not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None
    return parse_script(text, shown(path))


def parse_script(text: str, name: str = "script") -> list[dict[str, Any]]:
    """Lines → steps."""
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            steps.append(_step(line.strip(), f"{name}:{number}"))
    if not steps:
        raise InputError(f"{name}: no step; give lines such as: prompt The cat sat")
    return steps


def _step(line: str, where: str) -> dict[str, Any]:
    verb, _, rest = line.partition(" ")
    if verb not in _WORDS:
        raise InputError(f"{where}: {verb!r} is no step; there are {', '.join(_WORDS)}")
    wanted, words = _WORDS[verb], rest.split()
    if (wanted is not None and len(words) != wanted) or (wanted is None and not words):
        many = "some text" if wanted is None else f"{wanted} words" if wanted else "nothing"
        raise InputError(f"{where}: {verb} takes {many} behind it; there is {rest.strip()!r}")
    if verb == "wait":
        return {"do": verb, "words": [str(_seconds(words[0], where))]}
    return {"do": verb, "words": [rest.strip()] if wanted is None else words}


def _seconds(word: str, where: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 600:
        raise InputError(f"{where}: wait {word}; give seconds between 0 and 600")
    return seconds
