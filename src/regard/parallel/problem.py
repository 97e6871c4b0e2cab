"""Attention of which each rank holds some tokens: what is given, checked, compared and answered.

Masks, biases and summaries are given for the whole sequence. A block is a piece of the queries
against a piece of the keys; `Part` and `PartBias` say where it stands. All arithmetic is the
engine's: `attend_partial` for the forward, its operators for what comes later.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from regard.arrays import host
from regard.declare import encode
from regard.engine.api import attend_partial
from regard.engine.call import Call, share_of
from regard.engine.codec import Spec
from regard.engine.observers import editors
from regard.engine.plan import MEASURING, choose, sweeps_for
from regard.engine.torch_state import in_autocast
from regard.errors import InputError, RegardError, ShapeError, UnavailableError
from regard.mask import Mask, Verdict, as_mask
from regard.mask.base import Part
from regard.parallel.shards import EMPTY, Piece, Shards, check_world
from regard.parallel.transport import Peers, circulate, pack
from regard.score import PartBias, ScoreRule, as_bias
from regard.shapes import AttentionShape
from regard.state import Partial
from regard.summary import Asking, Summary, as_summaries

QKV = tuple[Tensor, Tensor, Tensor]
Score = tuple[float | None, float | None, Any, Any]  # scale, softcap, bias, sink

_SOUND, _BROKEN = 1, 0
_SUBJECTS = 8  # at most
_TAG = 100  # keeps these apart from shards: gloo aborts on a message longer than its buffer


@dataclass(frozen=True, eq=False)
class ShardedProblem:
    """One attention problem of which no rank holds all tokens."""

    peers: Peers
    shards: Shards
    check: bool  # whether ranks compare later questions too
    shape: AttentionShape  # of the whole problem
    mask: Mask | None  # arrays are tensors on the queries' device
    score: ScoreRule  # with the sink, which belongs to no block
    implementation: str | None  # as the caller named it
    forward: str | None = None  # implementation of the forward's blocks; None: the fastest
    sweeps: str = ""  # implementation of later sweeps: backward, columns, maps

    @classmethod
    def of(
        cls,
        peers: Peers,
        shards: Shards,
        tensors: QKV,
        mask: Any = None,
        score: Score = (None, None, None, None),
        summaries: tuple[Summary, ...] = (),
        implementation: str | None = None,
        check: bool = True,
    ) -> ShardedProblem:
        """From this rank's tensors and the caller's arguments, all checked by the engine."""
        query, key, value = tensors
        scale, softcap, bias, sink = score
        local = AttentionShape.of(query.shape, key.shape, value.shape)
        shape = replace(local, queries=shards.tokens, keys=shards.tokens)
        exact = torch.promote_types(query.dtype, torch.float32)

        def to_device(array: Any, dtype: torch.dtype | None = None) -> Tensor:
            tensor = torch.as_tensor(array, device=query.device)
            return tensor if dtype is None else tensor.to(dtype)

        mask = None if mask is None else as_mask(mask).map(to_device)
        bias = as_bias(bias)
        if bias is not None:
            kept = None if bias.narrow else exact
            bias = bias.map(lambda array: to_device(array, kept))
        scale = 1 / math.sqrt(shape.dim) if scale is None else scale
        rule = ScoreRule(scale, softcap, bias, None if sink is None else to_device(sink, exact))
        rule.check(shape.extent)
        if mask is not None:
            mask.check(shape.extent)
            if shards.tokens:  # a function of the caller's fails here, where the others learn of it
                place = torch.zeros(1, dtype=torch.int64, device=query.device)
                mask.allows(place, place, shape.extent)
        for summary in summaries:
            _check_summary(summary, shape)
        problem = cls(peers, shards, check, shape, mask, rule, implementation)
        # a call without tokens: the engine checks every argument before anything is sent
        merging = [summary for summary in summaries if summary.merges]
        none = query.detach()[..., :0, :], key.detach(), value.detach()
        problem.partial_without_keys(*none, EMPTY, merging)
        return problem._served(tensors, summaries)

    def _served(self, tensors: QKV, summaries: tuple[Summary, ...]) -> ShardedProblem:
        """With implementations chosen: the named one, UnavailableError says why not; else on the
        CPU regard's own kernels, whose lse later sweeps can build on."""
        call = self.call(*tensors, EMPTY, EMPTY, sink=True)
        later = sweeps_for(call, "").name  # with gradients of biases
        if self.implementation is not None:
            chosen = choose(call.problem(summaries), self.implementation).name
            later = chosen if chosen in MEASURING else later
            return replace(self, forward=self.implementation, sweeps=later)
        with torch.no_grad():
            own = sweeps_for(call, "").name if call.query.device.type == "cpu" else None
        return replace(self, forward=own, sweeps=later)

    @property
    def tokens(self) -> int:
        """Of the whole sequence."""
        return self.shape.keys

    @cached_property
    def _host_mask(self) -> Mask | None:
        """Verdicts read arrays: fetched from the device once."""
        return None if self.mask is None else self.mask.map(host)

    def verdict(self, rows: Piece, cols: Piece) -> Verdict:
        """Whether none, some or all of a block is visible."""
        if self._host_mask is None:
            return Verdict.ALL
        return self._host_mask.verdict(range(*rows), range(*cols), self.shape.extent)

    def blocks(self, owner: int) -> Iterator[tuple[Piece, slice, Piece, slice]]:
        """(rows, at, cols, there): visible blocks of this rank's queries against a shard's keys.
        `at` and `there` are their places among the tokens of this rank and of the owner."""
        for rows, at in self.shards.local(self.peers.rank):
            for cols, there in self.shards.local(owner):
                if self.verdict(rows, cols) is not Verdict.NONE:
                    yield rows, at, cols, there

    def partial(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Piece,
        cols: Piece,
        summaries: Sequence[Summary] = (),
    ) -> Partial:
        """Attention of one block, to be merged with that of the others."""
        all_visible = cols.length > 0 and self.verdict(rows, cols) is Verdict.ALL
        extent = self.shape.extent
        some = tuple(map(range, extent.batch)), range(extent.heads), range(*rows), range(*cols)
        local = {summary: summary.cut(extent, *some) for summary in summaries}
        part = attend_partial(
            query, key, value,
            mask=None if all_visible else self.mask,
            scale=self.score.scale, bias=self.score.bias, softcap=self.score.softcap,
            summaries=tuple(local.values()), implementation=self.forward,
            query_start=rows.start, key_start=cols.start,
            total_queries=self.tokens, total_keys=self.tokens,
        )  # fmt: skip
        return replace(part, summaries={s: part.summaries[cut] for s, cut in local.items()})

    def partial_without_keys(
        self, query: Tensor, key: Tensor, value: Tensor, rows: Piece, summaries: Sequence[Summary]
    ) -> Partial:
        """Attention of queries that see no key at all."""
        return self.partial(query, key[..., :0, :], value[..., :0, :], rows, EMPTY, summaries)

    def call(
        self, query: Tensor, key: Tensor, value: Tensor, rows: Piece, cols: Piece, sink: bool
    ) -> Call:
        """One block as the engine's operators take it."""
        place = (rows.start, cols.start, self.tokens, self.tokens)
        bias = self.score.bias
        score = replace(
            self.score,
            bias=None if bias is None else PartBias(bias, *place),
            sink=self.score.sink if sink else None,
        )
        mask = None if self.mask is None else Part(self.mask, *place)
        shape = AttentionShape.of(query.shape, key.shape, value.shape)
        return Call(query, key, value, mask, score, shape, place=rows.start - cols.start)

    def operands(self, call: Call, **question: Any) -> tuple[list[Tensor], str]:
        """The arrays of a block, and its question as text."""
        arrays = [*([] if call.mask is None else call.mask.arrays()), *call.score.arrays()]
        spec = replace(Spec.of(call.mask, call.score), implementation=self.sweeps, place=call.place)
        return arrays, spec.asking(**question)


