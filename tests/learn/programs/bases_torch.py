"""Right implementations, each with the mistakes made in it and the kinds that name them."""

from __future__ import annotations

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

BASES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "torch_function": (
        TORCH_FUNCTION,
        [
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
            (
                "        scores = scores.masked_fill(mask == 0, -1e9)",
                "        scores = scores + 0",
                "mask missing",
            ),
            (
                "scores.masked_fill(mask == 0, -1e9)",
                "scores.masked_fill(mask.transpose(-1, -2) == 0, -1e9)",
                "mask transposed",
            ),
            ("scores.masked_fill(mask == 0, -1e9)", "scores * mask", "masked with 0"),
            (
                "    if mask is not None:\n"
                "        scores = scores.masked_fill(mask == 0, -1e9)\n"
                "    p_attn = F.softmax(scores, dim=-1)",
                "    p_attn = F.softmax(scores, dim=-1)\n"
                "    if mask is not None:\n"
                "        p_attn = p_attn.masked_fill(mask == 0, 0)",
                "mask after softmax",
            ),
            (
                "    if mask is not None:\n"
                "        scores = scores.masked_fill(mask == 0, -1e9)\n"
                "    p_attn = F.softmax(scores, dim=-1)",
                "    p_attn = F.softmax(scores, dim=-1)\n"
                "    if mask is not None:\n"
                "        p_attn = p_attn.masked_fill(mask == 0, -1e9)",
                "mask after softmax",
            ),
            ("torch.matmul(p_attn, value)", "torch.matmul(p_attn, key)", "wrong factor"),
            ("torch.matmul(p_attn, value)", "torch.matmul(scores, value)", "no softmax"),
            ("return torch.matmul(p_attn, value), p_attn", "return p_attn", "returns the weights"),
            ("torch.matmul(query, key.transpose(-2, -1))", "torch.matmul(query, key)", "raises"),
            (
                "    if dropout is not None:\n        p_attn = dropout(p_attn)",
                "    p_attn = F.dropout(p_attn, 0.1)",
                "dropout active",
            ),
            ("    d_k", "    query.mul_(2.0)\n    d_k", "changed in place"),
            (
                "torch.matmul(p_attn, value)",
                "torch.matmul(p_attn, value.mean(-2, keepdim=True).expand_as(value))",
                "weights ignored",
            ),
        ],
    ),
    "torch_weights": (
        TORCH_WEIGHTS,
        [
            ("x @ W_k", "x @ W_q", "shared projection"),
            ("q = x @ W_q", "q = x @ W_k", "shared projection"),
            ("v = x @ W_v", "v = x @ W_k", "shared projection"),
            (
                "    k = x @ W_k\n    v = x @ W_v",
                "    k = x @ W_v\n    v = x @ W_k",
                "swapped projections",
            ),
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
            (
                "q.reshape(B, N, num_heads, d).transpose(1, 2)",
                "q.reshape(B, num_heads, N, d)",
                "not recognised|heads split without permuting",
            ),
            (
                ".reshape(B, N, num_heads, d).transpose(1, 2)",
                ".reshape(B, num_heads, N, d)",
                "heads split without permuting",
            ),
            ("return merged @ W_o", "return merged", "output projection missing"),
            (
                "return merged @ W_o",
                "return heads.mean(1)",
                "heads not concatenated|output projection missing",
            ),
            ("weights @ v", "weights @ k", "wrong factor"),
            ("weights @ v", "weights @ q", "wrong factor"),
            ("weights @ v", "weights.transpose(-1, -2) @ v", "weights transposed"),
            ("q @ k.transpose", "k @ q.transpose", "queries and keys swapped|swapped projections"),
            ("q @ k.transpose", "q @ q.transpose", "wrong factor|shared projection"),
            ("q @ k.transpose", "k @ k.transpose", "wrong factor|shared projection"),
            ("weights @ v", "weights @ v[:1]", "batch mixed up"),
            ("torch.softmax(scores, dim=-1)", "torch.exp(scores)", "not normalised"),
            (
                "heads.transpose(1, 2).reshape(B, N, num_heads * d)",
                "heads.permute(0, 2, 3, 1).reshape(B, N, num_heads * d)",
                "heads out of order",
            ),
        ],
    ),
}
