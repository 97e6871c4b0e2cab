"""Inputs are found from a signature, and padding leaves what was there in its order."""

from __future__ import annotations

import torch

from support.families.build import build
from support.families.inputs import accepted
from support.families.words import SHORTER, padded


def test_image_tokens_are_as_many_as_features():
    model = build("llava")
    inputs = accepted(model)
    places = (inputs["input_ids"] == model.config.image_token_index).sum(1)
    assert places.tolist() == [16, 16]
    assert inputs["pixel_values"].shape[:2] == (2, 3)


def test_patches_come_with_their_grid():
    inputs = accepted(build("qwen2_vl"))
    assert inputs["pixel_values"].shape[0] == inputs["image_grid_thw"].prod(1).sum()
    assert inputs["mm_token_type_ids"].sum(1).tolist() == [4, 4]


def test_sound_and_a_decoder():
    assert set(accepted(build("whisper"))) == {"input_features", "decoder_input_ids"}


def test_padding_stands_on_its_side_and_moves_nothing_else():
    ids = torch.arange(2 * 13).reshape(2, 13) + 1
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    left, right = padded(given, "left", 0), padded(given, "right", 0)
    assert left["attention_mask"].sum(1).tolist() == [13 - SHORTER, 13]
    assert left["input_ids"][0, :SHORTER].tolist() == [0] * SHORTER
    assert right["input_ids"][0, -SHORTER:].tolist() == [0] * SHORTER
    real = left["input_ids"][0][left["attention_mask"][0].bool()]
    assert real.equal(right["input_ids"][0][right["attention_mask"][0].bool()])
    assert real.equal(torch.cat([ids[0, :2], ids[0, 2 + SHORTER :]]))  # places at the front stay
    assert left["input_ids"][1].equal(ids[1])


def test_a_mask_of_something_else_is_not_padded():
    assert padded({"pixel_values": torch.ones(2, 3, 4, 4)}, "left", 0) is None
