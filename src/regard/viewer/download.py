"""What a reader looks at, as a self-contained page to keep or to send."""

from __future__ import annotations

import re
from typing import Final

from regard.viewer.carried import LIMIT
from regard.viewer.notebook import recording_page
from regard.viewer.opened import Opened
from regard.viewer.questions import Asked, Binary

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def download(opened: Opened, asked: Asked) -> Binary:
    """One head; or without a name all of them, or those that the findings name."""
    prompt, head = asked.prompt, asked.name("head")
    opened.prompt(prompt)
    page = recording_page(opened.snapshot(), prompt=prompt, head=head or None, limit=LIMIT)
    parts = [opened.name.removesuffix(".regard"), head]
    name = _UNSAFE.sub("-", "-".join(part for part in parts if part))
    headers = {"content-disposition": f'attachment; filename="{name}.html"'}
    return Binary(page.encode(), kind="text/html", headers=headers)
