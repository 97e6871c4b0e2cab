"""A page to put data into, whether or not the real one was built."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest

from regard.viewer import selfcontained
from regard.viewer.files import PageFile

__all__ = ["SCRIPT", "STYLE", "Elements", "facts_of", "use_small_page"]

SCRIPT = 'const end = "</script>", other = `</STYLE>`; document.title = end;\n'
STYLE = 'body::before { content: "</style>"; }\n'


def use_small_page(patch: pytest.MonkeyPatch, script: str = SCRIPT) -> None:
    """Instead of the built one."""
    page = {"/page.js": PageFile("text/javascript", script.encode()),
            "/page.css": PageFile("text/css", STYLE.encode())}  # fmt: skip
    patch.setattr(selfcontained, "load_page", lambda: page)


def facts_of(blobs: list[bytes]) -> dict[str, Any]:
    """The first blob."""
    found: dict[str, Any] = json.loads(zlib.decompress(blobs[0]))
    return found


class Elements(HTMLParser):
    """Scripts, styles and metas of a page, as a browser's parser splits it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._open = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag in ("script", "style", "title")
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            tag, attrs, text = self.found.pop()
            self.found.append((tag, attrs, text + data))

    def text(self, tag: str, **attrs: str) -> str:
        """Of the only such element."""
        (text,) = [t for name, has, t in self.found if name == tag and has.items() >= attrs.items()]
        return text

    def policy(self) -> dict[str, list[str]]:
        """By directive."""
        (content,) = [a["content"] for t, a, _ in self.found if t == "meta" and "http-equiv" in a]
        parts = [one.split() for one in re.split(r";\s*", content or "")]
        return {name: sources for name, *sources in parts}

    @staticmethod
    def hashed(text: str) -> str:
        """As a policy names it."""
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
