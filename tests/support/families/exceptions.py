"""Configurations that no rule finds: model type → what is laid over what was found.

A part of a larger configuration is changed by its own model type, wherever it stands.
"""

from __future__ import annotations

from typing import Any


def _rope(*sections: int, **more: Any) -> dict[str, Any]:
    """Rotary angles shared out among time, height and width: half a head, or of what turns."""
    turn = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(sections)}
    return {"rope_parameters": turn | more}


_HYBRID = ["linear_attention", "full_attention"]
_MAMBA = {"mamba_n_heads": 8, "mamba_d_state": 16, "mamba_chunk_size": 8}
_TOKENIZER = {"downsampling_ratios": (2, 2), "depths": (1, 1, 1), "num_filters": 8}

CHANGES: dict[str, dict[str, Any]] = {
    "align": {"projection_dim": 640},
    "align_vision_model": {"hidden_dim": 640, "num_block_repeats": [1] * 7},
    "aria": {"projector_patch_to_query_dict": {16: 4}},
    "autoformer": {"context_length": 8, "label_length": 4},
    "bailing_hybrid": {"head_dim": 16},
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": _rope(2, 3, 3)["rope_parameters"]},
    },
    "cosmos3_edge_text": _rope(2, 3, 3),
    "d_fine": {"decoder_in_channels": [64, 64, 64]},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 64},
    },
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "deimv2": {"decoder_in_channels": [64, 64, 64]},
    "dia": {"delay_pattern": [0, 1, 2, 3, 4, 5, 6, 7, 8]},
    "donut-swin": {"window_size": 2},
    "efficientloftr": {"hidden_size": 256},
    "efficientnet": {"hidden_dim": 2560},
    "emu3": {"vocabulary_map": {"<image>": 5}},
    "ernie4_5_vl_moe_text": _rope(3, 3, 2),
    "esm": {"pad_token_id": 0, "mask_token_id": 3},
    "falcon_h1": _MAMBA,
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 16}},
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
    "granite4_vision": {"deepstack_layer_map": [[-1, 0]], "downsample_rate": "1/2",
        "image_grid_pinpoints": [[128, 128]]},
    "granitemoehybrid": _MAMBA | {"layer_types": _HYBRID},
    "hunyuan_vl_text": _rope(2, 2, 2, 2),
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 11, "shape_size": 10},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "lilt": {"hidden_size": 96, "channel_shrink_ratio": 4},
    "llava_next": {"image_grid_pinpoints": [[56, 56]]},
    "llava_next_video": {"image_grid_pinpoints": [[56, 56]]},
    "llava_onevision": {"image_grid_pinpoints": [[56, 56]]},
    "longcat_flash": {"qk_rope_head_dim": 8, "head_dim": 8},
    "mamba2": {"num_heads": 8, "n_groups": 2, "chunk_size": 8},
    "mllama_text_model": {"cross_attention_layers": [1]},
    "mllama_vision_model": {"intermediate_layers_indices": [0, 1], "vision_output_dim": 192},
    "molmo2_adapter": {"vision_feature_layer": [-1, -2]},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
        "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "chunk_size": 8,
    },
    "omdet-turbo": {"backbone_config": {"embed_dim": 96}},
    "paddleocr_vl_text": _rope(2, 3, 3),
    "qwen2_5_omni_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21},
    "qwen2_5_omni_text": _rope(2, 3, 3),
    "qwen2_5_vl_text": _rope(2, 3, 3),
    "qwen2_vl_text": _rope(2, 3, 3),
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21},
    "qwen4_exp_text": {
        "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8,
        "indexer_compress_ratio": 2, "hc_lowrank": 16,
    },
    "reformer": {"axial_pos_embds_dim": (16, 48), "axial_pos_shape": (8, 16)},
    "rt_detr": {"decoder_in_channels": [64, 64, 64]},
    "rt_detr_v2": {"decoder_in_channels": [64, 64, 64]},
    "sam_vision_model": {"output_channels": 64, "num_pos_feats": 32},
    "sam_hq_vision_model": {"output_channels": 64, "num_pos_feats": 32},
    "seggpt": {"image_size": [128, 64]},
    "swin": {"window_size": 2},
    "pvt": {"image_size": 224},
    "vibevoice_acoustic_tokenizer": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_decoder": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_encoder": _TOKENIZER,
    "vipllava": {"vision_feature_layers": [-1, -2, -1, -2, -1]},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
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
    "t5gemma2_encoder": "T5Gemma2Encoder",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
