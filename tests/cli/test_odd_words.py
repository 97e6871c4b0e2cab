"""Absurd numbers, impossible paths and things that are no files, in every verb: one line each, the
right status, nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.recordings import on_disk

ABSURD = ("-1", "0", "99999999999", "-99999999999", "1e11", "nan", "9223372036854775808", "1" * 30)
LONG = "x" * 5000

# words of a verb, and its options that take a number; R stands for a recording
NUMBERS = [
    ("export R --to csv --what top -o x.csv --overwrite", "--top --prompt"),
    ("export R --to npz --what top -o x.npz --overwrite", "--top"),
    ("show R", "--prompt --top"),
    ("show R L0H0", "--row --cell"),
    ("report R", "--top --prompt"),
    ("diff R R", "--prompt --other --rows --top"),
    ("plot R L0H0 -o x.png --overwrite", "--row --cell --dpi --prompt"),
    ("learn the", "--d-k --d-v --heads --token"),
    ("learn", "--exercise"),
    ("bench cpu --tokens 16 --dims 8", "--seconds"),
    ("bench cpu --seconds 0.01", "--tokens --dims"),
]
FILES = [
    "show P", "report P", "diff P P", "plot P", "export P --to csv", "verify P", "grade P",
    "learn the --embeddings P", "learn the --projections P", "record R --file P",
    "record R --documents P", "verify P --repair", "view P --no-open", "play R --script P",
    "check R --batch P",
]  # fmt: skip
OUTPUTS = [
    "export R --to csv -o P", "export R --to npz -o P", "plot R -o P", "report R -o P",
    "learn the --save P", "learn --exercise 3 --save P", "grade M --csv P",
]  # fmt: skip
ENDINGS = {"plot": ".png", "report": ".html", "learn": ".md"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to be in, with a recording and a calculation."""
    monkeypatch.chdir(tmp_path)
    on_disk(tmp_path / "run.regard")
    (tmp_path / "hand.md").write_text("# tokens\n\n| a | b |\n")
    return tmp_path


def words_of(line: str, path: object = "") -> list[str]:
    put = {"R": "run.regard", "M": "hand.md", "P": str(path)}
    return [put.get(word, word) for word in line.split()]


def loops(place: Path, ending: str = "") -> None:
    """Links that lead to themselves, at once and by a detour."""
    for name, to in {"loop": "loop", "there": "back", "back": "there"}.items():
        (place / f"{name}{ending}").symlink_to(f"{to}{ending}")


@pytest.mark.parametrize(("line", "options"), NUMBERS, ids=[line for line, _ in NUMBERS])
def test_absurd_numbers(shell, place, line, options):
    for option in options.split():
        for number in ABSURD:
            status, _, err = shell(*words_of(line), option, number)
            assert status in (0, 1, 2), (option, number, err)
            lines = [one for one in err.splitlines() if one.startswith("regard:")]
            assert "Traceback" not in err and len(lines) == (status == 2), (option, number, err)


@pytest.mark.parametrize("line", FILES)
def test_what_is_no_file_is_not_read(shell, place, line):
    os.mkfifo(place / "pipe")
    (place / "link").symlink_to("/dev/zero")
    loops(place)
    for path in ("pipe", "link", LONG, f"{LONG}/a", "none", "loop", "there", "loop/a"):
        status, out, err = shell(*words_of(line, path))
        lines = err.splitlines() + out.splitlines()
        assert status in (2, 3), (path, err)
        assert "Traceback" not in err and len(lines) <= 2 and max(map(len, lines)) < 700, err


@pytest.mark.parametrize("line", OUTPUTS)
def test_what_is_no_file_is_not_replaced(shell, place, line):
    ending = ENDINGS.get(line.split()[0], ".csv")
    os.mkfifo(place / f"pipe{ending}")
    (place / f"link{ending}").symlink_to("/dev/null")
    (place / f"folder{ending}").mkdir()
    (place / f"mine{ending}").write_text("mine")
    loops(place, ending)
    before = {path.name: path.lstat().st_mode for path in place.iterdir()}
    device = Path("/dev/null").stat()
    for name in ("pipe", "link", "folder"):
        status, _, err = shell(*words_of(line, f"{name}{ending}"), "--overwrite")
        assert status in (2, 3) and "not a file" in err, err
    odd = [f"{name}{ending}" for name in (LONG, "none/a", "loop", "there", f"loop{ending}/a")]
    for path in (f"mine{ending}", *odd):
        status, _, err = shell(*words_of(line, path))
        assert status in (2, 3) and err.count("\n") <= 2 and len(err) < 1400, err
        assert "Traceback" not in err
    assert "exists already" in shell(*words_of(line, f"mine{ending}"))[2]
    assert (place / f"mine{ending}").read_text() == "mine"
    assert {path.name: path.lstat().st_mode for path in place.iterdir()} == before
    assert Path("/dev/null").stat().st_rdev == device.st_rdev
    status, _, err = shell(*words_of(line, f"mine{ending}"), "--overwrite")
    assert status in (0, 1, 2) and "exists already" not in err
