"""Right implementations, each with the mistakes made in it and the kinds that name them."""

from __future__ import annotations

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

BASES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "module_causal": (
        MODULE_CAUSAL,
        [
            (" * hs ** -0.5", "", "no scale"),
            ("hs ** -0.5", "C ** -0.5", "√embed"),
            ("hs ** -0.5", "self.n_head ** -0.5", "√heads"),
            ("hs ** -0.5", "hs ** 0.5", "wrong scale"),
            ("hs ** -0.5", "T ** -0.5", "√tokens"),
            (
                "torch.tril(torch.ones(block_size, block_size))",
                "torch.tril(torch.ones(block_size, block_size), -1)",
                "off by one",
            ),
            (
                "torch.tril(torch.ones(block_size, block_size))",
                "torch.tril(torch.ones(block_size, block_size), 1)",
                "off by one",
            ),
            ("torch.tril(", "torch.triu(", "mask transposed"),
            ("== 0", "== 1", "mask inverted"),
            (
                '        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))\n',
                "",
                "mask missing",
            ),
            ('float("-inf")', "0.0", "masked with 0"),
            ('float("-inf")', "-1.0", "masked with a small number"),
            (
                '        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))\n'
                "        att = F.softmax(att, dim=-1)",
                "        att = F.softmax(att, dim=-1)\n"
                "        att = att.masked_fill(self.tril[:T, :T] == 0, 0.0)",
                "mask after softmax",
            ),
            (
                'att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))',
                "att * self.tril[:T, :T]",
                "masked with 0",
            ),
            (
                'att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))',
                "att + self.tril[:T, :T]",
                "mask added as 0 and 1",
            ),
            ("dim=-1", "dim=-2", "softmax axis"),
            ("dim=-1", "dim=1", "softmax axis"),
            (
                "y.transpose(1, 2).contiguous().view",
                "y.contiguous().view",
                "heads merged without permuting",
            ),
            (
                ".view(B, T, self.n_head, hs).transpose(1, 2)",
                ".reshape(B, self.n_head, T, hs)",
                "heads split without permuting",
            ),
            ("return self.c_proj(y)", "return y", "output projection missing"),
            ("att @ v", "att @ k", "wrong factor|swapped projections|shared projection"),
            ("att @ v", "att.transpose(-2, -1) @ v", "weights transposed"),
            (
                "F.softmax(att, dim=-1)",
                "F.softmax(F.softmax(att, dim=-1), dim=-1)",
                "softmax twice",
            ),
            ("F.softmax(att, dim=-1)", "F.dropout(F.softmax(att, dim=-1), 0.1)", "dropout active"),
            ("F.softmax(att, dim=-1)", "torch.exp(att)", "not normalised"),
        ],
    ),
    "module_sdpa": (
        MODULE_SDPA,
        [
            ("heads(self.key(x))", "heads(self.query(x))", "shared projection"),
            ("heads(self.value(x))", "heads(self.key(x))", "shared projection"),
            ("heads(self.value(x))", "heads(x)", "projection missing"),
            (
                "dot_product_attention(q, k, v)",
                "dot_product_attention(k, q, v)",
                "queries and keys swapped|swapped projections",
            ),
            (
                "dot_product_attention(q, k, v)",
                "dot_product_attention(q, v, k)",
                "swapped projections",
            ),
            (
                "dot_product_attention(q, k, v)",
                "dot_product_attention(q, k, v, scale=1.0)",
                "no scale",
            ),
            (
                "dot_product_attention(q, k, v)",
                "dot_product_attention(q, k, v, scale=width ** -0.5)",
                "√embed",
            ),
            (
                "dot_product_attention(q, k, v)",
                "dot_product_attention(q, k, v, dropout_p=0.1)",
                "dropout active",
            ),
            (
                "t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)",
                "t.reshape(batch, self.heads, tokens, -1)",
                "heads split without permuting",
            ),
            (
                "t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)",
                "t.reshape(batch, tokens, self.heads, -1)",
                "attention over heads",
            ),
            ("out.permute(0, 2, 1, 3).reshape", "out.reshape", "heads merged without permuting"),
            ("return self.out(out)", "return out", "output projection missing"),
            ("return self.out(out)", "return self.out(out) + x", "input added"),
            (
                "t.reshape(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)",
                "t.reshape(batch, tokens, 1, -1).permute(0, 2, 1, 3)",
                "one head",
            ),
        ],
    ),
}
