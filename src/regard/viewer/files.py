"""The page: a fixed list of files in the package, read once."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final, NamedTuple


class PageFile(NamedTuple):
    """What is sent."""

    kind: str  # media type
    body: bytes


# Address → file in `static` and its media type. No address is ever made into a path.
PAGE_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


def load_page(names: Mapping[str, tuple[str, str]] = PAGE_FILES) -> dict[str, PageFile]:
    """By address; those that the package was built without are left out."""
    folder = files("regard.viewer") / "static"
    found = {}
    for address, (name, kind) in names.items():
        try:
            found[address] = PageFile(kind, (folder / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found
