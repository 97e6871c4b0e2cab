"""The documentation site: these pages, the API reference from docstrings, search without a server.

`make docs` builds it into build/site; warnings are errors.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT / "src"), str(DOCS)]

from docstrings import as_rst  # noqa: E402 - beside this file, which Sphinx runs as a script

import regard  # noqa: E402 - from this clone, wherever another one is installed

project = "regard"
author = copyright = "the regard maintainers"
version = release = regard.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["build", "pictures"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # outputs are kept: tools/tutorials.py

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "regard"
html_static_path = html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"sidebar_hide_name": False, "top_of_page_buttons": []}

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
copybutton_prompt_text = "$ "

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")


def _docstring(
    _app: Any, _what: str, _name: str, _of: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = as_rst(lines)


def _page(_app: Any, name: str, text: list[str]) -> None:
    """Files of the repository that are no pages are named instead of linked."""

    def settled(link: re.Match[str]) -> str:
        target = (DOCS / name).parent.joinpath(link.group(2)).resolve()
        return link.group() if target.is_relative_to(DOCS) else f"`{target.relative_to(ROOT)}`"

    text[0] = _LINK.sub(settled, text[0])


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("source-read", _page)
