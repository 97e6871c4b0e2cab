"""A padded batch is measured as its sequences are one by one, whoever computes the attention."""

from __future__ import annotations

import pytest
import torch
import transformers

import regard

_SMALL = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
_T5 = {
    "vocab_size": 64, "d_model": 32, "d_kv": 8, "num_heads": 4, "num_layers": 2,
    "num_decoder_layers": 2, "d_ff": 64,
}  # fmt: skip
_BART = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}  # fmt: skip
FAMILIES = {
    "bert": _SMALL, "roberta": _SMALL, "albert": _SMALL | {"embedding_size": 32},
    "distilbert": {"vocab_size": 64, "dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 64},
    "t5": _T5, "bart": _BART,
}  # fmt: skip
LENGTHS = (7, 4, 2)  # of three sequences, and of what a decoder writes
WRITTEN = (3, 5, 5)


@pytest.mark.parametrize("attention", ["sdpa", "eager", "regard"])
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_no_statistic(family, attention):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family])
    model = transformers.AutoModel.from_config(config, attn_implementation=attention).eval()
    ids = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)))
    streams = {"": LENGTHS} | ({"decoder_": WRITTEN} if config.is_encoder_decoder else {})
    samples = []
    for batches in ([range(len(LENGTHS))], [[n] for n in range(len(LENGTHS))]):
        with regard.Monitor(model, evaluation=True) as monitor:
            for entries in batches:
                model(**_given(ids, streams, list(entries)))
            samples.append(monitor.step())
    for name in ("normalized_entropy", "max_score", "peak", "sink_mass"):
        both = (torch.as_tensor(one[name]) for one in samples)
        torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5, msg=name)


def _given(ids, streams, entries):
    """These sequences, padded on the right as far as the longest of them needs it."""
    given = {}
    for stream, lengths in streams.items():
        most = max(lengths[n] for n in entries)
        real = torch.arange(most) < torch.tensor([lengths[n] for n in entries])[:, None]
        given[f"{stream}input_ids"] = ids[entries, :most]
        given[f"{stream}attention_mask"] = real.long()
    return given
