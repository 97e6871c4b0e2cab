"""The document on a terminal, as Markdown, as HTML: all three say the same."""

from __future__ import annotations

from regard.learn.render.html import html_body
from regard.learn.render.markdown import markdown_page
from regard.learn.render.terminal import print_document

__all__ = ["html_body", "markdown_page", "print_document"]
