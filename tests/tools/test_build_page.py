"""The page's build: when it is due, which Node builds it, and what is said where none can."""

from __future__ import annotations

import shutil

import pytest

from tools import build_page


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes programs that stand first on PATH."""
    (folder := tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def write(name: str, body: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return write


@pytest.fixture
def built(program, tmp_path):
    """A checkout whose page was built, by an npm that only leaves the files."""
    web = tmp_path / "checkout" / "web"
    (web / "src" / "parts").mkdir(parents=True)
    for name in ("index.html", "package.json", "package-lock.json", "vite.config.ts"):
        (web / name).write_text(name)
    (web / "src" / "main.tsx").write_text("main")
    (web / "src" / "parts" / "Figure.tsx").write_text("figure")
    folder = build_page.static_folder(web.parent)
    program("node", "echo v22.1.0")
    program("npm", f"mkdir -p {folder}; cd {folder}; touch {' '.join(build_page.BUILT)}")
    build_page.build(web.parent)
    return web.parent


def test_what_was_built_is_not_built_again_nor_in_an_unpacked_sdist(built, tmp_path):
    assert build_page.is_current(built)
    shutil.copytree(built, tmp_path / "copy")  # elsewhere, with other times: without Node
    assert build_page.is_current(tmp_path / "copy")


@pytest.mark.parametrize(
    "change",
    [
        lambda web: (web / "src" / "main.tsx").write_text("changed"),
        lambda web: (web / "src" / "parts" / "Figure.tsx").write_text("changed"),
        lambda web: (web / "package-lock.json").write_text("changed"),
        lambda web: (web / "src" / "main.tsx").rename(web / "src" / "start.tsx"),
        lambda web: (build_page.static_folder(web.parent) / "page.css").unlink(),
    ],
    ids=["changed", "changed below", "lock file", "renamed", "missing part"],
)
def test_what_is_not_as_it_was_built_is_built_anew(built, change):
    change(built / "web")
    assert not build_page.is_current(built)


@pytest.mark.parametrize(
    ("version", "fine"),
    [("v20.19.0", True), ("v22.1.0", True), ("v20.18.3", False), ("v9.0.0", False), ("", False)],
)
def test_a_node_is_new_enough_from_20_19_on(program, version, fine):
    for name in ("node", "npm"):
        program(name, f"echo {version}")
    assert build_page.has_node() is fine


def test_no_node_at_all(built, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build_page.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build_page.PageError, match=r"no Node 20\.19 or newer"):
        build_page.build(built)


def test_what_npm_printed_is_in_the_error(built, program):
    program("npm", "echo 'broken: main.tsx' >&2; exit 1")
    (built / "web" / "src" / "main.tsx").write_text("changed")
    with pytest.raises(build_page.PageError, match=r"npm install --no-save failed:\nbroken"):
        build_page.build(built)
    assert not build_page.is_current(built)
