"""Right implementations in layouts of their own, with the mistakes made in them."""

from __future__ import annotations

KV_FUSED = """
import torch
import torch.nn as nn

class CrossAttention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64):
        super().__init__()
        inner = dim_head * heads
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x, context=None):
        context = x if context is None else context
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.reshape(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in (q, k, v))
        attn = (q @ k.transpose(-1, -2) * self.scale).softmax(-1)
        out = (attn @ v).transpose(1, 2).flatten(2)
        return self.to_out(out)
"""

MULTIQUERY = """
import torch
import torch.nn as nn

class MultiQueryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.dh = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * self.dh, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.h, self.dh).permute(0, 2, 1, 3)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        sim = torch.einsum("bhid,bjd->bhij", q, k) * self.dh ** -0.5
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhij,bjd->bhid", attn, v)
        return self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, -1))
"""

SEQFIRST = """
import math

import torch
import torch.nn as nn

class SelfAttention(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.d_head = d_model // nhead
        self.q_lin = nn.Linear(d_model, d_model)
        self.k_lin = nn.Linear(d_model, d_model)
        self.v_lin = nn.Linear(d_model, d_model)
        self.out_lin = nn.Linear(d_model, d_model)

    def forward(self, x):
        s, b, d = x.shape
        q = self.q_lin(x).reshape(s, b * self.nhead, self.d_head).transpose(0, 1)
        k = self.k_lin(x).reshape(s, b * self.nhead, self.d_head).transpose(0, 1)
        v = self.v_lin(x).reshape(s, b * self.nhead, self.d_head).transpose(0, 1)
        att = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_head)
        att = att.softmax(dim=-1)
        y = torch.bmm(att, v)
        y = y.transpose(0, 1).reshape(s, b, d)
        return self.out_lin(y)
"""

NP_LOOP_HEADS = """
import numpy as np

def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    ez = np.exp(z)
    return ez / np.sum(ez, axis=-1, keepdims=True)

def mha(x, Wq, Wk, Wv, Wo, n_heads, causal=False):
    T, C = x.shape
    hd = C // n_heads
    Q = x @ Wq
    K = x @ Wk
    V = x @ Wv
    out = np.zeros_like(x)
    for h in range(n_heads):
        sl = slice(h * hd, (h + 1) * hd)
        s = Q[:, sl] @ K[:, sl].T / hd ** 0.5
        if causal:
            s = np.where(np.tri(T, dtype=bool), s, -np.inf)
        out[:, sl] = softmax(s) @ V[:, sl]
    return out @ Wo
"""

LISTCOMP_PURE = """
import math

def attention(q, k, v):
    d = len(k[0])
    out = []
    for qi in q:
        s = [sum(a * b for a, b in zip(qi, kj)) / math.sqrt(d) for kj in k]
        m = max(s)
        e = [math.exp(x - m) for x in s]
        t = sum(e)
        out.append([sum(e[j] / t * v[j][c] for j in range(len(v))) for c in range(len(v[0]))])
    return out
"""

NP_DICT = """
import numpy as np

class MultiHeadAttention:
    def __init__(self, d_model, num_heads):
        self.h = num_heads
        self.d_k = d_model // num_heads
        self.params = {n: np.random.randn(d_model, d_model) for n in ("Wq", "Wk", "Wv", "Wo")}
    def __call__(self, x):
        B, N, D = x.shape
        def heads(name):
            return (x @ self.params[name]).reshape(B, N, self.h, self.d_k).transpose(0, 2, 1, 3)
        q, k, v = heads("Wq"), heads("Wk"), heads("Wv")
        s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.d_k)
        s = np.exp(s - s.max(-1, keepdims=True))
        a = s / s.sum(-1, keepdims=True)
        return (a @ v).transpose(0, 2, 1, 3).reshape(B, N, D) @ self.params["Wo"]
"""

FN_HEADS = """
import math

import torch.nn.functional as F

def multi_head_attention(q, k, v, num_heads):
    b, n, d = q.shape
    m = k.shape[1]
    dh = d // num_heads
    q = q.view(b, n, num_heads, dh).transpose(1, 2)
    k = k.view(b, m, num_heads, dh).transpose(1, 2)
    v = v.view(b, m, num_heads, dh).transpose(1, 2)
    a = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(dh), dim=-1)
    return (a @ v).transpose(1, 2).reshape(b, n, d)
"""

BASES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "kv_fused": (
        KV_FUSED,
        [
            ("self.to_kv(context)", "self.to_kv(x)", "wrong input"),
            (" * self.scale", "", "no scale"),
            (
                "(attn @ v).transpose(1, 2).flatten(2)",
                "(attn @ v).reshape(x.shape[0], x.shape[1], -1)",
                "heads merged without permuting",
            ),
            (".softmax(-1)", ".softmax(1)", "softmax axis"),
        ],
    ),
    "multiquery": (
        MULTIQUERY,
        [
            (" * self.dh ** -0.5", "", "no scale"),
            ("softmax(dim=-1)", "softmax(dim=-2)", "softmax axis"),
        ],
    ),
    "seqfirst": (
        SEQFIRST,
        [
            (" / math.sqrt(self.d_head)", "", "no scale"),
            ("dim=-1", "dim=1", "softmax axis"),
            ("math.sqrt(self.d_head)", "math.sqrt(d)", "√embed"),
        ],
    ),
    "np_loop_heads": (
        NP_LOOP_HEADS,
        [
            ("hd ** 0.5", "C ** 0.5", "√embed"),
            ("np.tri(T, dtype=bool)", "np.tri(T, k=-1, dtype=bool)", "off by one"),
            ("K[:, sl].T", "Q[:, sl].T", "wrong factor"),
            ("out[:, sl] = softmax(s)", "out[:, sl] = softmax(s.T)", "queries and keys swapped"),
            ("return out @ Wo", "return out", "output projection missing"),
            ("V[:, sl]", "V[:, :hd]", "one head for all"),
        ],
    ),
    "listcomp_pure": (
        LISTCOMP_PURE,
        [
            (" / math.sqrt(d)", "", "no scale"),
            ("math.sqrt(d)", "d", "wrong scale"),
            ("e[j] / t", "e[j]", "not normalised"),
        ],
    ),
    "np_dict": (
        NP_DICT,
        [
            ("np.sqrt(self.d_k)", "np.sqrt(D)", "√embed"),
            ('heads("Wv")', 'heads("Wk")', "shared projection"),
            (' @ self.params["Wo"]', "", "output projection missing"),
        ],
    ),
    "fn_heads": (
        FN_HEADS,
        [
            (
                "q.view(b, n, num_heads, dh).transpose(1, 2)",
                "q.view(b, num_heads, n, dh)",
                "heads split without permuting",
            ),
            ("math.sqrt(dh)", "math.sqrt(num_heads)", "√heads"),
        ],
    ),
}
