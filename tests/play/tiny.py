"""Small random models with a vocabulary of words, for readings that take milliseconds."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from regard.models import Loaded
from regard.play.session import Session

__all__ = ["TEXT", "make_session"]

TEXT = "the cat sat on the mat and the cat sat on the"
_WORDS = ["<unk>", "<pad>", "[CLS]", "[SEP]", *sorted({*TEXT.split(), "dog", "ran", "<b>hi</b>"})]


def _tokenizer(pair: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({w: n for n, w in enumerate(_WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if pair:
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", model_input_names=names
    )


@cache
def _loaded(kind: str) -> Loaded:
    import transformers

    torch.manual_seed(0)
    sizes = {
        "vocab_size": len(_WORDS), "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 64,
    }  # fmt: skip
    if kind == "pair":
        model: Any = transformers.BertModel(transformers.BertConfig(**sizes))
    else:
        config = transformers.LlamaConfig(
            **sizes, num_key_value_heads=2, bos_token_id=None, eos_token_id=None
        )
        model = transformers.LlamaForCausalLM(config)
        for one in model.parameters():
            one.data *= 6 if one.ndim > 1 else 1  # so that attention is not uniform
    tokenizer = _tokenizer(kind == "pair")
    return Loaded(model.eval(), tokenizer, None, f"tiny-{kind}", "")


def make_session(kind: str = "text") -> Session:
    """A session of its own over a model that is shared."""
    return Session(_loaded(kind))