# ── opening ──────────────────────────────────────────────────────────────────────────────────


def open_problem(
    algorithm: str,
    tensors: QKV,
    shards: Shards,
    group: Any,
    mask: Any,
    score: Score,
    summaries: Any,
    implementation: str | None,
    check: bool,
) -> tuple[ShardedProblem, QKV, tuple[Summary, ...]]:
    """The problem as `algorithm` (ring, ulysses) was called, with this rank's tensors. An error on
    one rank raises on all of them, unless `check` is off."""
    peers = Peers.of(group)
    with agreement(peers, tensors[0], check) as description:
        check_shards(shards, peers)
        for name, tensor in zip(("query", "key", "value"), tensors, strict=True):
            check_held(name, tensor, shards, peers.rank)
        summaries = as_summaries(summaries)
        query, key, value = in_autocast(*tensors)
        tensors = query, key, value
        problem = ShardedProblem.of(
            peers, shards, tensors, mask, score, summaries, implementation, check
        )
        if check:
            description |= _description(algorithm, problem, tensors, summaries)
    return problem, tensors, summaries


def check_shards(shards: Any, peers: Peers) -> None:
    """Raise unless these are shards for the ranks of the group, and attention is not edited."""
    if editors():
        raise UnavailableError(
            "attention is being changed (regard.knock_out), which speaks of all tokens and heads "
            "of one rank; over ranks it is not offered"
        )
    check_world(shards, peers.world)


