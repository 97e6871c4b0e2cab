"""What is called in a file, and which argument means what."""

from __future__ import annotations

import pytest

from learn.programs.bases import BASES
from learn.programs.variants import VARIANTS
from regard.learn.programs.names import part, role
from regard.learn.programs.observe import observe


@pytest.mark.parametrize(
    "meant, names",
    {
        "q": "q Q query queries Queries",
        "k": "k K key keys",
        "w_q": "w_q Wq W_q W_Q w_query W_query q_proj query_weight to_q",
        "w_o": "w_o W_O wo w_out out_proj o_proj",
        "heads": "num_heads n_heads heads n_head nhead num_attention_heads",
        "embed": "embed_dim d_model dim n_embd hidden_size embed_size d_in num_hiddens",
        "mask": "mask attn_mask attention_mask key_padding_mask",
        "causal": "causal is_causal",
        "max_len": "max_len block_size context_length max_seq_len",
        "dropout": "dropout dropout_p attn_drop",
    }.items(),
)  # fmt: skip
def test_roles_by_name(meant, names):
    assert {role(name) for name in names.split()} == {meant}


def test_roles_of_a_modules_state():
    assert part("heads.0.key.weight") == "w_k" and part("out_proj.bias") == "b_o"
    assert part("c_attn.weight") == "w_qkv" and part("to_out.0.weight") == "w_o"


@pytest.mark.parametrize(
    "source, entry",
    [
        (BASES["head_list"][0], "MultiHeadAttention"),
        (VARIANTS["config"], "CausalSelfAttention"),
        (VARIANTS["clones"], "MultiHeadedAttention"),
        (VARIANTS["function_of_functions"], "multi_head_attention"),
        (BASES["numpy_2d"][0], "scaled_dot_product_attention"),
    ],
)
def test_the_most_encompassing_attention_is_graded(tmp_path, source, entry):
    (tmp_path / "a.py").write_text(source)
    assert observe(tmp_path / "a.py").entry == entry


def test_an_entry_can_be_chosen(tmp_path):
    (tmp_path / "a.py").write_text(BASES["head_list"][0])
    assert observe(tmp_path / "a.py", "Head").entry == "Head"
    assert "Hat is not in it" in observe(tmp_path / "a.py", "Hat").problem
