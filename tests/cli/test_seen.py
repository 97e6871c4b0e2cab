"""`regard record --image … --without …`: the answer with a region of the picture hidden."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

import regard
from regard.axes import Box
from regard.cli.seen import parse_boxes
from regard.errors import InputError
from regard.intervene import without_region
from regard.recorder.pictures import read_picture


@pytest.fixture
def seeing(tmp_path, monkeypatch):
    """A small classifier of pictures in a folder, and a picture."""
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, num_labels=3, initializer_range=0.5,
    )  # fmt: skip
    ViTForImageClassification(config).save_pretrained(tmp_path / "model")
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "model")
    Image.linear_gradient("L").convert("RGB").resize((60, 40)).save(tmp_path / "a.png")
    return tmp_path


def test_the_answer_without_a_region(seeing, shell):
    asked = ("model", "--image", "a.png", "-o", "a.regard", "--without", "0,0,0.5,1", "--json")
    status, out, err = shell("record", *asked)
    assert status == 0, err
    (told,) = json.loads(out)["without"]
    model = ViTForImageClassification.from_pretrained(seeing / "model").eval()
    processor = ViTImageProcessor.from_pretrained(seeing / "model")
    inputs = processor(images=[read_picture(seeing / "a.png")], return_tensors="pt")
    effect = without_region(model, inputs, Box(0, 0, 0.5, 1))
    assert told["kl"] == pytest.approx(effect.kl, abs=1e-6)
    assert told["after"][0]["after"] == pytest.approx(effect.after[0].after, abs=1e-6)
    with regard.open(seeing / "a.regard") as rec:
        assert len(rec.prompts) == 1  # what the region's absence changes is told, not recorded
    status, out, _ = shell("record", *asked[:-1], "--overwrite")
    assert status == 0 and "a.png: without rows 0.0–0.5, columns 0.0–1.0 the answer" in out


@pytest.mark.parametrize("size", [(1, 1), (50, 1), (50, 3), (1, 50)])
def test_pictures_as_high_as_there_are_colours_are_read(size, seeing, shell):
    """Of an array (3, 50, 3) nobody could say which axis the colours are."""
    from PIL import Image

    Image.new("RGB", size, "red").save("thin.png")
    status, _, err = shell("record", "model", "--image", "thin.png", "-o", "thin.regard")
    assert status == 0, err


def test_a_processors_refusal_is_one_line(seeing, shell, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("absolute aspect ratio must be smaller than 200\nand more")

    monkeypatch.setattr(type(ViTImageProcessor.from_pretrained("model")), "__call__", refuse)
    status, _, err = shell("record", "model", "--image", "a.png", "-o", "b.regard")
    assert status == 2 and "does not take it: absolute aspect ratio must" in err
    assert "Traceback" not in err and "and more" not in err
    assert not (seeing / "b.regard").exists()


def test_a_model_of_pictures_says_how_it_is_given_one(seeing, shell):
    status, _, err = shell("record", "model", "--text", "hi")
    assert status == 2 and "give it a picture with --image FILE" in err


@pytest.mark.parametrize(
    "text", ["", "1", "0,0,1", "a,b,c,d", "0,0,2,1", "0.5,0,0.2,1", "0,0,1,1,1"]
)
def test_what_is_no_region_is_one_line(text):
    with pytest.raises(InputError, match=r"--without .*: give TOP,LEFT,BOTTOM,RIGHT") as caught:
        parse_boxes([text])
    assert "\n" not in str(caught.value)


def test_a_text_has_no_region(shell):
    status, _, err = shell("record", "smollm2", "--text", "hi", "--without", "0,0,1,1")
    assert status == 2 and "give --image FILE as well" in err