def check_held(name: str, tensor: Any, shards: Shards, rank: int) -> None:
    """Raise unless this is a tensor of the tokens that a rank holds."""
    if not isinstance(tensor, Tensor) or tensor.ndim < 3:
        given = getattr(tensor, "shape", type(tensor).__name__)
        raise ShapeError(f"{name} is {given}; give a tensor (…, heads, tokens, dim)")
    held = shards.lengths[rank]
    if tensor.shape[-2] != held:
        raise ShapeError(
            f"{name} {tuple(tensor.shape)} has {tensor.shape[-2]} tokens, the shard of rank "
            f"{rank} has {held}; take it with shards.take(whole, {rank})"
        )


def _check_summary(summary: Summary, shape: AttentionShape) -> None:
    """It fits the whole problem, and ranks can measure it."""
    summary.check(shape)
    sums = summary.source().column_sums()
    if sums is not None and sums.by is not None:
        raise InputError(
            "weighted_by: queries that ranks share are not weighted; ask for received() without "
            "it, or attend on one rank"
        )


def _description(
    algorithm: str, problem: ShardedProblem, tensors: QKV, summaries: tuple[Summary, ...]
) -> dict[str, str]:
    """What has to be the same on all ranks."""
    score = problem.score
    sizes = [(*t.shape[:-2], t.shape[-1], t.dtype) for t in tensors]
    mask = [] if problem.mask is None else problem.mask.arrays()
    learns = [t.requires_grad for t in (*tensors, *score.arrays())]
    return {
        "what to do": algorithm,
        "shapes and dtypes": f"{sizes} (without tokens)",
        "shards": repr(problem.shards),
        "mask": f"{problem.mask!r} {contents(mask)}",
        "score rule": f"{encode(score)} {contents(score.arrays())}",
        "summaries": repr(summaries),
        "who needs gradients": str(learns if torch.is_grad_enabled() else None),
        "implementation": str(problem.implementation),
    }


# ── agreement of ranks ───────────────────────────────────────────────────────────────────────


@contextmanager
def agreement(peers: Peers, query: Any, check: bool) -> Iterator[dict[str, str]]:
    """The block describes this rank's problem; then the ranks compare, if `check`. An error in the
    block is raised on this rank, and InputError on the others."""
    device = getattr(query, "device", torch.device("cpu"))
    description: dict[str, str] = {}
    try:
        yield description
    except Exception as error:
        if check:
            agree(peers, {}, device, error)
        raise
    if check:
        agree(peers, description, device)


def agree(
    peers: Peers,
    description: Mapping[str, str],
    device: torch.device,
    error: Exception | None = None,
) -> None:
    """Raise InputError on every rank unless all ranks describe every subject alike.

    The message always has the same size, so that ranks which are about to do different things
    meet here and find out.

    error   what is wrong on this rank: raised here, after the other ranks have learnt of it and
            need not wait
    """
    assert len(description) <= _SUBJECTS
    numbers = [_BROKEN if error else _SOUND, *map(_digest, description.values())]
    mine = torch.zeros(1 + _SUBJECTS, dtype=torch.int64)
    mine[: len(numbers)] = torch.tensor(numbers)
    # round the ring instead of an all-gather, which does not tell who does not answer
    tour = circulate(peers, [mine.to(device)], [len(mine)] * peers.world, axis=0, tag=_TAG)
    by_rank = {owner: numbers for owner, (numbers,) in tour}
    if error is not None:
        raise error
    table = torch.stack([by_rank[rank] for rank in range(peers.world)]).cpu()
    _compare(table, description, peers.rank)


