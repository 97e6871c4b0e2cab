"""The mistakes that have a name, in the order of the steps: one row each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

STEPS: Final[dict[str, float]] = {  # in order, with the points of each
    "inputs": 1, "projections": 2, "heads": 2, "scores": 2, "scaling": 2, "mask": 2, "softmax": 3,
    "weighted sum": 2, "merge": 2, "output projection": 1, "dropout": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """A step, a short name, what happened, what would be right, and how to compute it."""

    step: str
    kind: str
    text: str
    fix: str
    variants: tuple[dict[str, Any], ...]

    @property
    def place(self) -> int:
        """Where its step comes in the order of the definition."""
        return list(STEPS).index(self.step)


def mistake(step: str, kind: str, text: str, fix: str, **fields: Any) -> Mistake:
    """One variant per value where a field is given a list."""
    variants: list[dict[str, Any]] = [{}]
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        variants = [old | {name: one} for old in variants for one in values]
    return Mistake(step, kind, text, fix, tuple(variants))


_BATCH: Final = "every entry of a batch attends to itself alone"
_BOTH: Final = [False, True]
_CAUSAL: Final = "one token too few or too many is hidden"
_FILLS: Final = [-math.inf, -1e9, -1e10, -1e20, -1e4]  # where the softmax does not make them 0
_LEFT: Final = ["once", "missing"]

# step → its short name, what happened, what would be right, the fields of the recipe it changes
_TABLE: Final[dict[str, tuple[tuple[str, str, str, dict[str, Any]], ...]]] = {
    "projections": (
        ("shared projection", "keys are made with the queries' weights", "K = x W_k",
         {"sources": "qqv"}),
        ("shared projection", "queries are made with the keys' weights", "Q = x W_q",
         {"sources": "kkv"}),
        ("shared projection", "values are made with the keys' weights", "V = x W_v",
         {"sources": "qkk"}),
        ("shared projection", "values are made with the queries' weights", "V = x W_v",
         {"sources": "qkq"}),
        ("shared projection", "queries are made with the values' weights", "Q = x W_q",
         {"sources": "vkv"}),
        ("shared projection", "keys are made with the values' weights", "K = x W_k",
         {"sources": "qvv"}),
        ("shared projection", "all three are made with the same weights",
         "Q, K and V have weights of their own", {"sources": ["qqq", "kkk", "vvv"]}),
        ("swapped projections", "the weights of queries and keys are swapped",
         "Q = x W_q, K = x W_k", {"sources": "kqv"}),
        ("swapped projections", "the weights of keys and values are swapped",
         "K = x W_k, V = x W_v", {"sources": "qvk"}),
        ("swapped projections", "the weights of queries and values are swapped",
         "Q = x W_q, V = x W_v", {"sources": "vkq"}),
        ("swapped projections", "the weights of Q, K and V are rotated",
         "Q = x W_q, K = x W_k, V = x W_v", {"sources": ["kvq", "vqk"]}),
        ("projection missing", "values are not projected", "V = x W_v", {"sources": "qkx"}),
        ("projection missing", "keys are not projected", "K = x W_k", {"sources": "qxv"}),
        ("projection missing", "queries are not projected", "Q = x W_q", {"sources": "xkv"}),
        ("projection missing", "nothing is projected", "Q = x W_q, K = x W_k, V = x W_v",
         {"sources": ["xxx", "xxv", "qxx", "xkx"]}),
        ("weight transposed", "a weight matrix is transposed", "x W, with W as it was given",
         {"sources": ["Qkv", "qKv", "qkV", "QKv", "QkV", "qKV"]}),
        ("bias left out", "a bias is not added", "add every bias",
         {"bias": ["q", "k", "v", "none"]}),
        ("wrong input", "keys are computed from the queries' input", "keys come from the key input",
         {"inputs": "qqv"}),
        ("wrong input", "values are computed from the queries' input",
         "values come from the value input", {"inputs": "qkq"}),
        ("wrong input", "values are computed from the keys' input",
         "values come from the value input", {"inputs": "qkk"}),
        ("wrong input", "keys are computed from the values' input", "keys come from the key input",
         {"inputs": "qvv"}),
        ("wrong input", "queries are computed from the keys' input",
         "queries come from the query input", {"inputs": ["kkv", "vkv"]}),
        ("wrong input", "all three are computed from the queries' input",
         "keys and values come from inputs of their own", {"inputs": "qqq"}),
        ("wrong input", "the inputs are swapped",
         "Q from the first input, K from the second, V from the third",
         {"inputs": ["kqv", "qvk", "vkq"]}),
    ),
    "heads": (
        ("heads split without permuting", "heads are split by a reshape alone, so they mix tokens",
         "reshape to (batch, tokens, heads, d), then swap tokens and heads",
         {"split": ["unpermuted", "swapped",
                    *(f"unpermuted {one}" for one in ("q", "k", "v", "qk"))]}),
        ("heads split without permuting",
         "heads are split and merged by a reshape alone, so they mix tokens",
         "reshape to (batch, tokens, heads, d), then swap tokens and heads",
         {"split": ["unpermuted", "swapped"], "merge": "unpermuted"}),
        ("attention over heads", "tokens and heads are not swapped, so heads attend to heads",
         "swap the axes of tokens and heads before the scores",
         {"split": "tokens", "merge": ["heads", "unpermuted"]}),
        ("one head", "all features form one head", "split the features into heads",
         {"split": "whole"}),
        ("one head for all", "every head works with the features of the first",
         "head h has features of its own: those from h·d to (h + 1)·d",
         {"split": ["first qkv", "first v", "first k", "first q", "first kv", "first qk"]}),
        ("key heads repeated wrongly", "grouped key heads are tiled",
         "repeat each key head for its group of queries", {"split": "tiled"}),
    ),
    "scores": (
        ("queries and keys swapped", "the scores are transposed: keys ask, queries answer",
         "scores = Q Kᵀ", {"scores": "kq", "mask": ["before", "transposed"]}),
        ("wrong factor", "the scores are Q Qᵀ", "scores = Q Kᵀ", {"scores": "qq"}),
        ("wrong factor", "the scores are K Kᵀ", "scores = Q Kᵀ", {"scores": "kk"}),
        ("wrong factor", "the scores use V in place of K", "scores = Q Kᵀ",
         {"scores": ["qv", "vq"]}),
        ("wrong factor", "the scores use V in place of Q", "scores = Q Kᵀ",
         {"scores": ["vk", "kv", "vv"]}),
        ("wrong sign", "the scores have the wrong sign", "scores = Q Kᵀ", {"scores": "-qk"}),
        ("not a dot product", "the scores are no dot products", "scores = Q Kᵀ",
         {"scores": ["distance", "cosine", "added"]}),
        ("batch mixed up", "queries meet the keys of another entry of the batch", _BATCH,
         {"scores": "nextbatch"}),
    ),
    "scaling": (
        ("no scale", "not scaled", "divide the scores by √d, the width of one head",
         {"scale": "none"}),
        ("wrong scale", "divided by d, not by √d", "divide by √d", {"scale": ["1/d", "1/2d"]}),
        ("wrong scale", "multiplied by √d, not divided", "divide by √d", {"scale": "*d"}),
        ("wrong scale", "multiplied by d", "divide by √d", {"scale": "**d"}),
        ("√embed", "divided by √embed, not by √head", "divide by √d, d the width of one head",
         {"scale": ["embed", "width"]}),
        ("wrong scale", "divided by the embedding's width", "divide by √d, d the width of one head",
         {"scale": ["1/embed", "1/width"]}),
        ("wrong scale", "multiplied by √embed", "divide by √d, d the width of one head",
         {"scale": "*embed"}),
        ("√heads", "divided by √heads", "divide by √d, d the width of one head",
         {"scale": "heads"}),
        ("√tokens", "divided by √tokens", "divide by √d, d the width of one head",
         {"scale": ["tokens", "keys"]}),
        ("wrong scale", "divided by the number of keys", "divide by √d", {"scale": "1/keys"}),
        ("√d_v", "divided by the square root of the values' width",
         "divide by √d of queries and keys", {"scale": "d_v"}),
        ("wrong scale", "divided by √batch", "divide by √d", {"scale": "batch"}),
        ("wrong scale", "divided by √(d/2)", "divide by √d", {"scale": "d/2"}),
        ("wrong scale", "divided by d²", "divide by √d", {"scale": "1/d2"}),
        ("wrong scale", "divided by the fourth root of d", "divide by √d", {"scale": "d**.25"}),
        ("scale after softmax", "scaled after the softmax",
         "divide the scores by √d, before the softmax", {"scale": ["late", "both"]}),
    ),
    "mask": (
        ("mask missing", "the mask is not applied",
         "−∞ where a query may not see a key, before the softmax", {"mask": "missing"}),
        ("mask after softmax",
         "the mask is applied after the softmax, so the weights do not sum to 1",
         "mask the scores, before the softmax", {"mask": "after", "flip": _BOTH}),
        ("mask after softmax", "the mask is applied after the softmax",
         "mask the scores, before the softmax",
         {"mask": "afterfill", "flip": _BOTH,
          "fill": [-math.inf, -1e9, -1e10, -1e20, -1e4, -1e5, -1e6, -1e8, -1e12, -1e30, -100.0,
                   -1e3]}),
        ("mask inverted", "the mask is inverted: it hides what may be seen",
         "hide the other positions", {"mask": "inverted"}),
        ("mask inverted", "the mask is inverted: it hides the past and shows the future",
         "hide the other positions", {"mask": "inverted", "causal": 1}),
        ("masked with 0", "hidden scores are set to 0, so they keep weight", "−∞ in their place",
         {"mask": ["before", "times"], "fill": [0.0], "flip": _BOTH}),
        ("masked with a small number", "hidden scores are set to a number that is not low enough",
         "−∞ in its place",
         {"mask": "before",
          "fill": [-1.0, -2.0, -5.0, -9.0, -10.0, -0.5, -3.0, -4.0, -8.0, -1e-3, 1.0, -0.1],
          "flip": _BOTH}),
        ("masked with +∞", "hidden scores are set to a large number", "−∞ in its place",
         {"mask": "before", "fill": [math.inf, 1e9, 1e10, 1e20, 1e4, 1e5, 1e6, 100.0, 1e3],
          "flip": _BOTH}),
        ("mask added as 0 and 1", "the mask is added as 0 and 1", "add 0 and −∞",
         {"mask": ["added", "taken"]}),
        ("off by one", "the token's own position is hidden", _CAUSAL, {"causal": -1}),
        ("off by one", "one later token is visible", _CAUSAL, {"causal": 1}),
        ("off by one", "the causal mask is shifted", _CAUSAL, {"causal": [-2, 2, 3]}),
        ("mask transposed", "the mask is transposed: the triangle is the upper one",
         "rows are queries, columns are keys", {"mask": "transposed", "flip": _BOTH}),
        ("mask transposed", "the mask hides the past and shows the future",
         "a query sees itself and what came before", {"mask": "transposed", "causal": [-1, 1]}),
    ),
    "softmax": (
        ("softmax axis", "the softmax runs over the queries",
         "softmax over the keys, the last axis",
         {"softmax": ["queries", "shifted queries"], "fill": _FILLS}),
        ("softmax axis", "the softmax runs over the heads", "softmax over the keys, the last axis",
         {"softmax": ["heads", "shifted heads"], "fill": _FILLS}),
        ("softmax axis", "the softmax runs over the batch", "softmax over the keys, the last axis",
         {"softmax": ["batch", "shifted batch"], "fill": _FILLS}),
        ("softmax axis", "the softmax runs over all scores at once",
         "softmax over the keys, the last axis",
         {"softmax": ["all", "everything", "keysheads", "headqueries", "perbatch", "shifted all",
                      "shifted everything", "shifted perbatch"],
          "fill": _FILLS}),
        ("no softmax", "there is no softmax", "softmax over the keys",
         {"softmax": "none", "fill": _FILLS}),
        ("not normalised", "the exponentials are not divided by their sum", "each row sums to 1",
         {"softmax": ["exp", "expmax"]}),
        ("not a softmax", "the scores are divided by their sum, without exp",
         "exp, then divide by the sum",
         {"softmax": ["linear", "abs", "shifted linear"], "fill": _FILLS}),
        ("not a softmax", "a sigmoid or ReLU takes the place of the softmax",
         "softmax over the keys", {"softmax": ["sigmoid", "relu"], "fill": _FILLS}),
        ("not a softmax", "only the largest score counts", "softmax over the keys",
         {"softmax": "argmax"}),
        ("log_softmax", "log_softmax in place of softmax", "softmax over the keys",
         {"softmax": "log", "fill": _FILLS}),
        ("softmax twice", "the softmax is applied twice", "once", {"softmax": "twice"}),
        ("keepdims", "each row is divided by another row's sum: keepdims is missing",
         "sum(axis=-1, keepdims=True)",
         {"softmax": ["sumflat", "shifted sumflat"], "fill": _FILLS}),
        ("keepdims", "another row's maximum is subtracted: keepdims is missing",
         "max(axis=-1, keepdims=True)", {"softmax": "maxflat", "fill": _FILLS}),
        ("wrong base", "powers of 2, not of e", "exp", {"softmax": "base2"}),
        ("wrong sign", "softmax of the negated scores", "softmax of the scores",
         {"softmax": "negative", "fill": _FILLS}),
    ),
    "weighted sum": (
        ("weights transposed", "the weights are transposed", "output = weights V", {"sum": "tv"}),
        ("wrong factor", "the weights are multiplied with K", "output = weights V",
         {"sum": ["wk", "tk"]}),
        ("wrong factor", "the weights are multiplied with Q", "output = weights V",
         {"sum": ["wq", "tq"]}),
        ("weights ignored", "the values are averaged without their weights", "output = weights V",
         {"sum": "mean"}),
        ("not a matrix product", "weights and values are multiplied entry by entry",
         "output = weights V", {"sum": ["diagonal", "rowsum", "columnsum"]}),
        ("returns the weights", "the weights are returned in place of the output",
         "output = weights V", {"sum": "weights"}),
        ("batch mixed up", "weights meet the values of another entry of the batch", _BATCH,
         {"sum": "nextbatch"}),
        ("batch mixed up", "all entries of a batch attend to the first one", _BATCH,
         {"batch": ["first", "first v", "first k"]}),
        ("batch mixed up", "all entries of a batch get the output of the first one", _BATCH,
         {"batch": "only"}),
    ),
    "merge": (
        ("heads merged without permuting", "heads are merged by a reshape alone, so tokens mix",
         "swap heads and tokens back before the reshape", {"merge": ["unpermuted", "turned"]}),
        ("heads not concatenated", "heads are averaged, not concatenated", "concatenate the heads",
         {"merge": "mean", "output": _LEFT}),
        ("heads not concatenated", "heads are added, not concatenated", "concatenate the heads",
         {"merge": "sum", "output": _LEFT}),
        ("heads not concatenated", "only one head is returned", "concatenate the heads",
         {"merge": ["first", "last"], "output": _LEFT}),
        ("heads out of order", "the features of the heads are in the wrong order",
         "head 1's features, then head 2's", {"merge": ["interleaved", "reversed"]}),
        ("batch mixed up", "heads and batch are mixed up when merging", _BATCH,
         {"merge": ["batchmixed", "batchlast"]}),
    ),
    "output projection": (
        ("output projection missing", "the output projection is missing",
         "multiply the merged heads by W_o", {"output": "missing"}),
        ("output projection twice", "the output projection is applied twice", "once",
         {"output": "twice"}),
        ("weight transposed", "the output projection's weights are transposed", "heads W_o",
         {"output": "transposed"}),
        ("bias left out", "the output projection's bias is not added", "add it", {"bias": "o"}),
        ("input added", "the input is added to the output",
         "the residual belongs to the block around it", {"output": "residual"}),
    ),
}  # fmt: skip

MISTAKES: Final = tuple(
    mistake(step, kind, text, fix, **fields)
    for step, rows in _TABLE.items()
    for kind, text, fix, fields in rows
)
