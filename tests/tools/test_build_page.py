"""The page's build: when it is due, which Node builds it, and what is said where none can."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def build_page(tool):
    return tool("build_page")


@pytest.fixture
def tree(tmp_path):
    """A checkout with sources of a page, and nothing built."""
    web = tmp_path / "web"
    (web / "src" / "parts").mkdir(parents=True)
    for name in ("index.html", "package.json", "package-lock.json", "vite.config.ts"):
        (web / name).write_text(name)
    (web / "src" / "main.tsx").write_text("main")
    (web / "src" / "parts" / "Figure.tsx").write_text("figure")
    return tmp_path


@pytest.fixture
def built(build_page, tree, monkeypatch):
    """The same, built by an npm that only leaves the files."""

    def npm(web: Path, *words: str) -> None:
        folder = build_page.static_folder(tree)
        folder.mkdir(parents=True, exist_ok=True)
        for name in build_page.BUILT:
            (folder / name).write_text(name)

    monkeypatch.setattr(build_page, "_npm", npm)
    build_page.build(tree)
    return tree


def test_what_was_built_is_not_built_again(build_page, tree, built):
    assert build_page.is_current(built)


@pytest.mark.parametrize("name", ["src/main.tsx", "src/parts/Figure.tsx", "package-lock.json"])
def test_a_changed_source_is_built_anew(build_page, built, name):
    (built / "web" / name).write_text("changed")
    assert not build_page.is_current(built)


def test_a_new_or_renamed_source_is_built_anew(build_page, built):
    source = built / "web" / "src" / "main.tsx"
    source.rename(source.with_name("start.tsx"))
    assert not build_page.is_current(built)


def test_a_missing_part_is_built_anew(build_page, built):
    (build_page.static_folder(built) / "page.css").unlink()
    assert not build_page.is_current(built)


def test_a_checkout_that_was_moved_is_still_built(build_page, built, tmp_path_factory):
    # an sdist is unpacked elsewhere, with other times: Node must not be needed there
    copy = tmp_path_factory.mktemp("sdist") / "regard"
    shutil.copytree(built, copy)
    assert build_page.is_current(copy)


@pytest.mark.parametrize(
    ("version", "fine"),
    [("v20.19.0", True), ("v22.1.0", True), ("v20.18.3", False), ("v9.0.0", False), ("", False)],
)
def test_a_node_is_new_enough_from_20_19_on(build_page, tmp_path, monkeypatch, version, fine):
    for name in ("node", "npm"):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho {version}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert build_page.has_node() is fine


def test_no_node_at_all(build_page, tree, monkeypatch):
    monkeypatch.setattr(build_page, "has_node", lambda: False)
    monkeypatch.setattr(build_page.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build_page.PageError, match=r"no Node 20\.19 or newer"):
        build_page.build(tree)


def test_what_npm_said_is_told(build_page, tree, monkeypatch, tmp_path):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'broken: main.tsx' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setattr(build_page, "_npm_command", lambda: ([str(npm)], {}))
    with pytest.raises(build_page.PageError, match=r"npm install --no-save failed:\nbroken"):
        build_page.build(tree)
    assert not build_page.is_current(tree)