def contents(arrays: Iterable[Any]) -> str:
    """A digest of arrays in host memory; of others shape and dtype, without waiting for the
    device."""
    marks = []
    for array in arrays:
        tensor = torch.as_tensor(array).detach()
        mark = f"{tensor.dtype}{tuple(tensor.shape)}"
        if tensor.device.type == "cpu":
            mark += blake2b(pack([tensor]).numpy().tobytes(), digest_size=8).hexdigest()
        marks.append(mark)
    return " ".join(marks)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


def _compare(table: Tensor, description: Mapping[str, str], rank: int) -> None:
    broken = (table[:, 0] == _BROKEN).nonzero().flatten().tolist()
    if broken:
        raise InputError(
            f"{_ranks(broken)} could not take what was given there; see the error there"
        )
    for n, (subject, text) in enumerate(description.items(), start=1):
        column = table[:, n].tolist()
        counted = Counter(column)
        if len(counted) == 1:
            continue
        usual = max(column, key=lambda value: counted[value])  # in a tie the first
        odd = [r for r, value in enumerate(column) if value != usual]
        raise InputError(
            f"the ranks disagree on {subject}: {_ranks(odd)} differs from rank "
            f"{column.index(usual)}; rank {rank} has {text}. Give all ranks the same"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


# ── answers ──────────────────────────────────────────────────────────────────────────────────


class ParallelAttention(Asking):
    """Statistics of rows are about this rank's queries, keys by their number in the whole sequence.
    `received` is about this rank's keys, over the queries of all ranks. `pooled` and `Offsets` are
    about the whole matrix and the same on every rank.
    """

    _output: Tensor
    _lse: Tensor

    def __init__(self, problem: ShardedProblem) -> None:
        self._problem = problem
        self._known: dict[Summary, Any] = {}

    @property
    def output(self) -> Tensor:
        """(…, Hq, n, Dv): this rank's rows of the output."""
        return self._output

    @property
    def lse(self) -> Tensor:
        """(…, Hq, n): over the keys of all ranks; −∞ where a row sees no key."""
        return self._lse

    @property
    def shards(self) -> Shards:
        """Which tokens each rank holds."""
        return self._problem.shards

    @property
    def rank(self) -> int:
        """This rank's number in the group."""
        return self._problem.peers.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, Hq, n, tokens): this rank's rows of the matrix that is never built."""
        return (*self.lse.shape, self.shards.tokens)

    @property
    def positions(self) -> Tensor:
        """(n,): where this rank's queries stand in the whole sequence."""
        return self.shards.positions(self.rank).to(self.lse.device)

    def summarize(self, *summaries: Summary) -> dict[Summary, Any]:
        """Several summaries in as few trips as possible, keyed by the values asked for. What is
        not known yet must be asked for by every rank at once; ranks that ask different questions
        all get an error."""
        problem, error = self._problem, self._error(summaries)
        known = all(isinstance(s, Summary) and self._lookup(s) is not None for s in summaries)
        if problem.check and not known:
            asked = {"what to do": f"answer {summaries!r}"}
            agree(problem.peers, asked, self.lse.device, error)
        if error is not None:
            raise error
        self._fill(summaries)
        return {summary: self._answer(summary) for summary in summaries}

    def sink_mass(self) -> Tensor:
        """(…, Hq, n): the share of each row that the sink took; 0 without a sink."""
        sink = self._sink()
        if sink is None:
            return torch.zeros_like(self.lse)
        return share_of(sink, self.lse)

    def _error(self, summaries: tuple[Summary, ...]) -> RegardError | None:
        """Why this rank cannot answer these."""
        try:
            self._check_fresh()
            for summary in as_summaries(summaries):
                _check_summary(summary, self._problem.shape)
        except RegardError as error:
            return error
        return None

    def _check_fresh(self) -> None:
        """Raise StaleError if tensors that define the matrix have changed."""

    @abstractmethod
    def _fill(self, summaries: Sequence[Summary]) -> None:
        """Compute whatever is not known yet: a collective."""

    def _lookup(self, summary: Summary) -> Any:
        """A known value, or None."""
        return self._known.get(summary)

    def _answer(self, summary: Summary) -> Any:
        """A known value, with its gradient."""
        return self._known[summary]

    def _sink(self) -> Tensor | None:
        return self._problem.score.sink
