# ruff: noqa: E501
"""Right implementations in the styles students write, each with the mistakes made in it."""

from __future__ import annotations

NUMPY_2D = """
import numpy as np

def softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)

def scaled_dot_product_attention(Q, K, V):
    d_k = Q.shape[1]
    scores = Q @ K.T / np.sqrt(d_k)
    weights = softmax(scores)
    return weights @ V
"""

NUMPY_EINSUM = """
import numpy as np

def attention(queries, keys, values, mask=None, causal=False):
    d = queries.shape[-1]
    scores = np.einsum("...qd,...kd->...qk", queries, keys)
    scores = scores / d ** 0.5
    if causal:
        n, m = scores.shape[-2:]
        scores = np.where(np.tril(np.ones((n, m), dtype=bool)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.einsum("...qk,...kd->...qd", weights, values), weights
"""

TORCH_FUNCTION = """
import math
import torch
import torch.nn.functional as F

def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn
"""

TORCH_WEIGHTS = """
import torch

def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads):
    B, N, E = x.shape
    q = x @ W_q
    k = x @ W_k
    v = x @ W_v
    d = q.shape[-1] // num_heads
    q = q.reshape(B, N, num_heads, d).transpose(1, 2)
    k = k.reshape(B, N, num_heads, d).transpose(1, 2)
    v = v.reshape(B, N, num_heads, d).transpose(1, 2)
    scores = q @ k.transpose(-1, -2) * d ** -0.5
    weights = torch.softmax(scores, dim=-1)
    heads = weights @ v
    merged = heads.transpose(1, 2).reshape(B, N, num_heads * d)
    return merged @ W_o
"""

NUMPY_SELF = """
import numpy as np

def self_attention(x, w_q, w_k, w_v):
    q = np.dot(x, w_q)
    k = np.dot(x, w_k)
    v = np.dot(x, w_v)
    scores = q.dot(k.T) / np.sqrt(k.shape[-1])
    e = np.exp(scores)
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights.dot(v)
"""

MODULE_LINEARS = """
import math
import torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split(self, t):
        b, n, e = t.size()
        return t.view(b, n, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        b, n, e = q.size()
        given = (q, k, v)
        q = self.split(self.W_q(q))
        k = self.split(self.W_k(k))
        v = self.split(self.W_v(v))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        attn = self.dropout(attn)
        out = torch.matmul(attn, v)
        out = out.transpose(1, 2).contiguous().view(b, n, e)
        return self.W_o(out)
"""

MODULE_CAUSAL = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head
        mask = torch.tril(torch.ones(block_size, block_size))
        self.register_buffer("tril", mask)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        hs = C // self.n_head
        q = q.view(B, T, self.n_head, hs).transpose(1, 2)
        k = k.view(B, T, self.n_head, hs).transpose(1, 2)
        v = v.view(B, T, self.n_head, hs).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * hs ** -0.5
        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)
"""

MODULE_SDPA = """
import torch
from torch import nn
from torch.nn import functional as F

class SelfAttention(nn.Module):
    def __init__(self, embed_dim: int, heads: int, bias: bool = True):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.key = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.value = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, x):
        batch, tokens, width = x.shape
        def heads(t):
            return t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)
        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        out = F.scaled_dot_product_attention(q, k, v)
        out = out.permute(0, 2, 1, 3).reshape(batch, tokens, width)
        return self.out(out)
"""

HEAD_LIST = """
import torch
import torch.nn as nn
from torch.nn import functional as F

n_embd = 24
block_size = 8
dropout = 0.2

