"""Models that learn to see digits: what they read and leave, and that their heads find them."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

import regard
from examples.scripts import call, load
from regard.axes import Axis, Grid, Tokens
from regard.cli import app

scenes, models, vision = load("digit_scenes"), load("digit_models"), load("vision")

GRID = Grid(8, 8, prefix=1, names=("class",))
TINY = ("--steps", "3", "--caption-steps", "3", "--width", "16", "--tested", "20")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a run that learnt next to nothing, and what it printed."""
    folder = tmp_path_factory.mktemp("vision") / "digits"
    status, out = call(vision, *TINY, "--canvases", "2", "--folder", str(folder))
    assert status == 0, out
    return folder, out


# ── canvases ─────────────────────────────────────────────────────────────────────────────────


def test_captions_say_where_the_digits_lie():
    for scene in scenes.Scenes(3).draw(200):
        (y, x), (v, u) = scene.corners
        first, second = (scenes.WORDS[n] for n in scene.digits)
        assert first != second
        if u - x >= abs(v - y):
            assert scene.caption == f"{first} left of {second}"
        else:
            assert v > y and scene.caption == f"{first} above {second}"


def test_a_digits_patches_are_where_it_is_bright():
    for scene in scenes.Scenes(4).draw(50):
        bright = scene.canvas.reshape(8, 8, 8, 8).mean((1, 3))
        marked = scene.patches(0) | scene.patches(1)
        assert scene.patches(0).sum() == scene.patches(1).sum() == 4
        assert marked.sum() == 8
        assert bright[marked].mean() > 3 * bright[~marked].mean()


def test_the_same_seed_draws_the_same_and_held_out_digits_are_others():
    one, other = (scenes.Scenes(5).draw(20) for _ in range(2))
    assert all(np.array_equal(a.canvas, b.canvas) for a, b in zip(one, other, strict=True))
    learnt, held_out = scenes.Scenes(5)._pictures, scenes.Scenes(5, held_out=True)._pictures
    known = {picture.tobytes() for picture in learnt}
    assert not any(picture.tobytes() in known for picture in held_out)
    assert len(learnt) + len(held_out) == 1797


# ── what is left in the folder ───────────────────────────────────────────────────────────────


def test_a_run_says_how_well_it_went(made):
    _, out = made
    assert "both digits right on" in out and "caption right on" in out
    assert "at the digit it names" in out and "chance" in out


def test_recordings_have_axes_and_pictures(made):
    folder, _ = made
    seen = regard.open(folder / "namer.regard")
    assert len(seen.prompts) == 2
    assert seen.prompts[1]["L2H3"].key_axis == Axis((GRID,))
    read = regard.open(folder / "captioner.regard")
    assert len(read.prompts) == 2
    for number, prompt in enumerate(read.prompts):
        words = len(prompt["L1H0"].key_axis) - 64
        assert prompt.axes("L1") == (Axis((Grid(8, 8), Tokens(words))),) * 2
        assert prompt.axes("vision.L0")[0] == Axis((GRID,))
        kept = np.asarray(Image.open(io.BytesIO(prompt.picture())).convert("RGB"))
        canvas = np.asarray(Image.open(folder / f"canvas-{number + 1}.png"))
        assert np.array_equal(kept, canvas)
        assert prompt["L0H0"].key_names[64:67] == ["the", "picture", "shows"]


def test_the_processor_reads_what_the_models_were_taught(made):
    folder, _ = made
    loaded = regard.models.load(str(folder / "captioner"))
    (scene,) = scenes.Scenes(6).draw(1)
    text = f"<image>{models.PROMPT} {scene.caption}"
    inputs = loaded.processor(text=[text], images=[scene.rgb], return_tensors="pt")
    ids = models.token_ids([scene], loaded.model)[:, : inputs["input_ids"].shape[1]]
    assert torch.equal(inputs["input_ids"], ids)
    given = models.pixels([scene], loaded.model)
    torch.testing.assert_close(inputs["pixel_values"], given, atol=1e-6, rtol=0)


def test_the_command_line_reads_the_folder(made, tmp_path):
    folder, _ = made
    path = tmp_path / "a.regard"
    words = ("--text", models.PROMPT, "--generate", "2", "-o", str(path))
    done = CliRunner().invoke(
        app, ["record", str(folder / "captioner"), "--image", str(folder / "canvas-1.png"), *words]
    )
    assert done.exit_code == 0, done.output
    (prompt,) = regard.open(path).prompts
    assert prompt.axes("L0")[1].parts[0] == Grid(8, 8)
    assert prompt["L0H0"].key_names[64:67] == ["the", "picture", "shows"]


# ── what heads look at ───────────────────────────────────────────────────────────────────────


def test_the_rows_that_name_a_digit_stand_before_its_name():
    for scene in scenes.Scenes(7).draw(20):
        ids = models.token_ids([scene], torch.nn.Linear(1, 1))[0].tolist()
        words = [models.VOCABULARY[ids[row + 1]] for row in vision.naming_rows(scene)]
        assert words == [scenes.WORDS[n] for n in scene.digits]


def test_a_head_learns_to_look_at_the_digits():
    torch.manual_seed(0)
    model = models.namer(width=32, layers=1)
    models.teach_namer(model, scenes.Scenes(0), 200, Console(stderr=True))
    some = scenes.Scenes(1, held_out=True).draw(16)
    best = vision.class_looks(vision.watch_namer(model, some).prompts, some)[0]
    assert best.chance == pytest.approx(8 / 65)
    assert best.there > 0.6


def test_wrong_options_are_usage_errors():
    assert call(vision, "--steps", "0")[0] == 2
    assert call(vision, "--width", "12")[0] == 2
    assert call(vision, "--help")[0] == 0
