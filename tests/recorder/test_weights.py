"""Whatever attends, and however it is called: a recording's numbers are those of its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

import regard
from installed import needs
from nn.small import encoder, language_model, seq2seq
from nn.small import ids as small_ids
from recorder.models import SDPA, Calls, Plain, Stack, heads_of, tiny, tokens
from recorder.truth import agrees, eager, recorded, same_numbers
from regard.errors import InputError
from regard.mask import Extent
from regard.recorder.layer_writer import rules_for
from regard.recorder.plan import Size, make_plan
from regard.recording import check
from regard.score import BiasTable, ScoreRule

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
QUIET: dict[str, Any] = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def padded(lengths: tuple[int, ...], side: str, first: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and their attention_mask; each sequence has its own number, from `first` on."""
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for number, length in enumerate(lengths):
        at = slice(-length, None) if side == "left" else slice(length)
        ids[number, at] = tokens(length, seed=first + number)
    return ids, (ids != 0).long()


# ── models of transformers ───────────────────────────────────────────────────────────────────

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 5},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 16},
    "bert": {},
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_sequence_of_a_padded_batch_is_as_eager_has_it_alone(family: str, side: str) -> None:
    model, lengths = tiny(family, **FAMILIES[family]), (30, 18, 1)
    ids, mask = padded(lengths, side)
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    rec = recorded(model, ids, attention_mask=mask, position_ids=places)
    assert rec.stacks == {"": (2, 4)}
    for prompt, text, real in zip(rec.prompts, ids, mask.bool(), strict=True):
        assert prompt.ids.tolist() == text[real].tolist()
        for layer, weights in enumerate(eager(model, input_ids=text[real][None]).attentions):
            for head in range(4):
                agrees(prompt[layer, head], weights[0, head], text[real], atol=3e-5)


@pytest.mark.parametrize(
    ("family", "cache"), [("llama", "static"), ("llama", None), ("gemma2", None)]
)
def test_a_padded_batch_writes_on(family: str, cache: str | None) -> None:
    model, lengths = tiny(family, **FAMILIES[family]), (30, 18, 1)
    ids, mask = padded(lengths, "left")
    with torch.no_grad(), regard.record(model) as rec:
        out = model.generate(
            ids, attention_mask=mask, max_new_tokens=5, cache_implementation=cache, **QUIET
        )
    for prompt, text, length in zip(rec.prompts, out, lengths, strict=True):
        alone = text[None, 30 - length : -1]  # the last token is not read again
        assert prompt.ids.tolist() == alone[0].tolist()
        one = family == "llama" and cache is None
        assert not one or len(prompt["L0H0"].place.segments) == 1
        for layer, weights in enumerate(eager(model, input_ids=alone).attentions):
            agrees(prompt[layer, 2], weights[0, 2], alone[0], atol=3e-5)


def test_holes_in_a_mask_stay_hidden() -> None:
    model, ids = tiny("llama"), tokens(20)
    mask = torch.ones(1, 20, dtype=torch.long)
    mask[0, :3] = mask[0, 8:11] = 0
    weights = eager(model, input_ids=ids, attention_mask=mask).attentions[1][0, 2].clone()
    weights[8:11] = 0  # a padded query sees nothing here
    agrees(recorded(model, ids, attention_mask=mask)["L1H2"], weights[3:, 3:], ids[0, 3:])


def test_padding_between_prompt_and_answer_is_refused() -> None:
    model, (ids, mask) = tiny("llama"), padded((10, 6), "right")
    with pytest.raises(InputError, match="on the left"), torch.no_grad(), regard.record(model):
        model.generate(ids, attention_mask=mask, max_new_tokens=3, **QUIET)


def test_half_precision_is_kept_as_it_was() -> None:
    model, ids = tiny("llama").to(torch.bfloat16), tokens(30)
    rec = recorded(model, ids)
    assert rec.store.entries["P0/L0/q/0"].dtype == "BF16"
    with torch.no_grad(), regard.huggingface.using(model):
        a = model(ids, output_attentions=True).attentions[0]
    np.testing.assert_allclose(np.asarray(rec["L0H1"]), a[0, 1].float().numpy(), atol=1e-6)


def translator(family: str) -> Any:
    torch.manual_seed(0)
    if family == "t5":
        sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
        return tiny("t5", decoder_start_token_id=2, **sizes)
    sides = {f"{s}_{n}": k for s in ("encoder", "decoder")
             for n, k in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 32))}  # fmt: skip
    config = transformers.BartConfig(
        d_model=32, vocab_size=50, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None, **sides,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config).eval()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("family", "queries"), [("bart", "2:4"), ("t5", None)])
