"""What tools write into the documentation: a page for each verb, a picture of measured rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import typer

from regard.bench import Result, append_csv
from regard.errors import FileError
from tools import cli_pages, length_picture

# ── docs/cli ─────────────────────────────────────────────────────────────────────────────────


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
        """Not in any help."""

    return app


def test_a_page_for_each_verb_and_an_index_the_same_on_every_terminal(app, monkeypatch):
    pages = cli_pages.pages(app)
    assert list(pages) == ["README.md", "look.md", "turn.md"]
    assert pages["turn.md"].startswith("# regard turn\n")
    assert "Usage: regard turn [OPTIONS]" in pages["turn.md"] and "Turn round." in pages["turn.md"]
    assert "- [`regard look`](look.md)" in pages["README.md"]
    assert max(map(len, pages["look.md"].splitlines())) <= 100
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert cli_pages.pages(app) == pages
    with pytest.raises(RuntimeError, match="regard three --help failed"):
        cli_pages.help_of(app, "three")


def test_differences_are_listed_and_writing_removes_them(app, tmp_path):
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


def test_check_reports_and_does_not_write(tmp_path, capsys):
    assert cli_pages.main(["--check"], tmp_path) == 1
    printed = capsys.readouterr().out
    assert "doctor.md is missing" in printed and "run: make docs" in printed
    assert list(tmp_path.iterdir()) == []
    assert cli_pages.main([], tmp_path) == 0 == cli_pages.main(["--check"], tmp_path)
    assert capsys.readouterr().out == ""


# ── time and memory by length ────────────────────────────────────────────────────────────────

ROW = Result(
    "2026-01-02", "gpu length", "cudnn", "torch", 1024, 128, 8, True, "bfloat16", 0.02, 0.02, 0.03,
    "cudnn", 1.0, 7, 2, "a GPU", "2.11", "0.1", 1, 90.0, 0.0, "",
)  # fmt: skip
LOST = "eager with weights cannot run: its weights alone take 2 GiB"


def test_the_newest_row_of_a_size_is_drawn(tmp_path):
    results, picture = tmp_path / "results.csv", tmp_path / "length.png"
    for n in (1024, 2048, 4096):
        mine = replace(ROW, what="everything", tokens=n, median_ms=n / 1e4, extra_mib=n / 100)
        eager = replace(mine, what="eager with weights", note="")
        ours = [replace(mine, note=LOST)] if n == 4096 else [mine, eager]
        append_csv(results, [replace(ROW, tokens=n), *ours])
    append_csv(results, [replace(ROW, suite="gpu forward", median_ms=99.0)])
    append_csv(results, [replace(ROW, median_ms=0.5)])
    drawn = length_picture.read(results)
    assert [point.tokens for point in drawn.points["everything"]] == [1024, 2048, 4096]
    assert [point.ms for point in drawn.points["cudnn"]] == [0.5, 0.02, 0.02]
    assert len(drawn.points["eager with weights"]) == 2
    assert (drawn.end, drawn.title) == (LOST, "a GPU, bfloat16, 8 heads of 128, causal")
    assert length_picture.main([str(results), str(picture)]) == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_without_rows_it_says_how_to_get_them(tmp_path, capsys):
    path = tmp_path / "results.csv"
    append_csv(path, [replace(ROW, suite="cpu")])
    assert length_picture.main([str(path), str(tmp_path / "no.png")]) == FileError.exit_code
    message = capsys.readouterr().err
    assert "has no rows of the suite 'gpu length'" in message
    assert "python -m bench gpu --only length" in message
    assert not (tmp_path / "no.png").exists()
