"""Whose rows and keys a call holds: padding, caches, several stacks, some of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from installed import needs
from recorder.models import tiny, tokens
from recorder.truth import agrees, eager
from regard.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
_QUIET = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def left_padded(*lengths: int) -> tuple[Tensor, Tensor]:
    """Ids and their attention_mask."""
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for number, length in enumerate(lengths):
        ids[number, max(lengths) - length :] = tokens(length, seed=number)
    return ids, (ids != 0).long()


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {"num_key_value_heads": 2}),
        ("gemma2", {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 16}),
    ],
)
def test_a_padded_batch_writes_on(family: str, options: dict[str, Any], cache: str | None) -> None:
    model = tiny(family, **options)
    ids, mask = left_padded(30, 18, 1)
    with torch.no_grad(), regard.record(model) as rec:
        out = model.generate(
            ids, attention_mask=mask, max_new_tokens=5, cache_implementation=cache, **_QUIET
        )
    for number, length in enumerate((30, 18, 1)):
        alone = out[number : number + 1, 30 - length : -1]
        prompt = rec.recording.prompts[number]
        assert prompt.ids.tolist() == alone[0].tolist()
        for layer, weights in enumerate(eager(model, input_ids=alone).attentions):
            agrees(prompt[layer, 2], weights[0, 2], alone[0], atol=3e-5)


def test_entries_without_padding_stay_one_segment() -> None:
    model = tiny("llama")
    ids, mask = left_padded(30, 18)
    with torch.no_grad(), regard.record(model) as rec:
        model.generate(ids, attention_mask=mask, max_new_tokens=5, **_QUIET)
    assert [len(p["L0H0"].place.segments) for p in rec.recording.prompts] == [1, 1]


def test_holes_in_a_mask_stay_hidden() -> None:
    model, ids = tiny("llama"), tokens(20)
    mask = torch.ones(1, 20, dtype=torch.long)
    mask[0, :3] = mask[0, 8:11] = 0
    weights = eager(model, input_ids=ids, attention_mask=mask).attentions[1][0, 2].clone()
    weights[8:11] = 0  # a padded query sees nothing here
    with torch.no_grad(), regard.record(model) as rec:
        model(ids, attention_mask=mask)
    agrees(rec["L1H2"], weights[3:, 3:], ids[0, 3:])


def test_encoders_padded_on_the_right() -> None:
    model, ids = tiny("bert"), tokens(40, 2)
    mask = torch.ones(2, 40, dtype=torch.long)
    mask[0, 12:] = 0
    truth = eager(model, input_ids=ids, attention_mask=mask).attentions
    with torch.no_grad(), regard.record(model) as rec:
        model(ids, attention_mask=mask)
    for number, length in enumerate((12, 40)):
        weights = truth[1][number, 3, :length, :length]
        agrees(rec.recording.prompts[number]["L1H3"], weights, ids[number, :length])


def test_padding_between_prompt_and_answer_is_refused() -> None:
    model, ids = tiny("llama"), tokens(10, 2)
    mask = torch.ones(2, 10, dtype=torch.long)
    mask[0, 6:] = 0
    with pytest.raises(InputError, match="on the left"), torch.no_grad(), regard.record(model):
        model.generate(ids, attention_mask=mask, max_new_tokens=3, **_QUIET)


# ── encoder-decoders and towers ──────────────────────────────────────────────────────────────


def bart() -> Any:
    import transformers

    torch.manual_seed(0)
    sides = {f"{s}_{n}": k for s in ("encoder", "decoder")
             for n, k in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 32))}  # fmt: skip
    config = transformers.BartConfig(
        d_model=32, vocab_size=50, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None, **sides,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config).eval()


@pytest.mark.parametrize("queries", [None, "2:4"])
@pytest.mark.parametrize("at_once", [True, False])
def test_padded_texts_are_translated(at_once: bool, queries: str | None) -> None:
    model, ids = bart(), tokens(20, 2)
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, 13:] = 0
    with torch.no_grad():
        out = model.generate(ids, attention_mask=mask, max_new_tokens=6, **_QUIET)[:, :-1]
        given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": out}
        with regard.record(model, queries=queries) as rec:
            if at_once:
                model(**given)
            else:
                model.generate(ids, attention_mask=mask, max_new_tokens=6, **_QUIET)
    truth = eager(model, **given)
    for number, length in enumerate((20, 13)):
        prompt, read = rec.recording.prompts[number], ids[number, :length]
        inside = truth.encoder_attentions[1][number, 1, :length, :length]
        agrees(prompt["encoder.L1H1"], inside, read)
        agrees(prompt["decoder.L1H1"], truth.decoder_attentions[1][number, 1], out[number])
        across = prompt["cross.L1H1"]
        agrees(across, truth.cross_attentions[1][number, 1, :, :length])
        assert (len(across.query_tokens), len(across.key_tokens)) == (6, length)


def test_the_last_rows_of_every_stack() -> None:
    model = bart()
    with torch.no_grad(), regard.record(model, queries=3) as rec:
        model(input_ids=tokens(20), decoder_input_ids=tokens(6))
    rows = {label: place.rows for label, place in rec.places.items() if label.endswith("L0")}
    assert rows == {"cross.L0": (3, 6), "decoder.L0": (3, 6), "encoder.L0": (17, 20)}


def test_pictures_are_no_tokens() -> None:
    import transformers

    needs("transformers", "5.2", "CLIP hands out its attention")

    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 32}
    text = sizes | {"num_hidden_layers": 2, "vocab_size": 50, "max_position_embeddings": 40,
                    "bos_token_id": 0, "eos_token_id": 2}  # fmt: skip
    vision = sizes | {"num_hidden_layers": 3, "image_size": 12, "patch_size": 4}
    model = transformers.CLIPModel(
        transformers.CLIPConfig(text_config=text, vision_config=vision)
    ).eval()
    ids, mask = tokens(12), torch.ones(1, 12, dtype=torch.long)
    mask[0, 7:] = 0
    given = {"input_ids": ids, "attention_mask": mask, "pixel_values": torch.randn(1, 3, 12, 12)}
    truth = eager(model, **given)
    with torch.no_grad(), regard.record(model) as rec:
        model(**given)
    agrees(rec["text.L1H1"], truth.text_model_output.attentions[1][0, 1, :7, :7], ids[0, :7])
    agrees(rec["vision.L2H1"], truth.vision_model_output.attentions[2][0, 1])
    assert rec["vision.L2H1"].query_tokens is None


@pytest.mark.parametrize("queries", [None, "3:9"])
def test_windows_of_a_picture_are_heads(queries: str | None) -> None:
    import transformers

    needs("transformers", "5.9", "Swin dispatches its attention")

    torch.manual_seed(0)
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2], num_heads=[2], window_size=4
    )
    model = transformers.SwinModel(config).eval()
    for name, table in model.named_parameters():
        if "relative_position_bias_table" in name:
            torch.nn.init.normal_(table)
    picture = torch.randn(2, 3, 32, 32)
    truth = eager(model, pixel_values=picture).attentions[0]  # of the last, shifted layer
    with torch.no_grad(), regard.record(model, queries=queries) as rec:
        model(pixel_values=picture)
    for window in range(4):
        agrees(rec.recording.prompts[1][1, 2 * window + 1], truth[4 + window, 1])


# ── some of the rows ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("queries", ["0:20", "50:72", "70:90", "95:", 3])
@pytest.mark.parametrize("window", [None, 20])
def test_some_rows_of_many_chunks(queries: Any, window: int | None) -> None:
    from transformers import DynamicCache

    options = {"sliding_window": window} if window else {}
    model = tiny("mistral" if window else "llama", num_key_value_heads=2, **options)
    ids, cache, start = tokens(100), DynamicCache(config=model.config), 0
    truth = eager(model, input_ids=ids).attentions
    with torch.no_grad(), regard.record(model, queries=queries) as rec:
        rec.expect(100)
        for count in (60, 10, 1, 1, 28):
            model(ids[:, start : start + count], past_key_values=cache, use_cache=True)
            start += count
    agrees(rec["L1H2"], truth[1][0, 2], ids[0])
    if queries == 3:
        assert rec["L1H2"].place.rows == (97, 100)


def test_a_cache_from_before_stands_in_front() -> None:
    from transformers import DynamicCache

    model, ids = tiny("llama"), tokens(50)
    truth = eager(model, input_ids=ids).attentions
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[:, :30], past_key_values=cache, use_cache=True)
        with regard.record(model) as rec:
            model(ids[:, 30:], past_key_values=cache, use_cache=True)
    assert rec["L1H2"].place.rows == (30, 50)
    agrees(rec["L1H2"], truth[1][0, 2])


def test_rows_nobody_wants_are_said() -> None:
    model = tiny("llama")
    recorder = regard.record(model, queries="50:60")
    with pytest.raises(InputError, match="no row"), torch.no_grad(), recorder:
        model(tokens(9))


def test_an_unrecorded_layer_leaves_nothing() -> None:
    model = tiny("llama", num_hidden_layers=3)
    with torch.no_grad(), regard.record(model, layers=[1]) as rec:
        model(tokens(9))
        model(tokens(12))
    assert {label[:2] for label in rec.labels()} == {"L1"}
    assert np.isfinite(rec.recording.prompts[1]["L1H0"].entropy()).all()
