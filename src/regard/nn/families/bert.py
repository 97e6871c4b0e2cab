"""The BERT family: post-norm LayerNorm, learned positions, GELU, every token sees every other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.errors import UnavailableError
from regard.nn.config import EncoderConfig

KINDS = ("bert",)

NAMES = (
    (r"^embeddings\.word_embeddings\.", "embed.tokens.word."),
    (r"^embeddings\.position_embeddings\.", "embed.positions.table."),
    (r"^embeddings\.LayerNorm\.", "embed.norm."),
    (r"^encoder\.layer\.", "blocks."),
    (r"\.attention\.self\.(q|k|v)(uery|ey|alue)\.", r".attention.w_\1."),
    (r"\.attention\.output\.dense\.", ".attention.w_o."),
    (r"\.attention\.output\.LayerNorm\.", ".norm_attention."),
    (r"\.intermediate\.dense\.", ".feed_forward.w_in."),
    (r"\.output\.dense\.", ".feed_forward.w_out."),
    (r"\.output\.LayerNorm\.", ".norm_feed_forward."),
)
LEFT_OUT = r"^pooler\.|^cls\.|position_ids$|token_type_embeddings"

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
                "relu": "relu", "silu": "silu"}  # fmt: skip


def configure(given: Mapping[str, Any]) -> EncoderConfig:
    """Our configuration from theirs."""
    if given.get("position_embedding_type", "absolute") != "absolute":
        raise UnavailableError("position_embedding_type: only absolute positions are known here")
    if given.get("is_decoder", False):
        raise UnavailableError("is_decoder: only the encoder is known here")
    activation = given.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise UnavailableError(f"hidden_act={activation!r}; known are {', '.join(_ACTIVATIONS)}")
    return EncoderConfig(
        vocabulary=given["vocab_size"],
        layers=given["num_hidden_layers"],
        dim=given["hidden_size"],
        heads=given["num_attention_heads"],
        hidden=given["intermediate_size"],
        feed_forward="mlp",
        activation=_ACTIVATIONS[activation],
        norm="layer",
        norm_first=False,
        norm_eps=given.get("layer_norm_eps", 1e-12),
        attention_bias=True,
        feed_forward_bias=True,
        positions="learned",
        longest=given["max_position_embeddings"],
        embedding_norm=True,
        dropout=given.get("hidden_dropout_prob", 0.0),
    )


def prepare(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """A text of one piece has token type 0 everywhere: its row is folded into the positions'."""
    plain = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    positions, types = (
        f"embeddings.{what}_embeddings.weight" for what in ("position", "token_type")
    )
    if types in plain and positions in plain:
        plain[positions] = plain[positions] + plain[types][0]
    return plain
