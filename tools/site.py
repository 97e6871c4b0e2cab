"""Builds the documentation into build/site: pages, API reference, search. Warnings are errors.

    python tools/site.py             the pages
    python tools/site.py --gallery   with the one-file pages of docs/gallery.md

The folder opens from the file system and from any static host; nothing in it is loaded from
elsewhere, and every link inside it leads somewhere.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
GALLERY = "gallery"
_RECORDED = {
    "paris.html": ("smollm2", "The capital of France is"),
    "sentences.html": ("minilm", "She sat on the bank of the river and counted her bank notes."),
}


def build(site: Path = SITE) -> None:
    """The pages, anew."""
    asked = ["-q", "-W", "--keep-going", "-E", "-b", "html", "-d", f"{site}.doctrees"]
    _run(sys.executable, "-m", "sphinx", *asked, str(ROOT / "docs"), str(site))


def add_gallery(site: Path = SITE) -> None:
    """The pages in one file, made by the commands that the gallery names."""
    folder = site / GALLERY
    folder.mkdir(exist_ok=True)
    lesson = folder / "lesson.html"
    _regard("learn", "The cat sat", "--save", str(lesson), "--overwrite")
    with tempfile.TemporaryDirectory() as made:
        for name, (model, text) in _RECORDED.items():
            file = Path(made, name).with_suffix(".regard")
            _regard("record", model, "--text", text, "-o", str(file))
            _regard("report", str(file), "-o", str(folder / name), "--overwrite")


def broken_links(site: Path = SITE) -> list[str]:
    """Links to files or places that do not exist, and everything loaded from another host."""
    pages = {path: _Links.of(path) for path in sorted(site.rglob("*.html"))}
    return [said for path in pages for said in _broken(path, pages, site)]


class _Links(HTMLParser):
    """What a page refers to, and the places in it that can be referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()

    @classmethod
    def of(cls, page: Path) -> _Links:
        made = cls()
        made.feed(page.read_text(encoding="utf-8"))
        return made

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.targets.append(given["href"])
        elif "src" in given or (tag == "link" and "href" in given):
            self.loaded.append(given.get("src") or given["href"])


def _broken(path: Path, pages: dict[Path, _Links], site: Path) -> Iterator[str]:
    name, links = path.relative_to(site), pages[path]
    for address in links.loaded:
        if urlsplit(address).scheme in ("http", "https"):
            yield f"{name} loads {address}"
    if path.parent.name == GALLERY:  # a page of its own, which asks for its places by script
        return
    for address in (*links.targets, *links.loaded):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = path.parent.joinpath(unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            yield f"{name} → {address}"
        elif parts.fragment and target in pages:
            if unquote(parts.fragment) not in pages[target].places:
                yield f"{name} → {address}: no such place"


def _regard(*words: str) -> None:
    _run(sys.executable, "-m", "regard", *words, quiet=True)


def _run(*command: str, quiet: bool = False) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=quiet, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[1:4])} failed\n{done.stderr or ''}".rstrip())


def main() -> None:
    """As the docstring says."""
    parser = argparse.ArgumentParser(description="build the documentation site")
    parser.add_argument("--gallery", action="store_true", help="with the one-file pages")
    with_gallery = parser.parse_args().gallery
    build()
    if with_gallery:
        add_gallery()
    missing = [said for said in broken_links() if with_gallery or f"→ {GALLERY}/" not in said]
    if missing:
        sys.exit("\n".join(missing))
    print(f"{SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
