"""The site builds without a warning, loads nothing from elsewhere, and its links lead somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import regard
from tools import site
from tools.site import ROOT, broken_links

sys.path.insert(0, str(ROOT / "docs"))
from docstrings import as_rst


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    site.build(folder)
    (folder / "gallery").mkdir()
    for name in ("lesson.html", *site._RECORDED):
        (folder / "gallery" / name).touch()
    return folder


def test_every_link_leads_somewhere(built: Path) -> None:
    assert broken_links(built) == []


def test_every_public_name_is_in_the_reference(built: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (built / "api").glob("*.html"))
    public = {name for name in dir(regard) if not isinstance(getattr(regard, name), ModuleType)}
    places = {f'.{name}"' for name in public - {"__version__"}}
    places |= {f'"regard.Attention.{name}"' for name in "entropy top received pooled rows".split()}
    modules = "huggingface intervene models monitor nn parallel plot study errors statistics kv"
    places |= {f'id="module-regard.{name}"' for name in f"{modules} axes vllm".split()}
    assert [place for place in sorted(places) if place not in text] == []


def test_the_first_page_is_light(built: Path) -> None:
    page = built / "index.html"
    links = site._Links.of(page)
    files = {built / address.split("?")[0] for address in links.loaded}  # of others, a name alone
    files = {file for file in files if file.suffix in (".css", ".js", ".png", ".svg")}
    assert sum(file.stat().st_size for file in (page, *files)) < 300_000


def test_links_that_lead_nowhere_are_listed(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "a.html").write_text(
        '<a href="other.html#here">1</a><a href="other.html#gone">2</a><a href="gone.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://example.org/x.js"></script>'
    )
    assert broken_links(tmp_path) == [
        "a.html loads https://example.org/x.js",
        "a.html → other.html#gone: no such place",
        "a.html → gone.html",
    ]


def test_a_warning_of_sphinx_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").write_text("extensions = ['myst_parser']")
    (tmp_path / "docs" / "index.md").write_text("# One\n\n[two](two.md)\n")
    code = f"from pathlib import Path; from tools import site; site.ROOT = Path({str(tmp_path)!r});"
    code += f" site.build(Path({str(tmp_path / 'site')!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "two.md" in done.stderr


def test_docstrings_keep_their_columns_and_formulas() -> None:
    given = ["Mass of `keys`, a*b.", "", "name   what it is", "       and more", "", "    p = e^s"]
    assert as_rst([*given, ""]) == [
        "Mass of ``keys``, a\\*b.", "",
        "``name``", "    what it is", "    and more", "",
        "::", "", "    p = e^s", "",
    ]  # fmt: skip
