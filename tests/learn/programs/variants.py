"""Right implementations that must raise no alarm, in layouts and conventions of all kinds."""

from __future__ import annotations

_TORCH = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"

VARIANTS: dict[str, str] = {
    "loops": """
import math

import numpy as np

def attention(q, k, v):
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        scores = [float(np.dot(q[i], k[j])) / math.sqrt(q.shape[1]) for j in range(len(k))]
        top = max(scores)
        e = [math.exp(s - top) for s in scores]
        for j in range(len(k)):
            out[i] += e[j] / sum(e) * v[j]
    return out
""",
    "naive_softmax": """
import numpy as np

def dot_product_attention(query, key, value):
    scores = query @ key.swapaxes(-2, -1) / np.sqrt(key.shape[-1])
    e = np.exp(scores)
    return e / (e.sum(-1, keepdims=True) + 1e-9) @ value
""",
    "hide_mask": """
import numpy as np

def attend(Q, K, V, attn_mask=None):
    S = (Q / np.sqrt(Q.shape[-1])) @ np.moveaxis(K, -1, -2)
    if attn_mask is not None:
        S[attn_mask] = -1e30
    W = np.exp(S - S.max(-1, keepdims=True))
    W /= W.sum(-1, keepdims=True)
    return W @ V
""",
    "additive_mask": _TORCH + """
def sdpa(q, k, v, mask=None):
    s = torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        s = s + mask
    return torch.einsum("...ij,...jd->...id", s.softmax(-1), v)
""",
    "one_minus_mask": """
import numpy as np

def scaled_attention(q, k, v, mask=None):
    logits = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])
    if mask is not None:
        logits += (1 - mask) * -1e9
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    return {"output": p @ v, "weights": p}
""",
    "renormalised_mask": """
import numpy as np

def attention(q, k, v, mask=None):
    e = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    if mask is not None:
        e = e * mask
    return (e / e.sum(-1, keepdims=True)) @ v
""",
    "tokens_before_heads": _TORCH + """
class Attention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        x = self.attn_drop(attn.softmax(dim=-1)) @ v
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(B, N, C)))
""",
    "per_head_qkv": _TORCH + """
class FusedAttention(nn.Module):
    def __init__(self, hidden_size, n_heads):
        super().__init__()
        self.h = n_heads
        self.Wqkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        b, n, c = hidden_states.shape
        x = self.Wqkv(hidden_states).view(b, n, self.h, 3, c // self.h)
        q, k, v = x[..., 0, :], x[..., 1, :], x[..., 2, :]
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(c // self.h)
        o = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(s, -1), v)
        return self.dense(o.reshape(b, n, c))
""",
    "interleaved": _TORCH + """
class MHA(nn.Module):
    def __init__(self, embed_size, heads):
        super().__init__()
        self.heads, self.d = heads, embed_size // heads
        self.to_q = nn.Linear(embed_size, embed_size, bias=False)
        self.to_k = nn.Linear(embed_size, embed_size, bias=False)
        self.to_v = nn.Linear(embed_size, embed_size, bias=False)
        self.to_out = nn.Sequential(nn.Linear(embed_size, embed_size), nn.Dropout(0.1))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (f(x).view(b, n, self.d, self.heads).permute(0, 3, 1, 2)
                   for f in (self.to_q, self.to_k, self.to_v))
        a = torch.softmax(q @ k.mT / self.d ** 0.5, dim=-1)
        return self.to_out((a @ v).permute(0, 2, 3, 1).reshape(b, n, -1))
""",
    "clones": _TORCH + """
import copy

def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])

def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn

class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)
""",
    "d_in_d_out": _TORCH + """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        hidden = torch.triu(torch.ones(context_length, context_length), diagonal=1)
        self.register_buffer("mask", hidden)

    def forward(self, x):
        b, num_tokens, d_in = x.shape
        keys = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        context_vec = (self.dropout(attn_weights) @ values).transpose(1, 2)
        return self.out_proj(context_vec.contiguous().view(b, num_tokens, self.d_out))
""",
    "raw_parameters": _TORCH + """
class SelfAttention_v1(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        keys = x @ self.W_key
        queries = x @ self.W_query
        values = x @ self.W_value
        scores = queries @ keys.T
        return torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1) @ values
""",
    "config": _TORCH + """
from dataclasses import dataclass

@dataclass
class GPTConfig:
    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True

class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight)

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config)

    def forward(self, x):
        return x + self.attn(self.ln_1(x))
""",
    "numpy_class": """
import numpy as np

class MultiHeadSelfAttention:
    def __init__(self, embed_dim, num_heads, seed=0):
        rng = np.random.default_rng(seed)
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.Wq = rng.normal(0, 0.02, (embed_dim, embed_dim))
        self.Wk = rng.normal(0, 0.02, (embed_dim, embed_dim))
        self.Wv = rng.normal(0, 0.02, (embed_dim, embed_dim))
        self.Wo = rng.normal(0, 0.02, (embed_dim, embed_dim))

    def _split(self, x):
        return x.reshape(*x.shape[:-1], self.num_heads, self.head_dim).swapaxes(-2, -3)

    def __call__(self, x):
        q, k, v = self._split(x @ self.Wq), self._split(x @ self.Wk), self._split(x @ self.Wv)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(self.head_dim)
        s = np.exp(s - s.max(-1, keepdims=True))
        o = (s / s.sum(-1, keepdims=True)) @ v
        o = o.swapaxes(-2, -3)
        return o.reshape(*o.shape[:-2], -1) @ self.Wo
""",
    "function_of_functions": """
import numpy as np

def softmax(x, axis=-1):
    x = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return x / np.sum(x, axis=axis, keepdims=True)

def attention(Q, K, V, mask=None):
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    if mask is not None:
        scores = np.where(mask == 0, -np.inf, scores)
    return softmax(scores) @ V

def multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    heads = []
    for i in range(n_heads):
        part = slice(i * d, (i + 1) * d)
        heads.append(attention(X @ W_Q[:, part], X @ W_K[:, part], X @ W_V[:, part], mask))
    return np.concatenate(heads, axis=-1) @ W_O
""",
    "keep_flag": """
import numpy as np

def causal_attention(q, k, v):
    n = q.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = scores + np.triu(np.full((n, n), -np.inf), k=1)
    w = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (w / w.sum(axis=-1, keepdims=True)) @ v
""",
    "folded_heads": _TORCH + """
class MultiHead(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout=0.0, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_k = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_v = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_o = nn.LazyLinear(num_hiddens, bias=bias)

    def fold(self, X):
        X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1).permute(0, 2, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])

    def forward(self, queries, keys, values):
        b = queries.shape[0]
        q, k = self.fold(self.W_q(queries)), self.fold(self.W_k(keys))
        v = self.fold(self.W_v(values))
        a = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        o = torch.bmm(F.softmax(a, dim=-1), v)
        o = o.reshape(b, self.num_heads, o.shape[1], o.shape[2]).permute(0, 2, 1, 3)
        return self.W_o(o.reshape(b, o.shape[1], -1))
""",
    "grouped_queries": _TORCH + """
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads=1):
        super().__init__()
        self.n_heads, self.n_kv, self.d = n_heads, n_kv_heads, d_model // n_heads
        self.q_proj = nn.Linear(d_model, n_heads * self.d, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.d, bias=False)
        self.o_proj = nn.Linear(n_heads * self.d, d_model, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.n_heads, self.d).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.n_kv, self.d).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.n_kv, self.d).transpose(1, 2)
        k = k.repeat_interleave(self.n_heads // self.n_kv, 1)
        v = v.repeat_interleave(self.n_heads // self.n_kv, 1)
        o = torch.softmax(q @ k.mT / self.d ** 0.5, -1) @ v
        return self.o_proj(o.transpose(1, 2).reshape(b, n, -1))
""",
    "library_module": _TORCH + """
class Wrapper(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.mha = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, x):
        return self.mha(x, x, x, need_weights=False)[0]
""",
    "single_head": _TORCH + """
class Head(nn.Module):
    def __init__(self, input_dim, head_dim):
        super().__init__()
        self.a = nn.Linear(input_dim, head_dim)
        self.b = nn.Linear(input_dim, head_dim)
        self.c = nn.Linear(input_dim, head_dim)

    def forward(self, x, mask=None):
        q, k, v = self.a(x), self.b(x), self.c(x)
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(k.size(-1))
        if mask is not None:
            s = s.masked_fill(mask, float("-inf"))
        return torch.bmm(s.softmax(-1), v)
""",
    "globals": """
import numpy as np

rng = np.random.default_rng(1)
W_q = rng.normal(size=(6, 4))
W_k = rng.normal(size=(6, 4))
W_v = rng.normal(size=(6, 4))

def self_attention(x):
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    s = q @ k.T / 2
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v

if __name__ == "__main__":
    print(self_attention(rng.normal(size=(3, 6))))
""",
    "padding": _TORCH + """
def attention(q, k, v, key_padding_mask=None):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if key_padding_mask is not None:
        s = s.masked_fill(key_padding_mask[:, None, :], float("-inf"))
    return F.softmax(s, -1) @ v
""",
    "flag": _TORCH + """
def attention(q, k, v, is_causal: bool = False, dropout_p: float = 0.0, training: bool = True):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if is_causal:
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
        s = s.masked_fill(hidden, -math.inf)
    w = F.dropout(torch.softmax(s, -1), dropout_p, training)
    return w @ v
""",
    "float32_inside": _TORCH + """
def attention(q, k, v):
    w = torch.softmax((q.float() @ k.float().transpose(-1, -2)) / q.size(-1) ** 0.5, -1)
    return (w @ v.float()).to(q.dtype)
""",
    "noisy": """
import numpy as np

print("loading", "x" * 100000)

def attention(q, k, v):
    print(q.shape)
    w = np.exp(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5)
    w = w / w.sum(-1)[..., None]
    return w @ v
""",
    "two_inputs": _TORCH + """
class CrossAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_lin = nn.Linear(d_model, d_model)
        self.k_lin = nn.Linear(d_model, d_model)
        self.v_lin = nn.Linear(d_model, d_model)
        self.out_lin = nn.Linear(d_model, d_model)

    def forward(self, x, context):
        b, n, c = x.shape
        def split(t):
            return t.view(b, -1, self.n_heads, c // self.n_heads).transpose(1, 2)
        q, k, v = split(self.q_lin(x)), split(self.k_lin(context)), split(self.v_lin(context))
        o = F.scaled_dot_product_attention(q, k, v)
        return self.out_lin(o.transpose(1, 2).reshape(b, n, c))
""",
    "config_dict": _TORCH + """
class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg["n_heads"]
        e = cfg["emb_dim"]
        self.qkv = nn.Linear(e, 3 * e, bias=cfg["qkv_bias"])
        self.o = nn.Linear(e, e)
        self.drop = nn.Dropout(cfg["drop_rate"])
        n = cfg["context_length"]
        self.register_buffer("m", torch.ones(n, n).triu(1).bool())
    def forward(self, x):
        b, n, e = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, e // self.h).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT).masked_fill(self.m[:n, :n], float("-inf"))
        w = self.drop((s / (e // self.h) ** 0.5).softmax(-1))
        return self.o((w @ v).transpose(1, 2).reshape(b, n, e))
""",
    "param_3d": _TORCH + """
class MHA(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d = d_model // n_heads
        self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d))
        self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d))
        self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d))
        self.W_O = nn.Parameter(torch.randn(n_heads, d, d_model))
        self.d = d
    def forward(self, x):
        q = torch.einsum("bpm,hmd->bphd", x, self.W_Q)
        k = torch.einsum("bpm,hmd->bphd", x, self.W_K)
        v = torch.einsum("bpm,hmd->bphd", x, self.W_V)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.d ** 0.5
        z = torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v)
        return torch.einsum("bqhd,hdm->bqm", z, self.W_O)
""",
    "mha_seqfirst": _TORCH + """
class Wrapped(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads)

    def forward(self, query, key, value):
        out, _ = self.attn(query, key, value)
        return out
""",
    "loop_without_output": """
import numpy as np

def multi_head(x, w_q, w_k, w_v, num_heads):
    out = np.zeros_like(x)
    d = x.shape[-1] // num_heads
    for h in range(num_heads):
        part = slice(h * d, (h + 1) * d)
        s = (x @ w_q)[:, part] @ (x @ w_k)[:, part].T / np.sqrt(d)
        e = np.exp(s - s.max(-1, keepdims=True))
        out[:, part] = e / e.sum(-1, keepdims=True) @ (x @ w_v)[:, part]
    return out
""",
}  # fmt: skip
