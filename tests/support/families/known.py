"""Findings of `regard.check` that are true, by cause. Any other fails the run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFinding:
    """Why rows of some model types move with what they should not see."""

    rule: str
    title: str
    reason: str
    names: str  # of the model types, with blanks between them


KNOWN: tuple[KnownFinding, ...] = (
    KnownFinding(
        "future",
        "A prefix without an end",
        "`CpmAntModel.forward` marks every token as context, which all rows see.",
        "cpmant",
    ),
    KnownFinding(
        "future",
        "Relative positions of other rows",
        "`get_predict_relative_pos_embeddings` flattens (row, stream, head) and reads it as "
        "(stream, head, row): the bias of an early row comes from a later one.",
        "prophetnet",
    ),
    KnownFinding(
        "padding",
        "Relative positions of other rows, by length",
        "The same: which other row gives the bias depends on the length of the batch.",
        "prophetnet",
    ),
    KnownFinding(
        "padding",
        "Causal where there is padding, and else not",
        "A causal mask is made, and left out where nothing is padded because `is_causal` of the "
        "layer is expected to stand for it. That is `False`: without padding rows see later "
        "tokens, with padding they do not.",
        "aimv2 colpali paligemma",
    ),
    KnownFinding(
        "padding",
        "Convolutions and neighbours",
        "Each row is computed from its neighbours as well, and those may be padding: the mask is "
        "of the attention alone. `sam3_lite_text_text_model` stretches its positions to the "
        "length of the batch, too.",
        "canine convbert fastspeech2_conformer mobilebert nystromformer sam3_lite_text_text_model "
        "yoso",
    ),
    KnownFinding(
        "padding",
        "Pooled keys",
        "Several positions are pooled into one, padding among them.",
        "deepseek_v4 funnel",
    ),
    KnownFinding(
        "padding",
        "A state that reads padding",
        "The state is updated at padding as well, so that padding on the left is read first.",
        "recurrent_gemma rwkv",
    ),
    KnownFinding(
        "padding",
        "A mask that is not read",
        "`attention_mask` is accepted and not used; padding is what has the id 0.",
        "cpmant",
    ),
    KnownFinding(
        "padding",
        "Positions counted from padding",
        "Learned positions start at the first column, whatever the mask says, and `position_ids` "
        "are not accepted: padding on the left moves every row.",
        "blip trocr",
    ),
    KnownFinding(
        "padding",
        "An index that ties",
        "An index keeps the k best keys of a row. Its scores are sums of `relu`, often exactly 0: "
        "which of two equal keys is kept depends on the shape of the batch. Random weights tie "
        "more often than trained ones.",
        "deepseek_v32 dots3_note glm_moe_dsa mistral_large4 mistral_large4_text",
    ),
    KnownFinding(
        "documents",
        "A state or convolution that runs on",
        "A state or a short convolution goes on from one document of a pack to the next, also "
        "where the attention beside it keeps them apart.",
        "bailing_hybrid bamba falcon_h1 glm5_next_text granitemoehybrid inkling2 inkling2_text "
        "inkling_mm_model inkling_text jamba kimi_linear lfm2_moe lfm3 minimax nemotron_h "
        "olmo_hybrid qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp_text recurrent_gemma "
        "zamba zamba2 zaya",
    ),
    KnownFinding(
        "documents",
        "Packed decoders whose mask is one triangle",
        "`position_ids` that start again reach the embedding of positions and not the mask: each "
        "document sees those before it. Give each its own row, or a mask of blocks.",
        "afmoe biogpt colqwen2 cosmos3_edge_text deepseek_v4 falcon glm4v_moe_text glm4v_text "
        "glm_image glm_image_text glm_ocr_text gpt_oss granitemoe granitemoe_swa granitemoeshared "
        "hunyuan_vl_text imagegpt openai-gpt opt qwen2_5_vl_text qwen2_vl_text xglm",
    ),
    KnownFinding(
        "documents",
        "Packed encoders",
        "`position_ids` that start again reach the embedding of positions and not the mask: every "
        "document sees every other.",
        "albert bert bert-generation big_bird camembert canine clip_text_model convbert "
        "data2vec-text deberta deberta-v2 distilbert electra embedding_gemma2_text ernie esm esmc "
        "eurobert flaubert fnet gte ibert jina_embeddings_v3 longformer luke markuplm "
        "megatron-bert mobilebert modernbert mpnet neomme nomic_bert nystromformer "
        "openai_privacy_filter reformer rembert roberta roberta-prelayernorm roc_bert splinter "
        "squeezebert tapas tipsv2_text_model ultrabert visual_bert xlm xlm-roberta "
        "xlm-roberta-xl xmod yoso",
    ),
    KnownFinding(
        "documents",
        "An index that ties in a pack",
        "Of two keys with equal scores another one is kept where the document stands by itself.",
        "dots3_note",
    ),
    KnownFinding(
        "batch",
        "Batch norm in training mode",
        "Its mean and variance are those of the whole batch, by definition. In evaluation mode no "
        "bit moves.",
        "cvt d_fine deimv2 granite_speech5_ctc granite_speech5_encoder hgnet_v2 lasr_ctc "
        "lasr_encoder levit mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 parakeet_ctc "
        "parakeet_encoder patchtst pp_lcnet pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det regnet "
        "resnet rt_detr rt_detr_resnet rt_detr_v2 sam3_lite_text sam3_lite_text_text_model slanet "
        "swiftformer textnet upernet uvdoc_backbone",
    ),
    KnownFinding(
        "batch",
        "Delays of another sequence",
        "`AutoformerAttention` repeats the delays as (head, sequence) beside rows in the order "
        "(sequence, head), so that heads roll by the delays of other sequences; in training mode "
        "all share one mean.",
        "autoformer",
    ),
    KnownFinding(
        "window",
        "A window that no mask has",
        "`config.sliding_window` is declared, and the mask is the whole triangle.",
        "moshi",
    ),
    KnownFinding(
        "cache",
        "A state that takes one token",
        "Behind a cache one token at a time is right; several at once do not go on from the state "
        "that it holds.",
        "falcon_mamba jamba mamba recurrent_gemma zamba",
    ),
    KnownFinding(
        "cache",
        "No causal mask with `use_cache`",
        "With `use_cache=True` no mask is made: several tokens at once see one another.",
        "fsmt",
    ),
    KnownFinding(
        "cache",
        "A window in the cache alone",
        "The cache drops what lies beyond `config.sliding_window`, and one pass sees it.",
        "moshi",
    ),
    KnownFinding(
        "cache",
        "An index behind pictures",
        "Behind a picture the indexed attention keeps other keys on a cache than in one pass; in "
        "text alone it keeps the same.",
        "qwen4_exp",
    ),
    KnownFinding(
        "cache",
        "A window for what is written",
        "By design: all of the prompt is seen, and of the tokens behind it a window.",
        "unlimited_ocr",
    ),
)


def cause_of(name: str, rule: str) -> KnownFinding | None:
    """Why a model type breaks a rule, where that is known."""
    return next((each for each in KNOWN if each.rule == rule and name in each.names.split()), None)
