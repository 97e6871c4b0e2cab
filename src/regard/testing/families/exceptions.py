"""Configurations that no rule finds: model type → what is laid over what was found.

A part of a larger configuration is changed by its own model type, wherever it stands.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CHANGES", "CLASSES"]


def _rope(*sections: int, **more: Any) -> dict[str, Any]:
    """Rotary angles shared out among time, height and width: half a head, or of what turns."""
    turn = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(sections)}
    return {"rope_parameters": turn | more}


_HYBRID = ["linear_attention", "full_attention"]
_MAMBA = {"mamba_n_heads": 8, "mamba_d_state": 16, "mamba_chunk_size": 8}
_TOKENIZER = {"downsampling_ratios": (2, 2), "depths": (1, 1, 1), "num_filters": 8}

CHANGES: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"head_dim": 16},
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "chameleon": {"vocabulary_map": {"<image>": 5} | {f"IMGIMG{n}Z": n + 6 for n in range(4)}},
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
        }
    },
    "cosmos3_edge_text": _rope(2, 3, 3),
    "d_fine": {"decoder_in_channels": [64, 64, 64]},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "deimv2": {"decoder_in_channels": [64, 64, 64]},
    "efficientloftr": {"hidden_size": 256},
    "emu3": {"vocabulary_map": {"<image>": 5} | {f"<|visual token {n:06d}|>": n + 6 for n in range(4)}},
    "ernie4_5_vl_moe_text": _rope(3, 3, 2),
    "falcon_h1": _MAMBA,
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0,
        "num_hidden_layers": 2, "activation_sparsity_pattern": [0.0, 0.0], "laurel_rank": 8,
    },
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0}},
    "glm4v_moe_text": _rope(1, 1, 2, partial_rotary_factor=0.5),
    "glm4v_text": _rope(2, 3, 3),
    "glm5_next_text": {"index_kpool": 2},
    "glm_image_text": _rope(2, 3, 3),
    "glm_ocr_text": _rope(2, 3, 3),
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "granite4_vision": {"deepstack_layer_map": [[-1, 0]]},
    "granitemoehybrid": _MAMBA | {"layer_types": _HYBRID},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 11, "shape_size": 10},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "lilt": {"hidden_size": 96, "channel_shrink_ratio": 4},
    "mamba2": {"num_heads": 8, "n_groups": 2, "chunk_size": 8},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "paddleocr_vl_text": _rope(2, 3, 3),
    "qwen2_5_omni_text": _rope(2, 3, 3),
    "qwen2_5_vl_text": _rope(2, 3, 3),
    "qwen2_vl_text": _rope(2, 3, 3),
    "qwen4_exp_text": {
        "indexer_n_heads": 4, "indexer_kv_heads": 2, "indexer_head_dim": 16, "indexer_budget": 8,
        "indexer_compress_ratio": 2, "hc_lowrank": 16,
    },
    "reformer": {"axial_pos_embds_dim": (16, 48), "axial_pos_shape": (8, 16)},
    "vibevoice_acoustic_tokenizer": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_decoder": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_encoder": _TOKENIZER,
    "zamba": {
        "num_hidden_layers": 5, "attn_layer_period": 2, "attn_layer_offset": 1,
        "layers_block_type": [
            "linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid",
        ],
    },
    "zamba2": {
        "num_hidden_layers": 4, "chunk_size": 8, "adapter_rank": 8,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
}  # fmt: skip

# model types whose first class in transformers' tables is not the model that can be run
CLASSES: dict[str, str] = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
