"""The inputs, their projections and the heads."""

from __future__ import annotations

from typing import Final

from regard.learn.programs.mistake import Mistake, mistake

BEFORE: Final[tuple[Mistake, ...]] = (
    mistake(
        "projections",
        "shared projection",
        "keys are made with the queries' weights",
        "K = x W_k",
        sources="qqv",
    ),
    mistake(
        "projections",
        "shared projection",
        "queries are made with the keys' weights",
        "Q = x W_q",
        sources="kkv",
    ),
    mistake(
        "projections",
        "shared projection",
        "values are made with the keys' weights",
        "V = x W_v",
        sources="qkk",
    ),
    mistake(
        "projections",
        "shared projection",
        "values are made with the queries' weights",
        "V = x W_v",
        sources="qkq",
    ),
    mistake(
        "projections",
        "shared projection",
        "queries are made with the values' weights",
        "Q = x W_q",
        sources="vkv",
    ),
    mistake(
        "projections",
        "shared projection",
        "keys are made with the values' weights",
        "K = x W_k",
        sources="qvv",
    ),
    mistake(
        "projections",
        "shared projection",
        "all three are made with the same weights",
        "Q, K and V have weights of their own",
        sources=["qqq", "kkk", "vvv"],
    ),
    mistake(
        "projections",
        "swapped projections",
        "the weights of queries and keys are swapped",
        "Q = x W_q, K = x W_k",
        sources="kqv",
    ),
    mistake(
        "projections",
        "swapped projections",
        "the weights of keys and values are swapped",
        "K = x W_k, V = x W_v",
        sources="qvk",
    ),
    mistake(
        "projections",
        "swapped projections",
        "the weights of queries and values are swapped",
        "Q = x W_q, V = x W_v",
        sources="vkq",
    ),
    mistake(
        "projections",
        "swapped projections",
        "the weights of Q, K and V are rotated",
        "Q = x W_q, K = x W_k, V = x W_v",
        sources=["kvq", "vqk"],
    ),
    mistake(
        "projections", "projection missing", "values are not projected", "V = x W_v", sources="qkx"
    ),
    mistake(
        "projections", "projection missing", "keys are not projected", "K = x W_k", sources="qxv"
    ),
    mistake(
        "projections", "projection missing", "queries are not projected", "Q = x W_q", sources="xkv"
    ),
    mistake(
        "projections",
        "projection missing",
        "nothing is projected",
        "Q = x W_q, K = x W_k, V = x W_v",
        sources=["xxx", "xxv", "qxx", "xkx"],
    ),
    mistake(
        "projections",
        "weight transposed",
        "a weight matrix is transposed",
        "x W, with W as it was given",
        sources=["Qkv", "qKv", "qkV", "QKv", "QkV", "qKV"],
    ),
    mistake(
        "projections",
        "bias left out",
        "a bias is not added",
        "add every bias",
        bias=["q", "k", "v", "none"],
    ),
    mistake(
        "projections",
        "wrong input",
        "keys are computed from the queries' input",
        "keys come from the key input",
        inputs="qqv",
    ),
    mistake(
        "projections",
        "wrong input",
        "values are computed from the queries' input",
        "values come from the value input",
        inputs="qkq",
    ),
    mistake(
        "projections",
        "wrong input",
        "values are computed from the keys' input",
        "values come from the value input",
        inputs="qkk",
    ),
    mistake(
        "projections",
        "wrong input",
        "keys are computed from the values' input",
        "keys come from the key input",
        inputs="qvv",
    ),
    mistake(
        "projections",
        "wrong input",
        "queries are computed from the keys' input",
        "queries come from the query input",
        inputs=["kkv", "vkv"],
    ),
    mistake(
        "projections",
        "wrong input",
        "all three are computed from the queries' input",
        "keys and values come from inputs of their own",
        inputs="qqq",
    ),
    mistake(
        "projections",
        "wrong input",
        "the inputs are swapped",
        "Q from the first input, K from the second, V from the third",
        inputs=["kqv", "qvk", "vkq"],
    ),
    mistake(
        "heads",
        "heads split without permuting",
        "heads are split by a reshape alone, so they mix tokens",
        "reshape to (batch, tokens, heads, d), then swap tokens and heads",
        split=["unpermuted", "swapped", *(f"unpermuted {one}" for one in ("q", "k", "v", "qk"))],
    ),
    mistake(
        "heads",
        "heads split without permuting",
        "heads are split and merged by a reshape alone, so they mix tokens",
        "reshape to (batch, tokens, heads, d), then swap tokens and heads",
        split=["unpermuted", "swapped"],
        merge="unpermuted",
    ),
    mistake(
        "heads",
        "attention over heads",
        "tokens and heads are not swapped, so heads attend to heads",
        "swap the axes of tokens and heads before the scores",
        split="tokens",
        merge=["heads", "unpermuted"],
    ),
    mistake(
        "heads",
        "one head",
        "all features form one head",
        "split the features into heads",
        split="whole",
    ),
    mistake(
        "heads",
        "one head for all",
        "every head works with the features of the first",
        "head h has features of its own: those from h·d to (h + 1)·d",
        split=["first qkv", "first v", "first k", "first q", "first kv", "first qk"],
    ),
    mistake(
        "heads",
        "key heads repeated wrongly",
        "grouped key heads are tiled",
        "repeat each key head for its group of queries",
        split="tiled",
    ),
)
