"""Models of diffusion: what their positions stand for, and which step a prompt is."""

from __future__ import annotations

import pytest
import torch
from diffusers import UNet2DConditionModel

import regard
from denoisers import WORDS, denoiser
from regard.axes import Axis, Grid, Tokens


def latents(high, wide):
    return Grid(high, wide, picture=-1)


TEXT = Tokens(WORDS)
DOWN, MID = "down_blocks.*.attentions.*.transformer_blocks.*", "mid_block.attentions.*"
EXPECTED = {
    "unet": {
        "L0": (latents(16, 24), latents(16, 24)),
        f"{DOWN}.attn2.L0": (latents(16, 24), TEXT),
        f"{MID}.transformer_blocks.*.attn2.L0": (latents(8, 12), TEXT),
    },
    "wide_unet": {f"{DOWN}.attn2.L0": (latents(16, 24), TEXT)},
    "dit": {"L1": (latents(8, 8), latents(8, 8))},
    "pixart": {
        "L0": (latents(8, 8), latents(8, 8)),
        "transformer_blocks.*.attn2.L1": (latents(8, 8), TEXT),
    },
    "sd3": {"L1": ([latents(8, 6), TEXT], [latents(8, 6), TEXT])},
    "flux": {
        "L0": ([TEXT, latents(4, 6)], [TEXT, latents(4, 6)]),
        "single_transformer_blocks.*.attn.L0": ([TEXT, latents(4, 6)], [TEXT, latents(4, 6)]),
    },
}


@pytest.mark.parametrize("name", EXPECTED)
def test_queries_are_places_of_the_latents_and_keys_words(name):
    model, inputs = denoiser(name)
    with regard.record(model) as rec, torch.no_grad():
        model(**inputs)
    for label, (queries, keys) in EXPECTED[name].items():
        assert rec.prompts[0].axes(label) == (Axis.of(queries), Axis.of(keys)), label


def test_a_denoiser_inside_somebody_elses_model():
    model, inputs = denoiser("pixart")
    around = torch.nn.ModuleDict({"transformer": model})
    with regard.record(around) as rec, torch.no_grad():
        around["transformer"](**inputs)
    assert rec.prompts[0].axes("L0")[0] == Axis((latents(8, 8),))


def test_a_text_as_long_as_a_grid_is_still_a_text():
    model, inputs = denoiser("unet")
    for count in (96, 384, 4):  # of the mid block's grid, of the first, of the latents' channels
        inputs["encoder_hidden_states"] = torch.randn(1, count, 12)
        with regard.record(model) as rec, torch.no_grad():
            model(**inputs)
        for label in (f"{DOWN}.attn2.L0", f"{MID}.transformer_blocks.*.attn2.L0"):
            assert rec.prompts[0].places[label].kind == "cross"
            assert rec.prompts[0].axes(label)[1] == Axis((Tokens(count),))


def test_each_step_is_a_prompt_of_each_sequence():
    model, inputs = denoiser("unet", batch=2)
    with regard.record(model) as rec, torch.no_grad():
        for when in (981, torch.tensor(961)):
            model(**inputs | {"timestep": when})
    assert [prompt.note.facts["diffusion"] for prompt in rec.prompts] == [
        {"step": step, "timestep": when, "sequence": n, "of": 2, "latents": [16, 24]}
        for step, when in enumerate((981.0, 961.0))
        for n in (0, 1)
    ]


def test_the_words_of_the_text_are_the_keys(tmp_path):
    class Tokenizer:
        all_special_ids = ()

        def decode(self, ids):
            return "".join(f"w{n} " for n in ids)

        def convert_ids_to_tokens(self, n):
            return f"w{n}</w>"

    model, inputs = denoiser("unet", batch=2)
    assert isinstance(model, UNet2DConditionModel)
    ids = torch.stack([torch.zeros(WORDS), torch.arange(WORDS)]).long()
    with regard.record(model, tmp_path / "a.regard", tokenizer=Tokenizer()) as rec, torch.no_grad():
        rec.steer(ids)
        model(**inputs)
        model(**inputs)
    with regard.open(tmp_path / "a.regard") as found:
        for prompt in found.prompts:
            head = prompt[f"{DOWN}.attn2.L0H0"]
            first = [f"w{n}" for n in ids[prompt.number % 2].tolist()]
            assert [text.strip() for text in head.key_tokens] == first
            assert head.query_tokens is None and prompt["L0H0"].key_tokens is None
