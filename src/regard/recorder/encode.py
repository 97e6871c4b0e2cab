"""A text as the model's tokens, with what was put in front of it said aloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, ShapeError


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
        raise InputError(
            f"{name} reads {wanted.replace('_', ' ')}, not text; run it yourself inside "
            "regard.record(model) and give it what its processor makes"
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
        f"shorten it by {tokens + generate - most}"
    )