def test_padded_texts_are_translated(family: str, queries: str | None, at_once: bool) -> None:
    model, (ids, mask) = translator(family), padded((20, 13), "right")
    with torch.no_grad():
        out = model.generate(ids, attention_mask=mask, max_new_tokens=6, **QUIET)[:, :-1]
        given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": out}
        with regard.record(model, queries=queries) as rec:
            if at_once:
                model(**given)
            else:
                model.generate(ids, attention_mask=mask, max_new_tokens=6, **QUIET)
    assert rec.stacks == {"encoder": (2, 4), "decoder": (2, 4), "cross": (2, 4)}
    truth = eager(model, **given)
    for number, length in enumerate((20, 13)):
        prompt, read = rec.prompts[number], ids[number, :length]
        inside = truth.encoder_attentions[1][number, 1, :length, :length]
        agrees(prompt["encoder.L1H1"], inside, read)
        agrees(prompt["decoder.L1H1"], truth.decoder_attentions[1][number, 1], out[number])
        across = prompt["cross.L1H1"]
        agrees(across, truth.cross_attentions[1][number, 1, :, :length])
        assert (len(across.query_tokens), len(across.key_tokens)) == (6, length)


def test_pictures_are_no_tokens() -> None:
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
    truth, rec = eager(model, **given), recorded(model, **given)
    agrees(rec["text.L1H1"], truth.text_model_output.attentions[1][0, 1, :7, :7], ids[0, :7])
    agrees(rec["vision.L2H1"], truth.vision_model_output.attentions[2][0, 1])
    assert rec["vision.L2H1"].query_tokens is None


@pytest.mark.parametrize("queries", [None, "3:9"])
def test_windows_of_a_picture_are_heads(queries: str | None) -> None:
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
    rec = recorded(model, pixel_values=picture, options={"queries": queries})
    for window in range(4):
        agrees(rec.prompts[1][1, 2 * window + 1], truth[4 + window, 1])


# ── models of regard.nn ──────────────────────────────────────────────────────────────────────

KINDS = ["rotary", "learned", "sinusoidal", "alibi", "none"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model_through_its_cache(kind: str) -> None:
    """The first layer by its own projections, bias and turn; the second as in one pass."""
    model, text = language_model(positions=kind, kv_heads=2), small_ids(2, 21)
    block, embed = model.decoder.blocks[0], model.decoder.embed
    with torch.no_grad():
        x = embed(text, 0, None)
        looked = block.attention.look(
            block.norm_attention(x), mask=regard.Causal(),
            bias=embed.positions.bias(x), turn=embed.positions.turn(x, 0, None),
        )  # fmt: skip
        plain, cache = model(text), model.new_cache(21 if kind == "alibi" else None)
        with regard.record(model) as rec:
            for start, stop in ((0, 9), (9, 10), (10, 21)):
                model(text[:, start:stop], cache=cache)
        with regard.record(model) as whole:
            assert torch.equal(model(text), plain)
    assert rec.recording.model["class"] == "LanguageModel"
    for number in (0, 1):
        prompt = rec.prompts[number]
        for head in range(4):
            agrees(prompt[0, head], looked[number, head], text[number])
        same_numbers(prompt["L1H3"], whole.prompts[number]["L1H3"])


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("kind", ["rotary", "learned", "alibi"])
def test_padded_prompts_write_what_they_write_alone(kind: str, window: int | None) -> None:
    model, text = language_model(positions=kind, window=window), small_ids(2, 12)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :5], text[1, :5] = 0, 0
    with regard.record(model) as rec:
        out = model.generate(text, tokens=4, attention_mask=mask)
    for number, first in enumerate((0, 5)):
        alone, prompt = out[number : number + 1, first:-1], rec.prompts[number]
        assert prompt.ids.tolist() == alone[0].tolist()
        for label in ("L0H0", "L1H2"):
            weights = np.asarray(prompt[label])
            i, j = np.indices(weights.shape)
            assert (weights[(j > i) | (j <= i - (window or 99))] == 0).all()
            same_numbers(prompt[label], recorded(model, alone)[label])


