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


def test_scenes_are_what_their_captions_and_patches_say():
    for scene in scenes.Scenes(3).draw(100):
        (y, x), (v, u) = scene.corners
        first, second = (scenes.WORDS[n] for n in scene.digits)
        beside = u - x >= abs(v - y)
        assert first != second and (beside or v > y)
        assert scene.caption == f"{first} {'left of' if beside else 'above'} {second}"
        bright = scene.canvas.reshape(8, 8, 8, 8).mean((1, 3))
        marked = scene.patches(0) | scene.patches(1)
        assert scene.patches(0).sum() == scene.patches(1).sum() == 4 and marked.sum() == 8
        assert bright[marked].mean() > 3 * bright[~marked].mean()
        ids = models.token_ids([scene], torch.nn.Linear(1, 1))[0].tolist()
        words = [models.VOCABULARY[ids[row + 1]] for row in vision.naming_rows(scene)]
        assert words == [first, second]  # rows that name a digit stand before its name


# ── what is left in the folder ───────────────────────────────────────────────────────────────


def test_a_run_says_how_well_it_went_and_leaves_recordings(made):
    folder, out = made
    assert "both digits right on" in out and "caption right on" in out
    assert "at the digit it names" in out and "chance" in out
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


def test_the_processor_and_the_command_line_read_the_folder(made, tmp_path):
    folder, _ = made
    loaded = regard.models.load(str(folder / "captioner"))
    (scene,) = scenes.Scenes(6).draw(1)
    text = f"<image>{models.PROMPT} {scene.caption}"
    inputs = loaded.processor(text=[text], images=[scene.rgb], return_tensors="pt")
    ids = models.token_ids([scene], loaded.model)[:, : inputs["input_ids"].shape[1]]
    assert torch.equal(inputs["input_ids"], ids)
    given = models.pixels([scene], loaded.model)
    torch.testing.assert_close(inputs["pixel_values"], given, atol=1e-6, rtol=0)
    words = ["record", folder / "captioner", "--image", folder / "canvas-1.png", "--text"]
    words += [models.PROMPT, "--generate", "2", "-o", tmp_path / "a.regard"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    (prompt,) = regard.open(tmp_path / "a.regard").prompts
    assert prompt.axes("L0")[1].parts[0] == Grid(8, 8)
    assert prompt["L0H0"].key_names[64:67] == ["the", "picture", "shows"]


def test_a_head_learns_to_look_at_the_digits():
    torch.manual_seed(0)
    model = models.namer(width=32, layers=1)
    models.teach_namer(model, scenes.Scenes(0), 200, Console(stderr=True))
    some = scenes.Scenes(1, held_out=True).draw(16)
    best = vision.class_looks(vision.watch_namer(model, some).prompts, some)[0]
    assert best.chance == pytest.approx(8 / 65) and best.there > 0.6
