"""A text as the model's tokens; tokens as text a person can read, and what kind each is."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.recording.format.write import Series
from regard.recording.schema import DELIMITER, SPECIAL, tensor_name
from regard.recording.token_text import spelled_bytes

_SPACE_MARKS = ("▁", "Ġ")
_PIECE = 64  # tokens that are written together while a model writes one by one
_BROKEN = "\N{REPLACEMENT CHARACTER}"


class Stream:
    """One sequence of tokens, written as it grows; `before` holds those that another recording
    has."""

    def __init__(
        self,
        prompt: int,
        name: str,
        tokenizer: Any,
        before: NDArray[np.int64] | None = None,
    ) -> None:
        self._prompt, self._name = prompt, name
        self._tokenizer = tokenizer
        self.ids: NDArray[np.int64] = np.zeros(0, np.int64) if before is None else before
        self._written = len(self.ids)

    def extend(self, ids: NDArray[np.int64]) -> None:
        """More tokens at the end."""
        self.ids = np.concatenate([self.ids, ids.astype(np.int64)])

    def take(self, last: bool = False) -> list[Series]:
        """What came since, once that is worth a piece of the file."""
        new, start = self.ids[self._written :], self._written
        if not len(new) or (start and len(new) < _PIECE and not last):
            return []
        self._written = len(self.ids)
        texts = texts_of(self._tokenizer, new.tolist())
        raw = json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace")
        arrays: dict[str, NDArray[Any]] = {
            "ids": new.astype(np.int32),
            "text": np.frombuffer(raw, np.uint8),
            "flags": flags_of(self._tokenizer, new.tolist(), texts),
        }
        return [
            Series([tensor_name(self._prompt, self._name, what, start)], [array.shape], array)
            for what, array in arrays.items()
        ]


def reader_of(given: Any) -> Any:
    """What decodes: a tokenizer, or that inside a processor; None stays None."""
    inner = given if hasattr(given, "decode") else None
    if not hasattr(given, "convert_ids_to_tokens"):
        inner = getattr(given, "tokenizer", inner)
    if hasattr(given, "image_mean") and inner is None:
        return None  # an image processor: there is nothing to decode
    if given is not None and inner is None:
        raise InputError(
            f"tokenizer is a {type(given).__name__}, which decodes nothing; give a tokenizer or "
            "a processor of transformers"
        )
    return inner


def texts_of(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Each token's own text, its leading space included; `#17` without a tokenizer."""
    if tokenizer is None:
        return [f"#{n}" for n in ids]
    known: dict[int, str] = {}
    for n in ids:
        if n not in known:
            known[n] = _text_of(tokenizer, n)
    return [known[n] for n in ids]


def _text_of(tokenizer: Any, number: int) -> str:
    """Decoding tells bytes from letters, the vocabulary's own spelling knows of the space."""
    if number < 0:  # some models mark pictures so
        return f"#{number}"
    spell = getattr(tokenizer, "convert_ids_to_tokens", None)
    spelling = None if spell is None else spell(number)
    decoded = tokenizer.decode([number])
    if not isinstance(spelling, str):
        return str(decoded) or f"#{number}"
    if _BROKEN in decoded:  # part of a character
        return spelled_bytes(spelling)
    if spelling.startswith(_SPACE_MARKS) and not decoded.startswith((" ", "\n")):
        return f" {decoded}"
    if spelling.startswith("##"):
        return spelling
    return str(decoded) or spelling


def flags_of(tokenizer: Any, ids: Sequence[int], texts: Sequence[str]) -> NDArray[np.uint8]:
    """DELIMITER for punctuation and line breaks, SPECIAL for what is no text."""
    special = set(getattr(tokenizer, "all_special_ids", ()) or ())
    kinds = [
        DELIMITER * (tokenizer is not None and n not in special and _is_delimiter(text))
        | SPECIAL * (n in special)
        for n, text in zip(ids, texts, strict=True)
    ]
    return np.asarray(kinds, np.uint8)


def _is_delimiter(text: str) -> bool:
    inner = text.strip(" ")
    if not inner:
        return False
    return all(c in "\n\r\t" or unicodedata.category(c).startswith("P") for c in inner)


# ── a text as the model's tokens ───────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Encoded:
    """One prompt, ready to run."""

    ids: Tensor  # (1, N)
    bos: str  # what the tokenizer put in front of the text; "" for nothing
    title: str  # the text's beginning

    @property
    def tokens(self) -> int:
        """How many."""
        return self.ids.shape[1]


def encode(tokenizer: Any, text: str, chat: bool = False) -> Encoded:
    """The prompt as the model is used to it; with `chat`, as a user's message in its template."""
    if not text.strip():
        raise InputError("the prompt is empty; give some text with --text, --file or --stdin")
    if tokenizer is None:
        raise InputError("this model has no tokenizer; run it yourself inside regard.record(model)")
    title = " ".join(text.split())[:80]
    if chat:
        return Encoded(_chat(tokenizer, text), "", title)
    # its own word about long texts is not wanted: `check_length` has a clearer one
    quiet: dict[str, Any] = {"truncation": False, "verbose": False}
    ids = tokenizer(text, return_tensors="pt", **quiet).input_ids
    bare = tokenizer(text, add_special_tokens=False, **quiet).input_ids
    given = ids[0].tolist()
    front = []
    for number in given[: max(len(given) - len(bare), 0)]:
        if bare and number == bare[0]:
            break
        front.append(number)
    names = "".join(str(tokenizer.convert_ids_to_tokens(n)) for n in front)
    return Encoded(ids, names, title)


def _chat(tokenizer: Any, text: str) -> Tensor:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("this model has no chat template; leave out --chat")
    found = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, return_tensors="pt"
    )
    ids = found if isinstance(found, Tensor) else found["input_ids"]
    return torch.as_tensor(ids).reshape(1, -1)


def check_reads_text(model: Any, name: str) -> None:
    """Refuse models of sound and pictures: a prompt is text."""
    wanted = getattr(model, "main_input_name", "input_ids")
    if wanted != "input_ids":
        option = "a picture with --image" if "pixel" in wanted else "a sound with --audio"
        raise InputError(
            f"{name} reads {wanted.replace('_', ' ')}, not text; give it {option} FILE, or run the "
            "model yourself inside regard.record(model) and give it what its processor makes"
        )


def positions_of(model: Any) -> int | None:
    """How many tokens the model was made for; None where it does not say."""
    config = getattr(model.config, "text_config", None) or model.config
    for name in ("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions"):
        found = getattr(config, name, None)
        if isinstance(found, int) and found > 0:
            # RoBERTa and its kin count from behind the padding's own position
            shifted = config.model_type in ("roberta", "xlm-roberta", "camembert", "esm", "mpnet")
            return found - 2 if shifted else found
    return None


def check_length(model: Any, tokens: int, generate: int) -> None:
    """Refuse what the model has no positions for."""
    most = positions_of(model)
    if most is None or tokens + generate <= most:
        return
    more = f" and {generate} to generate" if generate else ""
    raise ShapeError(
        f"the prompt has {tokens} tokens{more}; {model.config.model_type} has {most} positions: "
        f"shorten it by {tokens + generate - most}, or record its beginning with "
        f"--truncate {max(most - generate, 1)}"
    )