class Head(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer('tril', torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        v = self.value(x)
        return wei @ v

class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = nn.ModuleList([Head(head_size) for _ in range(num_heads)])
        self.proj = nn.Linear(head_size * num_heads, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        out = self.dropout(self.proj(out))
        return out
"""

# name → (source, [(old, new, the kinds that name it rightly)])
BASES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "numpy_2d": (NUMPY_2D, [
        (" / np.sqrt(d_k)", "", "no scale"),
        ("np.sqrt(d_k)", "d_k", "wrong scale"),
        ("/ np.sqrt(d_k)", "* np.sqrt(d_k)", "wrong scale"),
        ("np.sqrt(d_k)", "np.sqrt(V.shape[1])", "√d_v"),
        ("np.sqrt(d_k)", "np.sqrt(Q.shape[0])", "√tokens"),
        ("np.sqrt(d_k)", "np.sqrt(K.shape[0])", "√tokens"),
        ("np.sqrt(d_k)", "8", "wrong scale"),
        ("axis=1", "axis=0", "softmax axis"),
        ("e.sum(axis=1, keepdims=True)", "e.sum()", "softmax axis"),
        ("e.sum(axis=1, keepdims=True)", "e.sum(axis=0, keepdims=True)", "softmax axis"),
        ("return e / e.sum(axis=1, keepdims=True)", "return e", "not normalised"),
        ("weights = softmax(scores)", "weights = scores", "no softmax"),
        ("weights = softmax(scores)", "weights = softmax(softmax(scores))", "softmax twice"),
        ("weights = softmax(scores)", "weights = np.log(softmax(scores))", "log_softmax"),
        ("weights = softmax(scores)", "weights = 1 / (1 + np.exp(-scores))", "not a softmax"),
        ("weights = softmax(scores)", "weights = softmax(-scores)", "wrong sign"),
        ("e = np.exp(z)", "e = 2 ** z", "wrong base"),
        ("weights @ V", "scores @ V", "no softmax"),
        ("weights @ V", "weights @ K", "wrong factor"),
        ("weights @ V", "weights", "returns the weights"),
        ("weights @ V", "weights @ V / np.sqrt(d_k)", "wrong scale|scale after softmax"),
        ("    d_k = Q", "    Q /= 2\n    Q *= 2\n    Q -= 1e-3\n    d_k = Q", "changed in place"),
        ("scores = Q @", "Q /= np.sqrt(Q.shape[1])\n    scores = np.sqrt(d_k) * Q @", "changed in place"),
        ("Q @ K.T", "Q @ K", "raises"),
        ("weights @ V", "V @ weights", "raises"),
        ("e.sum(axis=1, keepdims=True)", "e.sum(axis=1)", "keepdims"),
        ("z.max(axis=1, keepdims=True)", "z.max(axis=1)", "keepdims"),
        ("Q @ K.T", "-(Q @ K.T)", "wrong sign"),
    ]),
    "numpy_einsum": (NUMPY_EINSUM, [
        (" / d ** 0.5", "", "no scale"),
        ("d ** 0.5", "d", "wrong scale"),
        ("/ d ** 0.5", "/ values.shape[-1] ** 0.5", "√d_v"),
        ("/ d ** 0.5", "/ keys.shape[-2] ** 0.5", "√tokens"),
        ("/ d ** 0.5", "/ d ** 0.25", "wrong scale"),
        ("scores = scores / d ** 0.5", "scores = scores / d ** 0.5 / d ** 0.5", "wrong scale"),
        ("np.tril(np.ones((n, m), dtype=bool))", "np.tril(np.ones((n, m), dtype=bool), -1)", "off by one"),
        ("np.tril(np.ones((n, m), dtype=bool))", "np.tril(np.ones((n, m), dtype=bool), 1)", "off by one"),
        ("np.tril(np.ones((n, m), dtype=bool))", "np.triu(np.ones((n, m), dtype=bool))", "mask transposed"),
        ("np.tril(np.ones((n, m), dtype=bool))", "~np.tril(np.ones((n, m), dtype=bool))", "mask inverted"),
        ("    if causal:", "    if False:", "mask missing"),
        ("    if mask is not None:", "    if False:", "mask missing"),
        ("np.where(mask, scores, -1e9)", "np.where(mask, scores, 0)", "masked with 0"),
        ("np.where(mask, scores, -1e9)", "scores * mask", "masked with 0"),
        ("np.where(mask, scores, -1e9)", "np.where(mask, scores, 1e-9)", "masked with 0"),
        ("np.where(mask, scores, -1e9)", "np.where(mask, scores, -1)", "masked with a small number"),
        ("np.where(mask, scores, -1e9)", "np.where(mask, scores, 1e9)", "masked with +∞"),
        ("np.where(mask, scores, -1e9)", "np.where(np.swapaxes(mask, -1, -2), scores, -1e9)", "mask transposed"),
        ("scores = np.where(mask, scores, -1e9)\n", "pass\n    w0 = mask\n", "mask missing"),
        ("axis=-1, keepdims=True)\n    return", "axis=-2, keepdims=True)\n    return", "softmax axis"),
        ("axis=-1, keepdims=True)\n    return", "axis=0, keepdims=True)\n    return", "softmax axis"),
        ("weights / weights.sum(axis=-1, keepdims=True)", "weights", "not normalised"),
        ("np.exp(scores)", "scores", "not a softmax"),
        ('"...qk,...kd->...qd"', '"...qk,...kd->...kd"', "not a matrix product|not recognised"),
        ("scores, -np.inf)", "scores, 0)", "masked with 0"),
        ('"...qd,...kd->...qk", queries, keys', '"...qd,...kd->...qk", queries, np.roll(keys, 1, 0)', "batch mixed up"),
        ("keys)\n", "keys)\n    queries *= 1.5\n", "changed in place"),
        ("    weights = np.exp(scores)", "    scores = scores * (np.random.rand(*scores.shape) > 0.2)\n    weights = np.exp(scores)", "random|dropout active"),
        ("values), weights", "values[:1] if values.ndim > 2 else values), weights", "batch mixed up"),
        ("    return np", "    if mask is not None:\n        weights = weights * mask\n    return np", "right"),
    ]),
    "torch_function": (TORCH_FUNCTION, [
        (" / math.sqrt(d_k)", "", "no scale"),
        ("math.sqrt(d_k)", "d_k", "wrong scale"),
        ("/ math.sqrt(d_k)", "* math.sqrt(d_k)", "wrong scale"),
        ("math.sqrt(d_k)", "math.sqrt(query.size(-2))", "√tokens"),
        ("math.sqrt(d_k)", "math.sqrt(query.size(1))", "√heads|√tokens|wrong scale"),
        ("math.sqrt(d_k)", "math.sqrt(value.size(-1))", "√d_v"),
        ("dim=-1", "dim=-2", "softmax axis"),
        ("dim=-1", "dim=1", "softmax axis"),
        ("dim=-1", "dim=0", "softmax axis"),
        ("dim=-1", "dim=2", "softmax axis"),
        ("F.softmax", "F.log_softmax", "log_softmax"),
        ("F.softmax(scores, dim=-1)", "torch.sigmoid(scores)", "not a softmax"),
        ("F.softmax(scores, dim=-1)", "scores", "no softmax"),
        ("-1e9", "0", "masked with 0"),
        ("-1e9", "-5.0", "masked with a small number"),
        ("-1e9", "1e9", "masked with +∞"),
        ("        scores = scores.masked_fill(mask == 0, -1e9)", "        scores = scores + 0", "mask missing"),
        ("scores.masked_fill(mask == 0, -1e9)", "scores.masked_fill(mask.transpose(-1, -2) == 0, -1e9)", "mask transposed"),
        ("scores.masked_fill(mask == 0, -1e9)", "scores * mask", "masked with 0"),
        ("    if mask is not None:\n        scores = scores.masked_fill(mask == 0, -1e9)\n    p_attn = F.softmax(scores, dim=-1)",
         "    p_attn = F.softmax(scores, dim=-1)\n    if mask is not None:\n        p_attn = p_attn.masked_fill(mask == 0, 0)", "mask after softmax"),
        ("    if mask is not None:\n        scores = scores.masked_fill(mask == 0, -1e9)\n    p_attn = F.softmax(scores, dim=-1)",
         "    p_attn = F.softmax(scores, dim=-1)\n    if mask is not None:\n        p_attn = p_attn.masked_fill(mask == 0, -1e9)", "mask after softmax"),
        ("torch.matmul(p_attn, value)", "torch.matmul(p_attn, key)", "wrong factor"),
        ("torch.matmul(p_attn, value)", "torch.matmul(scores, value)", "no softmax"),
        ("return torch.matmul(p_attn, value), p_attn", "return p_attn", "returns the weights"),
        ("torch.matmul(query, key.transpose(-2, -1))", "torch.matmul(query, key)", "raises"),
        ("    if dropout is not None:\n        p_attn = dropout(p_attn)", "    p_attn = F.dropout(p_attn, 0.1)", "dropout active"),
        ("    d_k", "    query.mul_(2.0)\n    d_k", "changed in place"),
        ("torch.matmul(p_attn, value)", "torch.matmul(p_attn, value.mean(-2, keepdim=True).expand_as(value))", "weights ignored"),
    ]),
    "torch_weights": (TORCH_WEIGHTS, [
        ("x @ W_k", "x @ W_q", "shared projection"),
        ("q = x @ W_q", "q = x @ W_k", "shared projection"),
        ("v = x @ W_v", "v = x @ W_k", "shared projection"),
        ("    k = x @ W_k\n    v = x @ W_v", "    k = x @ W_v\n    v = x @ W_k", "swapped projections"),
        (" * d ** -0.5", "", "no scale"),
        ("d ** -0.5", "E ** -0.5", "√embed"),
        ("* d ** -0.5", "* (num_heads * d) ** -0.5", "√embed"),
        ("* d ** -0.5", "* num_heads ** -0.5", "√heads"),
        ("* d ** -0.5", "* N ** -0.5", "√tokens"),
        ("* d ** -0.5", "/ d", "wrong scale"),
        ("dim=-1", "dim=-2", "softmax axis"),
        ("dim=-1", "dim=1", "softmax axis"),
        ("dim=-1", "dim=0", "softmax axis"),
        ("heads.transpose(1, 2).reshape", "heads.reshape", "heads merged without permuting"),
        ("q.reshape(B, N, num_heads, d).transpose(1, 2)", "q.reshape(B, num_heads, N, d)", "not recognised|heads split without permuting"),
        (".reshape(B, N, num_heads, d).transpose(1, 2)", ".reshape(B, num_heads, N, d)", "heads split without permuting"),
        ("return merged @ W_o", "return merged", "output projection missing"),
        ("return merged @ W_o", "return heads.mean(1)", "heads not concatenated|output projection missing"),
        ("weights @ v", "weights @ k", "wrong factor"),
        ("weights @ v", "weights @ q", "wrong factor"),
        ("weights @ v", "weights.transpose(-1, -2) @ v", "weights transposed"),
        ("q @ k.transpose", "k @ q.transpose", "queries and keys swapped|swapped projections"),
        ("q @ k.transpose", "q @ q.transpose", "wrong factor|shared projection"),
        ("q @ k.transpose", "k @ k.transpose", "wrong factor|shared projection"),
        ("weights @ v", "weights @ v[:1]", "batch mixed up"),
        ("torch.softmax(scores, dim=-1)", "torch.exp(scores)", "not normalised"),
        ("heads.transpose(1, 2).reshape(B, N, num_heads * d)", "heads.permute(0, 2, 3, 1).reshape(B, N, num_heads * d)", "heads out of order"),
    ]),
    "numpy_self": (NUMPY_SELF, [
        ("np.dot(x, w_k)", "np.dot(x, w_q)", "shared projection"),
        (" / np.sqrt(k.shape[-1])", "", "no scale"),
        ("np.sqrt(k.shape[-1])", "np.sqrt(x.shape[-1])", "√embed"),
        ("np.sqrt(k.shape[-1])", "np.sqrt(len(x))", "√tokens"),
        ("axis=-1", "axis=0", "softmax axis"),
        ("e.sum(axis=-1, keepdims=True)", "e.sum(axis=-1)", "keepdims"),
        ("weights.dot(v)", "weights.T.dot(v)", "weights transposed"),
        ("q.dot(k.T)", "k.dot(q.T)", "queries and keys swapped|swapped projections"),
        ("weights.dot(v)", "scores.dot(v)", "no softmax"),
        ("weights.dot(v)", "weights.dot(x)", "projection missing"),
        ("e / e.sum", "scores / scores.sum", "not a softmax"),
        ("    q = np", "    x -= x.mean()\n    q = np", "changed in place"),
    ]),
    "module_linears": (MODULE_LINEARS, [
        ("self.split(self.W_k(k))", "self.split(self.W_q(k))", "shared projection"),
        ("self.split(self.W_v(v))", "self.split(self.W_k(v))", "shared projection"),
        ("self.split(self.W_v(v))", "self.split(v)", "projection missing"),
        ("self.split(self.W_k(k))", "self.split(k)", "projection missing"),
        ("self.split(self.W_k(k))", "self.split(self.W_k(v))", "wrong input"),
        ("v = self.split(self.W_v(v))", "v = self.split(self.W_v(given[1]))", "wrong input"),
        (" / math.sqrt(self.d_k)", "", "no scale"),
        ("math.sqrt(self.d_k)", "math.sqrt(e)", "√embed"),
        ("math.sqrt(self.d_k)", "math.sqrt(self.num_heads)", "√heads"),
        ("math.sqrt(self.d_k)", "self.d_k", "wrong scale"),
        ("/ math.sqrt(self.d_k)", "* math.sqrt(self.d_k)", "wrong scale"),
        ("math.sqrt(self.d_k)", "math.sqrt(n)", "√tokens"),
        ("dim=-1", "dim=1", "softmax axis"),
        ("dim=-1", "dim=2", "softmax axis"),
        ("dim=-1", "dim=0", "softmax axis"),
        ("out.transpose(1, 2).contiguous().view", "out.contiguous().view", "heads merged without permuting"),
        ("t.view(b, n, self.num_heads, self.d_k).transpose(1, 2)", "t.view(b, self.num_heads, n, self.d_k)", "heads split without permuting"),
        ("return self.W_o(out)", "return out", "output projection missing"),
        ("return self.W_o(out)", "return self.W_o(self.W_o(out))", "output projection twice"),
        ("self.dropout(attn)", "torch.nn.functional.dropout(attn, 0.1)", "dropout active"),
        ('float("-inf")', "0.0", "masked with 0"),
        ('float("-inf")', "-1.0", "masked with a small number"),
        ("torch.matmul(attn, v)", "torch.matmul(attn, k)", "wrong factor"),
        ("torch.softmax(scores, dim=-1)", "torch.relu(scores)", "not a softmax"),
        ("        attn = self.dropout(attn)\n", "        attn = self.dropout(attn)\n        attn = torch.softmax(attn, dim=-1)\n", "softmax twice"),
        ("            scores = scores.masked_fill", "            pass\n            unused = scores.masked_fill", "mask missing"),
        ("return self.W_o(out)", "return out @ self.W_o.weight.T", "bias left out"),
        ("self.split(self.W_q(q))", "self.split(q @ self.W_q.weight.T)", "bias left out"),
        ("    def forward(self, q, k, v, mask=None):", "    def forward(self, q, k, v, mask=None):\n        q += 1.0", "changed in place"),
    ]),
    "module_causal": (MODULE_CAUSAL, [
        (" * hs ** -0.5", "", "no scale"),
        ("hs ** -0.5", "C ** -0.5", "√embed"),
        ("hs ** -0.5", "self.n_head ** -0.5", "√heads"),
        ("hs ** -0.5", "hs ** 0.5", "wrong scale"),
        ("hs ** -0.5", "T ** -0.5", "√tokens"),
        ("torch.tril(torch.ones(block_size, block_size))", "torch.tril(torch.ones(block_size, block_size), -1)", "off by one"),
        ("torch.tril(torch.ones(block_size, block_size))", "torch.tril(torch.ones(block_size, block_size), 1)", "off by one"),
        ("torch.tril(", "torch.triu(", "mask transposed"),
        ("== 0", "== 1", "mask inverted"),
        ("        att = att.masked_fill(self.tril[:T, :T] == 0, float(\"-inf\"))\n", "", "mask missing"),
        ('float("-inf")', "0.0", "masked with 0"),
        ('float("-inf")', "-1.0", "masked with a small number"),
        ('        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))\n        att = F.softmax(att, dim=-1)', "        att = F.softmax(att, dim=-1)\n        att = att.masked_fill(self.tril[:T, :T] == 0, 0.0)", "mask after softmax"),
        ('att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))', "att * self.tril[:T, :T]", "masked with 0"),
        ('att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))', "att + self.tril[:T, :T]", "mask added as 0 and 1"),
        ("dim=-1", "dim=-2", "softmax axis"),
        ("dim=-1", "dim=1", "softmax axis"),
        ("y.transpose(1, 2).contiguous().view", "y.contiguous().view", "heads merged without permuting"),
        (".view(B, T, self.n_head, hs).transpose(1, 2)", ".reshape(B, self.n_head, T, hs)", "heads split without permuting"),
        ("return self.c_proj(y)", "return y", "output projection missing"),
        ("att @ v", "att @ k", "wrong factor|swapped projections|shared projection"),
        ("att @ v", "att.transpose(-2, -1) @ v", "weights transposed"),
        ("F.softmax(att, dim=-1)", "F.softmax(F.softmax(att, dim=-1), dim=-1)", "softmax twice"),
        ("F.softmax(att, dim=-1)", "F.dropout(F.softmax(att, dim=-1), 0.1)", "dropout active"),
        ("F.softmax(att, dim=-1)", "torch.exp(att)", "not normalised"),
    ]),
    "module_sdpa": (MODULE_SDPA, [
        ("heads(self.key(x))", "heads(self.query(x))", "shared projection"),
        ("heads(self.value(x))", "heads(self.key(x))", "shared projection"),
        ("heads(self.value(x))", "heads(x)", "projection missing"),
        ("dot_product_attention(q, k, v)", "dot_product_attention(k, q, v)", "queries and keys swapped|swapped projections"),
        ("dot_product_attention(q, k, v)", "dot_product_attention(q, v, k)", "swapped projections"),
        ("dot_product_attention(q, k, v)", "dot_product_attention(q, k, v, scale=1.0)", "no scale"),
        ("dot_product_attention(q, k, v)", "dot_product_attention(q, k, v, scale=width ** -0.5)", "√embed"),
        ("dot_product_attention(q, k, v)", "dot_product_attention(q, k, v, dropout_p=0.1)", "dropout active"),
        ("t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)", "t.reshape(batch, self.heads, tokens, -1)", "heads split without permuting"),
        ("t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)", "t.reshape(batch, tokens, self.heads, -1)", "attention over heads"),
        ("out.permute(0, 2, 1, 3).reshape", "out.reshape", "heads merged without permuting"),
        ("return self.out(out)", "return out", "output projection missing"),
        ("return self.out(out)", "return self.out(out) + x", "input added"),
        ("t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)", "t.reshape(batch, tokens, 1, -1).permute(0, 2, 1, 3)", "one head"),
    ]),
    "head_list": (HEAD_LIST, [
        (" * k.shape[-1] ** -0.5", "", "no scale"),
        ("k.shape[-1] ** -0.5", "C ** -0.5", "√embed"),
        ("k.shape[-1] ** -0.5", "T ** -0.5", "√tokens"),
        ("dim=-1)\n        wei = self", "dim=1)\n        wei = self", "softmax axis"),
        ("dim=-1)\n        wei = self", "dim=0)\n        wei = self", "softmax axis"),
        ("torch.tril(torch.ones(block_size, block_size))", "torch.tril(torch.ones(block_size, block_size), 1)", "off by one"),
        ("torch.tril(torch.ones(block_size, block_size))", "torch.ones(block_size, block_size).tril(-1)", "off by one"),
        ("        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))\n", "", "mask missing"),
        ("float('-inf')", "0", "masked with 0"),
        ("self.dropout(wei)", "F.dropout(wei, 0.2)", "dropout active"),
        ("v = self.value(x)", "v = self.key(x)", "shared projection"),
        ("self.dropout(self.proj(out))", "self.dropout(out)", "output projection missing"),
        ("wei @ v", "wei.transpose(1, 2) @ v", "weights transposed"),
        ("q @ k.transpose", "k @ q.transpose", "queries and keys swapped|swapped projections"),
        ("== 0", "!= 0", "mask inverted"),
    ]),
}  # fmt: skip
