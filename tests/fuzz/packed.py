"""Every entry point and every answer: packed and paged calls, replays, indexers, parts merged."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from fuzz import DEVICE
from fuzz._answers import ANSWERS, REFUSED, Matrix, check_answer, compare, define
from regard.declare import array
from regard.mask import Causal, Extent, Mask, Padding, Prefix, Rule, Window
from regard.score import ALiBi, Bias, RelativeBias
from regard.summary import Concentration, Entropy, MaxLogit, Top

SEEDS = 30
BACKENDS = (None, "tiled", "triton") if DEVICE == "cuda" else (None, "cpu", "tiled")


class Roots(Bias):
    """−slope · √|distance|: a bias that has no closed form of its gradient."""

    slopes: Any = array("heads", batch=False)

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        far = (i + extent.shift("end"))[:, None] - j[None, :]
        return -self.slopes[:, None, None] * far.abs().to(self.slopes.dtype).sqrt()


class Problem(NamedTuple):
    """What is asked, and what is right."""

    words: str
    attention: Any
    matrix: Matrix
    leaves: list[Tensor]
    value: Tensor | None = None  # (…, H, S, Dv)


class Draw:
    """Numbers and rules of one seed."""

    def __init__(self, seed: int) -> None:
        self.dice, self.numbers = random.Random(seed), torch.Generator().manual_seed(seed)
        self.leaves: list[Tensor] = []
        self.group, self.key_heads = self.dice.choice((1, 2)), self.dice.choice((1, 2, 3))
        self.heads, self.dim = self.group * self.key_heads, self.dice.choice((3, 8, 16))
        self.sizes = self.dice.choice(((1, 2, 3), (1, 17, 40), (60, 64, 130), (0, 5), (20, 520)))
        self.backend = self.dice.choice(BACKENDS)

    def size(self, least: int = 0) -> int:
        """A number of tokens."""
        return max(self.dice.choice(self.sizes), least)

    def leaf(self, *shape: int) -> Tensor:
        """Random numbers that a gradient is asked for."""
        made = torch.randn(shape, generator=self.numbers, dtype=torch.float64)
        self.leaves.append(made.to(DEVICE).requires_grad_())
        return self.leaves[-1]

    def mask(self, sequences: int) -> Mask | None:
        """Of each sequence alone."""
        n = self.dice.randrange(9)
        numbers: Any = [self.dice.randrange(30) for _ in range(sequences)]
        numbers = numbers or self.dice.randrange(30)  # of inputs without a batch
        kinds: list[Callable[[], Mask | None]] = [
            lambda: None, Causal, lambda: Causal("start"), lambda: Window(n, n // 2),
            lambda: Padding(numbers), lambda: Causal() & Padding(numbers), lambda: Prefix(n),
            lambda: Causal() | Prefix(numbers), lambda: ~Window(n),
            lambda: Rule(lambda i, j: (i + 2 * j) % 3 > 0),
        ]  # fmt: skip
        return self.dice.choice(kinds)()

    def bias(self) -> Bias | None:
        """Of each sequence alone."""
        kind = self.dice.choice(("", "", "slopes", "roots", "buckets"))
        if kind == "slopes":
            return ALiBi(self.leaf(self.heads))
        if kind == "roots":
            return Roots(self.leaf(self.heads))
        return RelativeBias(self.leaf(8, self.heads), True, 16) if kind else None

    def sink(self) -> Tensor | None:
        """Of which some are −∞."""
        if self.dice.random() < 0.5:
            return None
        made = self.leaf(self.heads)
        if self.dice.random() < 0.6:
            gone = torch.rand(self.heads, generator=self.numbers) < 0.5
            made.data[gone.to(DEVICE)] = -torch.inf
        return made

    def rules(self, sequences: int = 0) -> dict[str, Any]:
        """Options of a call."""
        cap = self.dice.choice((None, None, 3.0))
        return {
            "mask": self.mask(sequences), "bias": self.bias(), "sink": self.sink(), "softcap": cap,
        }  # fmt: skip

    def starts(self, sizes: list[int]) -> Tensor:
        """cu_seqlens."""
        return F.pad(torch.tensor(sizes).cumsum(0), (1, 0)).to(DEVICE, torch.int32)


def scores_of(
    q: Tensor, k: Tensor, rules: dict[str, Any], starts: tuple[Any, Any] | None = None
) -> Tensor:
    """(…, H, L, S): sequences one by one, where starts say which."""
    queries, keys = q.shape[-2], k.shape[-2]
    rows, packed = [], starts is not None
    bounds = [list(pairwise(map(int, side))) for side in starts or ((0, queries), (0, keys))]
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    for n, ((a, b), (c, d)) in enumerate(zip(*bounds, strict=True)):
        i, j = torch.arange(b - a, device=q.device), torch.arange(d - c, device=q.device)
        extent = Extent(b - a, d - c, () if packed else tuple(q.shape[:-3]), q.shape[-3])
        s = q[..., a:b, :] @ k[..., c:d, :].mT * rules.get("scale", q.shape[-1] ** -0.5)
        if rules.get("softcap"):
            s = rules["softcap"] * (s / rules["softcap"]).tanh()
        if rules.get("bias") is not None:
            s = s + rules["bias"].tile(i, j, extent)
        if rules.get("mask") is not None:
            mask = rules["mask"].map(lambda x: torch.as_tensor(x, device=q.device))
            seen = (mask.select((n,)) if packed else mask).allows(i, j, extent)
            s = s.masked_fill(~seen, -torch.inf)
        rows.append(F.pad(s, (c, keys - d), value=-torch.inf))
    return torch.cat(rows, -2)


def _by(draw: Draw, *tensors: Tensor, **options: Any) -> Any:
    """attend, by another backend where the drawn one says why it cannot."""
    try:
        return regard.attend(*tensors, implementation=draw.backend, **options)
    except regard.errors.UnavailableError:
        return regard.attend(*tensors, **options)


# ── entry points ─────────────────────────────────────────────────────────────────────────────


def attended(draw: Draw) -> Problem:
    batch = draw.dice.choice((1, 2))
    q = draw.leaf(batch, draw.heads, draw.size(), draw.dim)
    k = draw.leaf(batch, draw.key_heads, draw.size(), draw.dim)
    v, rules = draw.leaf(*k.shape[:-1], 5), draw.rules(batch)
    a = _by(draw, q, k, v, **rules)
    matrix = define(scores_of(q, k, rules), rules["sink"])
    return Problem("attend", a, matrix, draw.leaves, v)


def replayed(draw: Draw) -> Problem:
    q = draw.leaf(draw.heads, draw.size(), draw.dim)
    k, rules = draw.leaf(draw.key_heads, draw.size(), draw.dim), draw.rules()
    matrix = define(scores_of(q, k, rules), rules["sink"])
    given = matrix.lse.detach().clone() if draw.dice.random() < 0.5 else None
    a = regard.replay(q, k, given, **rules)
    return Problem(f"replay, lse {'' if given is None else 'given'}", a, matrix, draw.leaves)


def packed(draw: Draw) -> Problem:
    count = draw.dice.randrange(1, 4)
    lq, lk = ([draw.size() for _ in range(count)] for _ in "qk")
    if draw.dice.random() < 0.3:
        lk = lq
    starts = draw.starts(lq), draw.starts(lk)
    q, k = draw.leaf(sum(lq), draw.heads, draw.dim), draw.leaf(sum(lk), draw.key_heads, draw.dim)
    v, rules = draw.leaf(*k.shape[:-1], 4), draw.rules(count)
    options = {"cu_seqlens_q": starts[0], "cu_seqlens_k": None if lk is lq else starts[1]}
    scores = scores_of(q.transpose(0, 1), k.transpose(0, 1), rules, starts)
    matrix = define(scores, rules["sink"])
    if draw.dice.random() < 0.5:
        given = matrix.lse.detach().clone() if draw.dice.random() < 0.5 else None
        a = regard.replay(q, k, given, **rules, **options)
        return Problem("packed replay", a, matrix, draw.leaves)
    a = _by(draw, q, k, v, **rules, **options)
    return Problem("packed", a, matrix, draw.leaves, v.transpose(0, 1))


def paged(draw: Draw) -> Problem:
    count, size = draw.dice.randrange(1, 4), draw.dice.choice((1, 4, 16))
    lengths = [draw.size() for _ in range(count)]
    most = max(-(-max(lengths) // size), 1)
    cache = draw.leaf(most * count + 2, size, draw.key_heads, draw.dim)
    pages = torch.randperm(len(cache), generator=draw.numbers)[: most * count].reshape(count, most)
    each = draw.dice.randrange(1, 4)
    q, rules = draw.leaf(count, each, draw.heads, draw.dim), draw.rules(count)
    a = regard.replay(
        q, cache, pages=pages.to(DEVICE, torch.int32), **rules,
        lengths=torch.tensor(lengths, dtype=torch.int32, device=DEVICE),
    )  # fmt: skip
    keys = [cache[row].flatten(0, 1)[:n] for row, n in zip(pages.to(DEVICE), lengths, strict=True)]
    starts = draw.starts([each] * count), draw.starts(lengths)
    turned = (t.transpose(0, 1) for t in (q.flatten(0, 1), torch.cat(keys)))
    matrix = define(scores_of(*turned, rules, starts), rules["sink"])
    return Problem("paged", a, matrix, draw.leaves)


def indexer(draw: Draw) -> Problem:
    q, k = draw.leaf(2, draw.heads, draw.size(), draw.dim), draw.leaf(2, 1, draw.size(), draw.dim)
    w, rules = draw.leaf(*q.shape[:-1]), {"mask": draw.mask(2)}
    a = regard.lightning_indexer(q, k, w, **rules)
    raw = ((q @ k.mT).relu() * w[..., None]).sum(-3, keepdim=True)
    hidden = raw.new_zeros((*raw.shape[:-1], 1))
    mask = scores_of(hidden, torch.zeros_like(k[..., :1]), rules)
    return Problem("indexer", a, define(raw + mask.detach(), None), draw.leaves)


ENTRIES = (attended, replayed, packed, paged, indexer)


def check(seed: int) -> None:
    """One problem, a few of its answers."""
    draw = Draw(seed)
    if draw.dice.random() < 0.2:
        _check_parts(draw)
        return
    problem = draw.dice.choice(ENTRIES)(draw)
    words = f"{problem.words} by {problem.attention.implementation}, {problem.attention!r}"
    for name in draw.dice.sample([*ANSWERS, *REFUSED], 5):
        check_answer(name, problem.attention, problem.matrix, problem.leaves, words)
    if problem.value is not None:
        right = _output(problem.matrix, problem.value)
        output = problem.attention.output
        _check_tensors(words, [output.transpose(0, 1) if "packed" in words else output], [right],
                       problem.leaves)  # fmt: skip


def _output(matrix: Matrix, value: Tensor) -> Tensor:
    return matrix.weights @ value.repeat_interleave(matrix.weights.shape[-3] // value.shape[-3], -3)


def _check_tensors(words: str, mine: list[Tensor], right: list[Tensor], leaves: Any) -> None:
    for n, (one, other) in enumerate(zip(mine, right, strict=True)):
        compare(one, other, f"{words}: {n}")
        on = torch.randn(other.shape, generator=torch.Generator().manual_seed(n)).to(other)
        grads = [
            torch.autograd.grad((t * on).sum(), leaves, allow_unused=True, retain_graph=True)
            if t.requires_grad  # as the lse of no keys has none
            else [None] * len(leaves)
            for t in (one, other)
        ]
        for leaf, a, b in zip(leaves, *grads, strict=True):
            zero = torch.zeros_like(leaf)
            compare(zero if a is None else a, zero if b is None else b, f"{words}: d {n}")


def _check_parts(draw: Draw) -> None:
    """Attention over some of the keys at a time."""
    q = draw.leaf(2, draw.heads, draw.size(), draw.dim)
    k = draw.leaf(2, draw.key_heads, draw.size(), draw.dim)
    v, rules = draw.leaf(*k.shape[:-1], 3), draw.rules(2)
    sink, whole = rules.pop("sink"), k.shape[-2]
    cuts = sorted({0, whole, *(draw.dice.randrange(whole + 1) for _ in range(2))})
    if len(cuts) == 1:
        cuts = [0, 0]
    asked = (Entropy(), Concentration(), MaxLogit(), Top(2))
    parts = [
        regard.attend_partial(
            q, k[..., a:b, :], v[..., a:b, :], summaries=asked, key_start=a,
            implementation=None if rules["bias"] is not None else draw.backend,
            total_keys=whole, total_queries=q.shape[-2], **rules,
        )
        for a, b in pairwise(cuts)
    ]  # fmt: skip
    draw.dice.shuffle(parts)
    finished = regard.merge(*parts).finish(sink)
    m = define(scores_of(q, k, rules), sink)
    words = f"{len(parts)} parts by {draw.backend}, {rules}"
    right = {n: definition(m) for n, (_, definition) in (ANSWERS | REFUSED).items()
             if n in ("lse", "entropy", "concentration", "max logit")}  # fmt: skip
    compare(finished[Concentration()], right["concentration"], f"{words}: concentration")
    if whole:
        compare(finished[MaxLogit()], m.scores.amax(-1), f"{words}: max logit")
        compare(finished.top(2).weights, ANSWERS["top"][1](m)[..., :2], f"{words}: top")
    lse = finished.lse.masked_fill(finished.lse == -torch.inf, 0.0)
    _check_tensors(
        words, [finished.output, lse, finished[Entropy()]],
        [_output(m, v), right["lse"], right["entropy"]], draw.leaves,
    )  # fmt: skip
