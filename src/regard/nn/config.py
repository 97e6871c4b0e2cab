"""What a model is made of, as frozen values with plain names; JSON in, JSON out (see save).

BlockConfig ─ StackConfig ─┬─ EncoderConfig
                           ├─ LanguageModelConfig
                           └─ Seq2SeqConfig
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from regard.errors import InputError, ShapeError
from regard.nn.norm import NormKind
from regard.nn.rotary_scaling import RotaryScaling

PositionKind: TypeAlias = Literal["rotary", "learned", "sinusoidal", "alibi", "none"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """One block: attention, then a feed-forward layer, each with a residual and a norm."""

    dim: int  # width of a token's vector
    heads: int
    kv_heads: int | None = None  # each shared by a group of heads; as many as heads by default
    head_dim: int | None = None  # dim ÷ heads by default
    hidden: int | None = None  # width inside the feed-forward layer; 4 × dim by default
    feed_forward: Literal["mlp", "swiglu"] = "swiglu"
    activation: str = "gelu"  # of an mlp
    norm: NormKind = "rms"
    norm_first: bool = True  # pre-norm; False normalises after the residual is added
    norm_eps: float = 1e-5
    qk_norm: bool = False
    attention_bias: bool = False
    feed_forward_bias: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        optional = {field.name for field in fields(self) if field.default is None}
        for name in ("dim", "heads", "kv_heads", "head_dim", "hidden", *self._counts()):
            number = getattr(self, name)
            if number is None and name in optional:
                continue
            if not isinstance(number, int) or number < 1:
                raise InputError(f"{name}={number!r}; give a whole number of at least 1")
        if self.heads % self.key_heads:
            raise ShapeError(
                f"heads={self.heads}, kv_heads={self.key_heads}: each key head serves a group of "
                f"equal size; kv_heads may be {_divisors(self.heads)}"
            )
        if self.head_dim is None and self.dim % self.heads:
            raise ShapeError(
                f"dim={self.dim} is not divisible by heads={self.heads}; give head_dim, or one of "
                f"{_divisors(self.dim)} heads"
            )
        if self.feed_forward not in ("mlp", "swiglu"):
            raise InputError(f"feed_forward={self.feed_forward!r}; give 'mlp' or 'swiglu'")

    def _counts(self) -> tuple[str, ...]:
        return ()

    @property
    def key_heads(self) -> int:
        """The number of key and value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def width(self) -> int:
        """Of queries and keys, per head."""
        return self.dim // self.heads if self.head_dim is None else self.head_dim


@dataclass(frozen=True, kw_only=True)
class StackConfig(BlockConfig):
    """Token ids → blocks, one after the other → vectors."""

    vocabulary: int
    layers: int
    positions: PositionKind = "rotary"
    longest: int = 2048  # tokens of a text; what a table of learned positions has rows for
    rotary_base: float = 10000.0
    rotary_scaling: RotaryScaling | None = None
    embedding_norm: bool = False  # normalise what goes into the first block
    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = ("rotary", "learned", "sinusoidal", "alibi", "none")
        if self.positions not in kinds:
            raise InputError(f"positions={self.positions!r}; give one of {', '.join(kinds)}")
        if self.positions == "rotary" and self.width % 2:
            raise ShapeError(
                f"rotary positions turn pairs of dimensions, a head has {self.width}; give an even "
                "head_dim"
            )

    def _counts(self) -> tuple[str, ...]:
        return ("vocabulary", "layers", "longest")

    # What tools that know transformers' models ask for.

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether it reads one text and writes another."""
        return False

    @property
    def num_hidden_layers(self) -> int:
        """layers"""
        return self.layers

    @property
    def num_attention_heads(self) -> int:
        """heads"""
        return self.heads

    @property
    def max_position_embeddings(self) -> int:
        """longest"""
        return self.longest

    @property
    def name_or_path(self) -> str:
        """name"""
        return self.name


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(StackConfig):
    """An encoder: every token sees every other token."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(StackConfig):
    """A causal language model: every token sees those before it and predicts the next."""

    window: int | None = None  # tokens a token sees, itself included; all before it by default
    tied: bool = True  # one table reads tokens and writes them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and (not isinstance(self.window, int) or self.window < 1):
            raise InputError(f"window={self.window!r}; a token sees itself: at least 1")


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(StackConfig):
    """An encoder for the source, and a decoder that attends to it and predicts the target."""

    # a turn tells distances within one text, and nothing across two: waves are in the vectors
    positions: PositionKind = "sinusoidal"
    source_vocabulary: int | None = None  # `vocabulary`, the target's, by default
    encoder_layers: int | None = None  # as many as the decoder's `layers` by default
    tied: bool = True

    def _counts(self) -> tuple[str, ...]:
        return (*super()._counts(), "source_vocabulary", "encoder_layers")

    @property
    def is_encoder_decoder(self) -> bool:
        """True: it has an encoder for the source and a decoder for the target."""
        return True

    def encoder(self) -> EncoderConfig:
        """The configuration of the encoder."""
        shared = {f.name: getattr(self, f.name) for f in fields(StackConfig)}
        layers = self.layers if self.encoder_layers is None else self.encoder_layers
        words = self.vocabulary if self.source_vocabulary is None else self.source_vocabulary
        return EncoderConfig(**shared | {"layers": layers, "vocabulary": words})


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, number + 1) if number % n == 0)
