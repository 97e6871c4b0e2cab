"""The pages say what --help says, the same on every terminal."""

from __future__ import annotations

import pytest
import typer


@pytest.fixture
def cli_pages(tool):
    return tool("cli_pages")


@pytest.fixture
def app():
    app = typer.Typer(rich_markup_mode=None, add_completion=False)

    @app.command()
    def look(where: str = typer.Option("here", help="A place " + "far away " * 12)) -> None:
        """Look at something."""

    @app.command()
    def turn() -> None:
        """Turn round."""

    @app.command(hidden=True)
    def secret() -> None:
        """Nobody's business."""

    return app


def test_one_page_per_verb_and_an_index(cli_pages, app):
    assert cli_pages.verbs(app) == ["look", "turn"]
    pages = cli_pages.pages(app)
    assert list(pages) == ["README.md", "look.md", "turn.md"]
    assert pages["turn.md"].startswith("# regard turn\n")
    assert "Usage: regard turn [OPTIONS]" in pages["turn.md"]
    assert "Turn round." in pages["turn.md"]
    assert "- [`regard look`](look.md)" in pages["README.md"]


def test_the_terminal_has_no_say(cli_pages, app, monkeypatch):
    here = cli_pages.pages(app)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert cli_pages.pages(app) == here
    assert "\x1b" not in here["look.md"]
    assert max(map(len, here["look.md"].splitlines())) <= 100


def test_a_help_that_fails_is_an_error(cli_pages):
    app = typer.Typer()
    app.command("one")(lambda: None)
    app.command("two")(lambda: None)
    with pytest.raises(RuntimeError, match="regard three --help failed"):
        cli_pages.help_of(app, "three")


def test_differences_are_listed_and_writing_removes_them(cli_pages, app, tmp_path):
    wanted = cli_pages.pages(app)
    assert cli_pages.differences(tmp_path / "none", wanted) == [f"{n} is missing" for n in wanted]
    (tmp_path / "look.md").write_text("old words")
    (tmp_path / "gone.md").write_text("no verb")
    assert cli_pages.differences(tmp_path, wanted) == [
        "README.md is missing",
        "turn.md is missing",
        "gone.md belongs to no verb",
        "look.md differs from --help",
    ]
    cli_pages.write(tmp_path, wanted)
    assert cli_pages.differences(tmp_path, wanted) == []
    assert not (tmp_path / "gone.md").exists()


def test_check_reports_and_does_not_write(cli_pages, tmp_path, capsys):
    assert cli_pages.main(["--check"], tmp_path) == 1
    printed = capsys.readouterr().out
    assert "doctor.md is missing" in printed and "run: make docs" in printed
    assert list(tmp_path.iterdir()) == []
    assert cli_pages.main([], tmp_path) == 0
    assert cli_pages.main(["--check"], tmp_path) == 0
    assert capsys.readouterr().out == ""
