"""`regard plot` as a shell sees it: every picture written and described, and what goes wrong."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from regard.mask import Causal
from regard.recording import Writer
from support.recordings import HOSTILE, WORDS, Chunk, on_disk, write, write_prompt

SCALE = "one token a cell; × even share (at most 12 keys), log 0.1–12"
PICTURES = {
    "head": (["L0H1"], "run-L0H1.png", (1280, 1280)),
    "kept head": (["L1H1"], "run-L1H1.png", (1280, 1280)),
    "row": (["L0H1", "--row", "-1"], "run-L0H1-row-1.png", (896, 1280)),
    "usual grid": ([], "run-off-sinks.png", (1024, 1280)),
    "grid": (["--grid", "previous"], "run-previous.png", (1024, 1280)),
    "entropy": (["--entropy"], "run-entropy.png", (800, 1280)),
    "another prompt": (["L0H1", "--prompt", "1"], "run-P1-L0H1.png", (1280, 1280)),
}


@pytest.fixture
def file(tmp_path):
    """A recording of two layers; of the second only summaries were kept."""
    return on_disk(tmp_path / "run.regard", prompts=2)


@pytest.fixture
def plot(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "plot")


@pytest.fixture
def fails(plot, tmp_path):
    """The one line a wrong command ends with; nothing is left behind."""

    def run(*words: object, status: int = 2) -> str:
        before = sorted(tmp_path.rglob("*"))
        found, out, err = plot(*words)
        assert (found, out) == (status, "")
        assert err.startswith("regard: ") and err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before
        return err.strip()

    return run


# ── pictures ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("words", "name", "shape"), PICTURES.values(), ids=PICTURES)
def test_every_picture_lies_beside_the_recording(plot, file, tmp_path, words, name, shape):
    status, out, err = plot(file, *words)
    assert (status, err) == (0, "")
    assert out.startswith(f"written: {tmp_path / name} ({shape[1]}×{shape[0]} pixels; ")
    assert imread(tmp_path / name).shape[:2] == shape
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run.regard", name])


def test_it_says_scale_and_pooling(plot, file):
    assert plot(file, "L0H1")[1].endswith(f"pixels; {SCALE})\n")
    assert "weight, linear 0–" in plot(file, "L0H1", "--raw", "--overwrite")[1]
    out = plot(file, "L0H1", "--cell", 4, "--max", "--overwrite")[1]
    assert "max of 4×4 tokens a cell; × even share" in out
    for name in ("previous", "on the token before", "On-the-token-before"):
        said = plot(file, "--grid", name, "--overwrite")[1]
        assert "on the token before: mass on the token before" in said


def test_a_grid_with_holes_says_why(plot, file, monkeypatch):
    assert plot(file)[2] == ""
    why = "for want of keys"
    monkeypatch.setattr(
        "regard.views.text.why_unknown", lambda _, name: why if name == "non_sink" else ""
    )
    assert plot(file, "--overwrite")[2] == f"{why}\n"
    assert plot(file, "--grid", "previous")[2] == plot(file, "L0H1")[2] == ""


def test_svg_by_its_name(plot, file, tmp_path):
    path = tmp_path / "figure.svg"
    assert plot(file, "L0H1", "-o", path)[0] == 0
    assert ElementTree.parse(path).getroot().get("viewBox") == "0 0 576 576"


def test_size_dpi_and_dark(plot, file, tmp_path):
    path = tmp_path / "a.png"
    assert plot(file, "L0H1", "-o", path, "--size", "3.3x3", "--dpi", 100, "--dark")[0] == 0
    pixels = imread(path)
    assert pixels.shape[:2] == (300, 330)
    assert (255 * pixels[0, 0, :3]).round().tolist() == [0x15, 0x16, 0x1A]


def test_json(plot, file, tmp_path):
    status, out, err = plot(file, "L0H1", "--row", 3, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "file": str(tmp_path / "run-L0H1-row3.png"), "picture": "row", "prompt": 0, "head": "L0H1",
        "row": 3, "key": None, "statistic": None, "width": 1280, "height": 896,
        "says": ["row 3 sees 4 keys; weight, linear"],
    }  # fmt: skip
    assert json.loads(plot(file, "--json")[1])["statistic"] == "non_sink"


def test_the_same_command_writes_the_same_bytes(plot, file, tmp_path):
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        assert plot(file, "L0H1", "-o", tmp_path / name)[0] == 0
    for kind in ("svg", "png"):
        one, other = ((tmp_path / f"{name}.{kind}").read_bytes() for name in "ab")
        assert one == other


def test_a_folder_of_ranks(plot, tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    on_disk(folder / "rank-0000.regard")
    assert plot(folder, "L0H1")[0] == 0
    assert (tmp_path / "ranks-L0H1.png").exists()


def test_hostile_tokens_are_drawn_and_never_written(plot, tmp_path):
    file = on_disk(tmp_path / "hostile.regard", HOSTILE)
    for words in (["L0H1"], ["L0H1", "--row", 7], []):
        status, out, err = plot(file, *words)
        assert (status, err) == (0, "") and "\x1b" not in out


def test_stacks(plot, fails, tmp_path):
    file = tmp_path / "run.regard"
    with Writer(file) as writer:
        write(writer, WORDS, layers=1, stack="encoder")
        chunks = [Chunk((0, 12), (0, 12), Causal())]
        write_prompt(writer, chunks, stack="decoder", tokens=False, note=False)
    assert "stacks decoder, encoder; give one with --stack" in fails(file, "--grid", "sink")
    assert plot(file, "--grid", "sink", "--stack", "decoder")[0] == 0
    assert plot(file, "decoder.L0H1")[0] == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"run.regard", "run-decoder-sink.png", "run-decoder.L0H1.png"}


def test_a_long_computation_is_announced(plot, file, monkeypatch):
    monkeypatch.setattr("regard.cli.terminal._SLOW", 10)
    status, _, err = plot(file, "L0H1", "--max")
    assert status == 0 and err.startswith("computing the map of L0H1")
    assert plot(file, "L0H1", "--cell", 16, "--overwrite")[2] == ""  # it was kept


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────


def test_an_existing_file_stays(plot, fails, file, tmp_path):
    path = tmp_path / "run-L0H1.png"
    path.write_text("precious")
    assert "exists already; give another name, or --overwrite" in fails(file, "L0H1")
    assert path.read_text() == "precious"
    assert plot(file, "L0H1", "--overwrite")[0] == 0
    assert imread(path).ndim == 3


def test_the_recording_itself_is_never_written_over(fails, tmp_path):
    file = on_disk(tmp_path / "run.png")
    assert "the recording itself" in fails(file, "L0H1", "-o", file, "--overwrite")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--row", 3], "--row is about one head; name it"),
        (["L0H1", "--entropy"], "--entropy is about all heads; leave out 'L0H1'"),
        (["L0H1", "--grid", "sink"], "--grid is for a picture of all heads, and this is one of a"),
        (["--cell", 4], "--cell is for a picture of a head, and this is one of all heads"),
        (["--entropy", "--raw"], "--raw is for a picture of a head or a row"),
        (["--entropy", "--grid", "sink"], "--grid is for a picture of all heads"),
        (["L0H1", "--row", 3, "--max"], "--max is for a picture of a head"),
        (["L0H1", "--stack", "x"], "--stack is for a picture of all heads"),
        (["L9H1"], "layer 9 does not exist; this recording has 0–1"),
        (["nonsense"], "'nonsense' names no head"),
        (["L0H1", "--row", 99], "row 99 does not exist; L0H1 has 0–11"),
        (["L0H1", "--prompt", 7], "prompt 7 does not exist; this recording has 0–1"),
        (["--prompt", 7], "prompt 7 does not exist"),
        (["--grid", "nonsense"], "no statistic 'nonsense'; there are on sinks"),
        (["--stack", "cross"], "there is no stack 'cross'"),
        (["L0H1", "--cell", 0], "a cell of 0 tokens; give a number ≥ 1"),
        (["L1H1", "--cell", 3], "budget of 1 kB"),
        (["L0H1", "--size", "large"], "--size 'large': give width and height in inches"),
        (["L0H1", "--size", "1x1"], "give sides of 2.5–60 inches"),
        (["L0H1", "--dpi", 3], "give 30–1200 dpi"),
        (["L0H1", "-o", "a.jpg"], "'a.jpg' is not the name of a picture; give a.png or a.svg"),
    ],
)
def test_wrong_words(fails, file, words, message):
    assert message in fails(file, *words)


def test_words_that_typer_refuses(plot, file):
    status, _, err = plot(file, "L0H1", "--dpi", "many")
    assert status == 2 and err.splitlines() == ["regard: --dpi many: give a whole number"]


def test_no_recording(fails, tmp_path):
    assert "no such file" in fails(tmp_path / "gone.regard", "L0H1", status=3)
    (tmp_path / "text.regard").write_text("not a recording")
    fails(tmp_path / "text.regard", status=3)


def test_nothing_recorded_yet(fails, tmp_path):
    with Writer(tmp_path / "empty.regard") as writer:
        writer.note({"contents": "attention/1"})
    assert "nothing was recorded yet" in fails(tmp_path / "empty.regard")


def test_a_folder_that_cannot_be_written_to(fails, file, tmp_path):
    gone = tmp_path / "no" / "such" / "a.png"
    assert "cannot be written there" in fails(file, "L0H1", "-o", gone, status=3)
    (tmp_path / "folder.png").mkdir()
    assert "a folder, not a file; give" in fails(file, "-o", tmp_path / "folder.png")


def test_a_picture_that_fails_half_way_leaves_nothing(file, plot, monkeypatch, tmp_path):
    from matplotlib.figure import Figure

    def broken(self, path, **_):
        path.write_bytes(b"half")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Figure, "savefig", broken)
    status, out, err = plot(file, "L0H1")
    assert (status, out) == (3, "") and "cannot be written (No space left on device)" in err
    assert [path.name for path in tmp_path.iterdir()] == ["run.regard"]


def test_without_matplotlib_the_extra_is_named(fails, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = fails(file, "L0H1")
    assert "needs the package 'matplotlib'" in message
    assert message.endswith("pip install 'regard[plot]'")


def test_help_loads_no_matplotlib():
    import subprocess

    code = (
        "import sys; sys.argv = ['regard', 'plot', '--help']\n"
        "import regard.cli\n"
        "try: regard.cli.main()\n"
        "except SystemExit: assert 'matplotlib' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