def test_an_encoder_and_a_translator_of_our_own() -> None:
    model, text = encoder(), small_ids(2, 14)
    mask = torch.ones(2, 14, dtype=torch.long)
    mask[0, 9:] = 0
    rec = recorded(model, text, attention_mask=mask)
    assert [len(one.ids) for one in rec.prompts] == [9, 14]
    same_numbers(rec.prompts[0]["L1H1"], recorded(model, text[:1, :9])["L1H1"])
    model, source = seq2seq(), small_ids(2, 11)
    with regard.record(model) as writing:
        out = model.generate(source, start=1, tokens=5)
    assert writing.stacks == {"encoder": (2, 4), "decoder": (2, 4), "cross": (2, 4)}
    for number, prompt in enumerate(writing.prompts):
        across = prompt["cross.L1H0"]
        np.testing.assert_allclose(np.asarray(across).sum(-1), 1, atol=1e-5)
        assert prompt.streams["encoder"].ids.tolist() == source[number].tolist()
        assert prompt.streams["tokens"].ids.tolist() == out[number, :-1].tolist()
        assert (len(across.query_tokens), len(across.key_tokens)) == across.shape == (5, 11)


def test_layers_without_tokens() -> None:
    model, x = Stack(), torch.randn(2, 40, 32)
    rec = recorded(model, x)
    a = model.layers[0].look(x, mask=regard.Causal())
    for number, prompt in enumerate(rec.prompts):
        agrees(prompt["L0H3"], a[number, 3].detach())
    assert rec["L0H0"].place.name == "layers.0" and rec.tokens == []
    rec = recorded(Plain().eval(), x)
    assert rec.stacks == {"": (3, 4)} and rec["L2H0"].place.name == "blocks.2"


# ── caches and prompts ───────────────────────────────────────────────────────────────────────


def test_new_ids_without_a_cache_are_a_new_prompt() -> None:
    model = language_model()
    with torch.no_grad(), regard.record(model) as rec:
        model(small_ids(1, 5))
        cache = model.new_cache()
        model(small_ids(1, 6, seed=1), cache=cache)
        model(small_ids(1, 3, seed=2), cache=cache)
        model(small_ids(1, 4, seed=3), cache=model.new_cache())
    assert [len(one.ids) for one in rec.prompts] == [5, 9, 4]
    assert [one["L0H0"].shape[0] for one in rec.prompts] == [5, 9, 4]


@pytest.mark.parametrize("doubled", [True, False])
def test_a_cache_that_was_changed_is_refused(doubled: bool) -> None:
    model = language_model()
    cache = model.new_cache()
    said = "2 sequences go on where 1 were begun" if doubled else "holds other keys"
    with pytest.raises(InputError, match=said), torch.no_grad(), regard.record(model):
        model(small_ids(1, 5), cache=cache)
        for held in cache.layers:
            change: Any = (lambda t: t.repeat(2, 1, 1, 1)) if doubled else (lambda t: t.flip(-2))
            held.keep(change(held.key), change(held.value))
        model(small_ids(1 + doubled, 1), cache=cache)


def test_a_cache_from_before_stands_in_front() -> None:
    model, ids = tiny("llama"), tokens(50)
    truth = eager(model, input_ids=ids).attentions
    with torch.no_grad():
        cache = model(ids[:, :30], use_cache=True).past_key_values
    rec = recorded(model, ids[:, 30:], past_key_values=cache, use_cache=True)
    assert rec["L1H2"].place.rows == (30, 50)
    agrees(rec["L1H2"], truth[1][0, 2])


def test_rows_far_apart_of_a_long_prompt() -> None:
    """q and k lie in several pieces."""
    x = torch.randn(1, 9000, 8, generator=torch.Generator().manual_seed(0))
    head = recorded(Calls(lambda y: SDPA(*[heads_of(y, 1)] * 3, is_causal=True)), x)["L0H0"]
    for row in (0, 8191, 8192, 8999):
        truth = (x[0, : row + 1] @ x[0, row] * 8**-0.5).softmax(0)
        np.testing.assert_allclose(head.rows(row)[: row + 1], truth, atol=1e-5)


# ── torch's own function ─────────────────────────────────────────────────────────────────────


