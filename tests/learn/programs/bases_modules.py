"""Right implementations, each with the mistakes made in it and the kinds that name them."""

from __future__ import annotations

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

BASES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "module_linears": (
        MODULE_LINEARS,
        [
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
            (
                "out.transpose(1, 2).contiguous().view",
                "out.contiguous().view",
                "heads merged without permuting",
            ),
            (
                "t.view(b, n, self.num_heads, self.d_k).transpose(1, 2)",
                "t.view(b, self.num_heads, n, self.d_k)",
                "heads split without permuting",
            ),
            ("return self.W_o(out)", "return out", "output projection missing"),
            ("return self.W_o(out)", "return self.W_o(self.W_o(out))", "output projection twice"),
            ("self.dropout(attn)", "torch.nn.functional.dropout(attn, 0.1)", "dropout active"),
            ('float("-inf")', "0.0", "masked with 0"),
            ('float("-inf")', "-1.0", "masked with a small number"),
            ("torch.matmul(attn, v)", "torch.matmul(attn, k)", "wrong factor"),
            ("torch.softmax(scores, dim=-1)", "torch.relu(scores)", "not a softmax"),
            (
                "        attn = self.dropout(attn)\n",
                "        attn = self.dropout(attn)\n        attn = torch.softmax(attn, dim=-1)\n",
                "softmax twice",
            ),
            (
                "            scores = scores.masked_fill",
                "            pass\n            unused = scores.masked_fill",
                "mask missing",
            ),
            ("return self.W_o(out)", "return out @ self.W_o.weight.T", "bias left out"),
            ("self.split(self.W_q(q))", "self.split(q @ self.W_q.weight.T)", "bias left out"),
            (
                "    def forward(self, q, k, v, mask=None):",
                "    def forward(self, q, k, v, mask=None):\n        q += 1.0",
                "changed in place",
            ),
        ],
    ),
    "head_list": (
        HEAD_LIST,
        [
            (" * k.shape[-1] ** -0.5", "", "no scale"),
            ("k.shape[-1] ** -0.5", "C ** -0.5", "√embed"),
            ("k.shape[-1] ** -0.5", "T ** -0.5", "√tokens"),
            ("dim=-1)\n        wei = self", "dim=1)\n        wei = self", "softmax axis"),
            ("dim=-1)\n        wei = self", "dim=0)\n        wei = self", "softmax axis"),
            (
                "torch.tril(torch.ones(block_size, block_size))",
                "torch.tril(torch.ones(block_size, block_size), 1)",
                "off by one",
            ),
            (
                "torch.tril(torch.ones(block_size, block_size))",
                "torch.ones(block_size, block_size).tril(-1)",
                "off by one",
            ),
            (
                "        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))\n",
                "",
                "mask missing",
            ),
            ("float('-inf')", "0", "masked with 0"),
            ("self.dropout(wei)", "F.dropout(wei, 0.2)", "dropout active"),
            ("v = self.value(x)", "v = self.key(x)", "shared projection"),
            ("self.dropout(self.proj(out))", "self.dropout(out)", "output projection missing"),
            ("wei @ v", "wei.transpose(1, 2) @ v", "weights transposed"),
            ("q @ k.transpose", "k @ q.transpose", "queries and keys swapped|swapped projections"),
            ("== 0", "!= 0", "mask inverted"),
        ],
    ),
}
