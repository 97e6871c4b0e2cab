"""The page as one HTML file: script, style and data in it, and nothing that it could load.

A browser does not load a module from a file beside the page, but runs one that stands in the page
itself. The policy names script and style by their hashes, so nothing else can run, whatever a
token says.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from regard.errors import UnavailableError
from regard.viewer.files import PageFile, load_page
from regard.views.encoding import as_text

DATA: Final = "regard-data"
_BLOB: Final = "regard-blob-"
_NEEDED: Final = ("/page.js", "/page.css")
_NO_SCRIPT: Final = "This page draws attention with JavaScript, which is switched off here."
_END: Final = re.compile(r"</(?=script|style)", re.IGNORECASE)


def make_page(
    data: Mapping[str, Any],
    *,
    title: str,
    blobs: Sequence[bytes] = (),
    without_script: str = _NO_SCRIPT,
    language: str = "en",
) -> str:
    """A complete page that opens from a file and shows `data`. Blobs are deflated already.

    without_script   HTML for where scripts are off: a mail, a preview, a strict browser
    """
    page = _page_files()
    script, style = (_inlined(page[name]) for name in _NEEDED)
    return _PAGE.format(
        policy=_policy(script, style),
        language=escape(language),
        title=escape(title),
        style=style,
        script=script,
        without_script=without_script,
        id=DATA,
        data=_harmless(as_text(dict(data)).decode("ascii")),
        blobs="".join(_carrier(number, blob) for number, blob in enumerate(blobs)),
    )


def room_in(limit: int) -> int:
    """Bytes that a page of `limit` bytes has for what it carries."""
    return limit - len(make_page({}, title=" " * 64).encode())


_PAGE: Final = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<noscript>{without_script}</noscript>
<script type="application/json" id="{id}">{data}</script>
{blobs}<script type="module">{script}</script>
</body>
</html>
"""


def _page_files() -> dict[str, PageFile]:
    page = load_page()
    missing = [name.lstrip("/") for name in _NEEDED if name not in page]
    if missing:
        raise UnavailableError(
            f"the page is not part of this installation ({', '.join(missing)} is not there); build "
            "it with `make page` in a source checkout, or install a wheel, which carries it"
        )
    return page


def _inlined(file: PageFile) -> str:
    """Its text; an end tag in a string or comment would end the element before its time."""
    text = file.body.decode("utf-8").replace("\r\n", "\n")
    return _END.sub(r"<\\/", text)


def _policy(script: str, style: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hashed(script)}'",
            f"style-src '{_hashed(style)}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hashed(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _harmless(text: str) -> str:
    """JSON without a character that HTML could read as its own."""
    for one in "<>&":
        text = text.replace(one, f"\\u{ord(one):04x}")
    return text


def _carrier(number: int, blob: bytes) -> str:
    text = base64.b64encode(blob).decode("ascii")
    return f'<script type="text/plain" id="{_BLOB}{number}">{text}</script>\n'
