"""The role of an argument or a parameter, by its name in any case and spelling."""

from __future__ import annotations

import re
from typing import Final

_LETTERS: Final = {
    "q": "q|query|queries|qs|querys",
    "k": "k|key|keys|ks",
    "v": "v|value|values|vs|val|vals",
    "o": "o|out|output|outputs|final|merge|combine",
}
_MATRIX: Final = (
    "w|wt|weight|weights|proj|projection|matrix|mat|lin|linear|fc|dense|to|layer|transform"
    "|net|map|embed|kernel|param|m"
)
_BIAS: Final = "b|bias"
_PLAIN: Final[dict[str, str]] = {
    "q": r"(x|in|input|inp|src|h)?({q})(input|states|in|x|seq|tensor|vec|vecs|vectors|matrix)?",
    "k": r"(x|in|input|inp|src|h)?({k})(input|states|in|x|seq|tensor|vec|vecs|vectors|matrix)?",
    "v": r"(x|in|input|inp|src|h)?({v})(input|states|in|x|seq|tensor|vec|vecs|vectors|matrix)?",
    "x": r"x|xs|inp|input|inputs|embeddings?|emb|embs|tokens?|hidden|hiddenstates?|src|source|seq"
    r"|sequence|data|feats|features|e|h|tokenembeddings?|inputseq|sentence|xin|inputtensor|tensor",
    "x_kv": r"context|memory|enc|encoder|encoderoutput|encoderhiddenstates|y|xkv|kv|other",
    "w_qkv": r"(w|in|to|c|linear|fc|proj)?(qkv)(proj|w|weights?|linear|layer|fc)?|cattn|inproj"
    r"|inprojweight|inproj|attnproj|qkvs|kqv|wkqv",
    "b_qkv": r"bqkv|qkvbias|qkvb|inprojbias|biasqkv",
    "w_kv": r"(w|in|to|c|linear|fc|proj)+(kv|vk)s?|(kv|vk)s?(proj|w|weights?|linear|layer|fc)+",
    "b_kv": r"b(kv|vk)|(kv|vk)b(ias)?",
    "heads": r"(num|n|number|count|no)?(of)?(attn|attention|self)*heads?(num|count|number|n)?|h|nh",
    "embed": r"(d|dim|n|size|num)?(embed|embd|emb|embedding|model|hiddens?|features?"
    r"|channels?|input|in|inputs)(dim|size|d|s|dims|width|features)?|dim|d|size|width|c|ninp|units"
    r"|dimension",
    "d_out": r"(d|dim)(out|output)|(out|output)(dim|size|features|d)",
    "head_dim": r"(dim|d|n)?(per)?head(dim|size|d|width|dims)|dhead|dimhead|dimperhead|dk|dq|dimk"
    r"|keydim|kdim|qkdim|dqk|dimkey|keysize|querydim|dkey|projdim|dattn|attndim|attentiondim",
    "d_v": r"dv|valuedim|dimv|vdim|dimvalue|valuesize|dvalue",
    "max_len": r"(max|n)?(block|context|ctx|seq|sequence|len|length|positions?|tokens?)"
    r"(size|len|length|max)?|maxseqlen|maxseqlength|maxsequencelength|nctx|t|n|maxcontextlength",
    "batch": r"b|batch|batchsize|bs|nbatch",
    "dropout": r".*drop.*",
    "bias": r"(use|add|with|qkv|has)?bias(es)?|kqvbias",
    "causal": r"(is|use|apply|with)?(causal|autoregressive)(mask|masking|ly)?|usemask|masked"
    r"|ismasked|maskfuture|decoder|isdecoder|usecausal",
    "mask": r".*mask.*",
    "training": r"(is)?train(ing)?",
    "eval": r"deterministic|eval|inference",
    "returned": r"(return|need|output|get|with).*",
    "config": r"config|cfg|conf|args|hparams|params|opt|opts|options|settings",
}  # fmt: skip


def plain(name: str) -> str:
    """Lower case, without underscores and dots: W_q, Wq and w.q are one name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def role(name: str) -> str:
    """What an argument means: q, w_q, heads, mask …; empty where its name does not say."""
    word = plain(name)
    weight = parameter(name)
    if re.fullmatch(_pattern("q"), word):
        return "q"
    for one in ("k", "v"):
        if re.fullmatch(_pattern(one), word):
            return one
    if weight and (weight != "w_o" or word not in ("out", "output", "o")):
        return weight
    for one in _PLAIN:
        if one not in ("q", "k", "v") and re.fullmatch(_pattern(one), word):
            return one
    return ""


def _pattern(name: str) -> str:
    return _PLAIN[name].format(**_LETTERS) if "{" in _PLAIN[name] else _PLAIN[name]


def parameter(name: str) -> str:
    """The role of a weight matrix or bias: w_q … w_o, b_q … b_o, w_qkv, b_qkv; or empty."""
    word = plain(name)
    for one in ("w_qkv", "b_qkv", "w_kv", "b_kv"):
        if re.fullmatch(_PLAIN[one], word):
            return one
    for letter, spelt in _LETTERS.items():
        for kind, marks in (("b", _BIAS), ("w", _MATRIX)):
            if re.fullmatch(rf"(?:{marks})+(?:{spelt})|(?:{spelt})(?:{marks})+", word):
                return f"{kind}_{letter}"
    return ""


def part(path: str) -> str:
    """The role of an entry of a module's state: 'heads.0.key.weight' is w_k."""
    pieces = path.split(".")
    bias = pieces[-1] == "bias"
    if pieces[-1] in ("weight", "bias"):
        pieces = pieces[:-1]
    for piece in reversed([piece for piece in pieces if not piece.isdigit()]):
        word = plain(piece)
        found = parameter(piece)
        if not found and word == "kv":
            found = "w_kv"
        if not found:
            letter = next((one for one, s in _LETTERS.items() if re.fullmatch(s, word)), "")
            tail = word in ("proj", "projection", "fc", "linear", "dense", "cproj", "lin", "fc1")
            found = f"w_{letter}" if letter else "w_o" if tail else ""
        if not found and re.fullmatch(
            r"c?proj(out|proj|put)*|out.*|o(proj|layer|linear)|.*out", word
        ):
            found = "w_o"
        if found:
            return found.replace("w_", "b_") if bias else found
    return ""
