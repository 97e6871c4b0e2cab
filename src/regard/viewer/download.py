"""What a reader looks at, as a self-contained page to keep or to send."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from regard.viewer.carried import LIMIT
from regard.viewer.notebook import recording_page
from regard.viewer.opened import Opened

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def download(opened: Opened, prompt: int, head: str) -> Response:
    """One head; or without a name all of them, or those that the findings name."""
    opened.prompt(prompt)
    page = recording_page(opened.snapshot(), prompt=prompt, head=head or None, limit=LIMIT)
    parts = [opened.name.removesuffix(".regard"), head]
    name = _UNSAFE.sub("-", "-".join(part for part in parts if part))
    headers = {"content-disposition": f'attachment; filename="{name}.html"'}
    return Response(page.encode(), media_type="text/html", headers=headers)
