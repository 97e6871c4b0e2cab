"""The document on a terminal, as Markdown, as one HTML file: all three say the same."""

from __future__ import annotations

from regard.learn.render.html import html_page
from regard.learn.render.markdown import markdown_page
from regard.learn.render.terminal import print_document

__all__ = ["html_page", "markdown_page", "print_document"]