def weights_of(
    q: Tensor, k: Tensor, *, scale: float | None = None, bias: Any = 0, seen: Tensor | None = None
) -> Tensor:
    """The definition; a row that sees nothing is all zeros."""
    scores = (q @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


X = torch.randn(2, 12, 32, generator=torch.Generator().manual_seed(0))
Q, TRIL = heads_of(X), torch.ones(12, 12).tril().bool()
K2, ONE = heads_of(X[..., :16], 2), heads_of(X[:1, :5])
BIASES = [random(*shape) for shape in ((12, 12), (4, 12, 12), (2, 1, 12, 12), (2, 4, 12, 12))]
for _bias in BIASES:
    _bias[..., 3, 5] = -torch.inf
SEEN = [bias > -0.3 for bias in (BIASES[0], *BIASES[2:])]
# arguments of torch's function, and the weights
ARGUMENTS: dict[str, tuple[tuple[Tensor, ...], dict[str, Any], Tensor]] = {
    **{f"float {list(b.shape)}": ((Q, Q, Q), {"attn_mask": b}, weights_of(Q, Q, bias=b))
       for b in BIASES},
    **{f"boolean {list(s.shape)}": ((Q, Q, Q), {"attn_mask": s}, weights_of(Q, Q, seen=s))
       for s in SEEN},
    "grouped heads, a scale": (
        (Q, K2, K2), {"is_causal": True, "scale": 0.7, "enable_gqa": True},
        weights_of(Q, K2.repeat_interleave(2, 1), scale=0.7, seen=TRIL)),
    "causal from the start": (
        (Q[..., :7, :], Q, Q), {"is_causal": True}, weights_of(Q[..., :7, :], Q, seen=TRIL[:7])),
    "values of another width": ((Q, Q, heads_of(X[..., :12])), {}, weights_of(Q, Q)),
    "one key for a batch": ((Q, ONE, ONE), {}, weights_of(Q, ONE)),
    "another precision": ((Q.double(), Q.double(), Q.double()), {}, weights_of(Q, Q)),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_torchs_function(name: str) -> None:
    given, options, truth = ARGUMENTS[name]
    model = Calls(lambda _: SDPA(*given, **options))
    plain = model(X)
    with regard.record(model) as rec:
        assert torch.equal(model(X), plain)  # torch's own answer, to the bit
    place = rec["L0H0"].place
    assert (place.key_heads, place.value_dim) == (given[1].shape[1], given[2].shape[-1])
    for number in (0, 1):
        for head in range(4):
            agrees(rec.prompts[number][0, head], truth[number, head])
    norms = given[2].expand(2, -1, -1, -1)[0, 0].norm(dim=-1)
    np.testing.assert_allclose(rec["L0H0"].stored["value_norm"].values, norms, rtol=1e-5)


# other masks are drawn in tests/fuzz/recordings.py
RULES: dict[str, dict[str, Any]] = {
    "runs of a function": {"mask": regard.Rule(lambda i, j: i >= j)},
    "softcap, sink": {"softcap": 0.7, "sink": torch.tensor([0.5, -1.0, 0.0, 2.0])},
    "a bias": {"bias": random(1, 4, 12, 12), "scale": 0.3},
    "slopes": {
        "bias": regard.score.ALiBi(torch.tensor([0.1, 0.2, 0.3, 0.4])),
        "mask": regard.Causal(),
    },
}


@pytest.mark.parametrize("name", RULES)
def test_masks_and_score_rules_of_attend(name: str) -> None:
    options = RULES[name]
    truth = regard.attend(Q, Q, Q, **options)[:, :].detach()
    rec = recorded(Calls(lambda _: regard.attend(Q, Q, Q, **options).output), X)
    for number in (0, 1):
        for head in range(4):
            agrees(rec.prompts[number][0, head], truth[number, head])


def test_a_function_or_table_that_is_too_large_for_a_file_is_why_not() -> None:
    scattered = regard.Rule(lambda i, j: (i + j) % 2 == 0)
    rules = rules_for(scattered, ScoreRule(1.0), Extent(9_000, 9_000))
    assert "function" in rules.why_not and rules.arrays == ()
    large = BiasTable(torch.zeros(1, 1).expand(6000, 6000))
    assert "bias" in rules_for(None, ScoreRule(1.0, None, large), Extent(6000, 6000)).why_not


def test_dropout_is_no_part_of_the_weights() -> None:
    model = Calls(lambda y: SDPA(*[heads_of(y)] * 3, dropout_p=0.5))
    torch.manual_seed(3)
    plain = model(X)
    torch.manual_seed(3)
    with regard.record(model) as rec:
        assert torch.equal(model(X), plain)
    agrees(rec["L0H0"], weights_of(Q, Q)[0, 0])


def looped(y: Tensor) -> Tensor:
    """One module, three attentions, each over what the last one gave."""
    for _ in range(3):
        y = SDPA(*[heads_of(y)] * 3, is_causal=True).transpose(1, 2).flatten(-2)
    return y


def test_blocks_that_attend_twice_are_twice_as_many_layers() -> None:
    """The second call of the first block is not mistaken for the first call of the second; and a
    call may be of regard's function."""

    def twice(y: Tensor) -> Tensor:
        q = heads_of(y)
        return y + (regard.attend(q, q, q).output - SDPA(q, q, -q, is_causal=True)).transpose(
            1, 2
        ).flatten(-2)

    model = nn.Sequential(Calls(twice), Calls(twice))
    rec, between = recorded(model, X), model[0](X)
    assert rec.stacks == {"": (4, 4)}
    for layer, given, mask in ((0, X, None), (1, X, TRIL), (2, between, None), (3, between, TRIL)):
        q = heads_of(given)
        agrees(rec.prompts[1][layer, 3], weights_of(q, q, seen=mask)[1, 3], atol=1e-4)


def test_a_budget_counts_places_that_were_not_foreseen() -> None:
    """Enough for the one module that was counted, and not for all three of its calls."""
    rec = recorded(Calls(looped), torch.randn(1, 400, 32), options={"budget": "900kB"})
    assert [rec[layer, 0].exact for layer in range(3)] == [True, True, False]
    assert "did not fit the budget" in rec["L2H0"].why_not


def test_batches_that_do_not_divide_are_refused() -> None:
    """Three windows cannot belong to two sequences alike."""

    def call(y: Tensor) -> Tensor:
        three = torch.cat([heads_of(y), heads_of(y)[:1]])
        return SDPA(*[heads_of(y)] * 3) + SDPA(three, three, three)[:2]

    said = r"3 batch entries, the model was given 2 sequences"
    with pytest.raises(InputError, match=said):
        recorded(Calls(call), X)


def test_a_call_outside_the_model_is_not_recorded() -> None:
    model = Calls(lambda y: SDPA(*[heads_of(y)] * 3))
    with torch.no_grad(), regard.record(model) as rec:
        SDPA(Q, Q, Q)
        regard.attend(Q, Q, Q)
        model(X)
        regard.attend(Q, Q, Q)
    assert len(rec.prompts) == 2 and rec.stacks == {"": (1, 4)}


# ── modules of torch ─────────────────────────────────────────────────────────────────────────


def test_training_is_left_alone() -> None:
    model, x = nn.MultiheadAttention(32, 4, dropout=0.5, batch_first=True), torch.randn(1, 6, 32)
    torch.manual_seed(1)
    plain, _ = model(x, x, x)
    torch.manual_seed(1)
    with regard.record(model):
        answer, _ = model(x, x, x)
    assert torch.equal(answer, plain)
    answer.sum().backward()


# ── short documents of a padded batch: recorded together, each as if it had been alone ────────

BATCH = (40, 12, 1, 7, 40)
SOME = replace(make_plan(10**9, [Size(4, 4, 8, 40, 40)] * 2), exact=frozenset([1]))
TOGETHER: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("llama", {}), "heads": ("bert", {"heads": [0, 3]}),
    "statistics": ("llama", {"statistics": [regard.statistics.Distance()]}),
    "some q and k": ("bert", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_every_document_is_recorded_as_it_is_alone(tmp_path, name):
    family, options = TOGETHER[name]
    model, (ids, mask) = tiny(family), padded(BATCH, "right")
    with torch.no_grad(), regard.record(model, tmp_path / "run.regard", **options) as rec:
        rec.expect(max(BATCH), SOME if name == "some q and k" else None)
        model(input_ids=ids, attention_mask=mask)
    report = check(tmp_path / "run.regard")  # a layer of all of them is one frame
    assert report.is_whole and report.finished == len(BATCH)
    assert report.tensors > 100 and report.frames < 10 + 3 * model.config.num_hidden_layers
    for mine, text, real in zip(rec.prompts, ids, mask.bool(), strict=True):
        alone = text[real][None]
        given = {"input_ids": alone, "attention_mask": torch.ones_like(alone)}
        other = recorded(model, **given, options=options).prompts[0]
        assert mine.ids.tolist() == other.ids.tolist() and mine.note == other.note
        assert list(mine.places) == list(other.places)
        for a, b in zip(mine, other, strict=True):
            assert a.place.segments == b.place.segments
            if name == "some q and k" and a.layer == 0:
                assert not a.exact and a.why_not
            else:
                same_numbers(a, b)
        for statistic in mine.statistic_kinds:
            np.testing.assert_allclose(mine.grid(statistic), other.grid(statistic), atol=2e-5)


def test_batches_before_an_error_are_whole(tmp_path):
    model, path = tiny("bert"), tmp_path / "run.regard"
    ids, mask = padded(BATCH, "right")
    with pytest.raises(RuntimeError), torch.no_grad(), regard.record(model, path):
        model(input_ids=ids, attention_mask=mask)
        model(input_ids=ids.flip(0), attention_mask=mask.flip(0))
        raise RuntimeError
    with regard.open(path) as rec:
        done = [prompt.note.finished for prompt in rec.prompts]
        assert done == [True] * len(BATCH) + [False] * len(BATCH)
        assert rec.prompts[0]["L1H0"].exact and check(path).is_whole
