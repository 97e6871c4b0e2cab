"""Attention: the lazy matrix and its questions.

Rows of padding are computed like any other, but no statistic, received mass or map counts them:
these are asked under a mask that hides every key from such a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.display import as_html, ask
from regard.divergences import DivergenceOptions
from regard.engine.call import Answers, Call, Known, RowState, What, map_parts, share_of
from regard.engine.contributions import Contributions, members_of
from regard.engine.indexing import read_cells
from regard.engine.tensor_like import TensorLike
from regard.engine.torch_state import NO_TRANSFORM, is_transformed, unwatched
from regard.errors import (
    DeviceError,
    DTypeError,
    GradientError,
    InputError,
    ShapeError,
    StaleError,
    TooLargeError,
)
from regard.mask import Padding
from regard.summary import Asking, Summary

if TYPE_CHECKING:
    from regard.engine.plan import Implementation


def counting_call(call: Call, counted: Tensor) -> Call:
    """The call in which a row that does not count sees no key; counted (B, L)."""
    hiding = Padding(torch.full((1,), call.shape.keys, device=counted.device), counted)
    return replace(call, mask=hiding if call.mask is None else call.mask & hiding)


def counting_lse(lse: Tensor, counted: Tensor) -> Tensor:
    """(B, H, L): −∞ in rows that do not count."""
    return lse.where(counted[:, None], -torch.inf)


def counting_state(state: RowState, counted: Tensor) -> RowState:
    """The same of a row state."""
    log = state.log.where(counted[:, None], 0.0)
    return RowState(counting_lse(state.peak, counted), log)


_LARGEST_DENSE = 2**30  # bytes


class Attention(Asking, TensorLike):
    """Softmax attention: the output, and a matrix of weights that is computed on request.

    The matrix is fully defined by q, k, the mask, the score rule and one number per row (`lse`).
    It is never stored: each operation computes what it needs, tile by tile.
    """

    __array_priority__ = 1000  # numpy arrays defer to our @
    tokens: tuple[Sequence[str], Sequence[str]] | None = None  # words of queries and keys

    def __init__(self, call: Call, answers: Answers, implementation: Implementation) -> None:
        self._held: Call | None = call
        self._implementation = implementation
        self._output: Tensor | None = answers.output
        self._row_lse = answers.lse
        self._known = answers.known
        self._state = self._given = answers.state
        self._versions = _versions(call, answers.state)
        self._written = _written(self._known, self._row_lse)
        self._headless = call.shape.headless
        self._tokens_first = call.pack is not None  # as packed inputs have them
        self._rows_counted: Tensor | None = None  # (B, L) booleans; None: statistics count all
        self._twin: Attention | None = None
        self._parts: dict[range, Attention] = {}  # of a few rows each

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy, or one from a file: its tensors are new, and count from now."""
        self.__dict__.update(state)
        self._versions = () if self._held is None else _versions(self._held, self._given)
        self._written = _written(self._known, self._row_lse)

    # ── what the forward gave ────────────────────────────────────────────────────────────────

    @property
    def output(self) -> Tensor:
        """(…, Hq, L, Dv): the weighted sum of values; (tokens, Hq, Dv) of packed sequences."""
        if self._output is None:
            raise InputError("replay computes no output; it has the one of the kernel it follows")
        found = self._public(self._output)
        return found.transpose(0, 1) if self._tokens_first else found

    @property
    def lse(self) -> Tensor:
        """(…, Hq, L): log Σ exp(score) of each row, natural log; −∞ where a row sees no key."""
        return self._public(self._lse)

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, Hq, L, S): the shape of the matrix that is never built."""
        return self._call.shape.public(self._call.shape.extent.full)

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and statistics: float32, or float64 for float64 inputs."""
        return self._call.exact

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self._call.query.device

    @property
    def implementation(self) -> str:
        """The name of the backend that ran."""
        return self._implementation.name

    @property
    def _call(self) -> Call:
        if self._held is None:
            raise StaleError("this attention was released; ask before release(), or attend again")
        return self._held

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, index: Any) -> Tensor:
        """Weights of any slice, indexed as a tensor of shape `a.shape` would be."""
        return Cells(self, "weights")[index]

    def __iter__(self) -> Iterator[Tensor]:
        """Along the first axis, as a tensor is walked."""
        return (self[n] for n in range(self.shape[0]))

    @property
    def scores(self) -> Cells:
        """The final scores (after scale, cap, bias and mask), indexed like the weights."""
        return Cells(self, "scores")

    def rows(self, indices: int | slice | range | Iterable[int] | Tensor) -> Tensor:
        """(…, Hq, len(indices), S): whole rows of weights; one integer drops the axis."""
        return self[..., indices, :]

    def dense(self, force: bool = False) -> Tensor:
        """(…, Hq, L, S): the full matrix. Refused above 1 GiB unless forced."""
        return self[...] if force else self._whole("dense()")

    @property
    def requires_grad(self) -> bool:
        """Whether weights have a gradient."""
        return any(tensor.requires_grad for tensor in self._call.tensors())

    def _whole(self, asked: str) -> Tensor:
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > _LARGEST_DENSE:
            raise TooLargeError(
                f"{asked} needs the dense matrix {self.shape}, which would take "
                f"{size / 2**30:.1f} GiB of at most {_LARGEST_DENSE // 2**30}; ask for rows, a "
                "slice, top(), received() or pooled(), multiply by a @ x, or call dense(force=True)"
            )
        return self[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The full matrix as a numpy array."""
        found = self._whole("an array").detach().cpu().numpy()
        return found.astype(found.dtype if dtype is None else dtype, copy=bool(copy))

    # ── summaries ────────────────────────────────────────────────────────────────────────────

    def sink_mass(self) -> Tensor:
        """(…, Hq, L): the weight of the sink in each row; 0 without a sink."""
        self._fresh()
        sink = self._sink()
        if sink is None:
            return torch.zeros_like(self.lse)
        return self._public(share_of(sink, self._lse))

    def _sink(self) -> Tensor | None:
        """(Hq,), where there is one."""
        sink: Tensor | None = self._call.score.sink
        return sink

    def summarize(self, *summaries: Summary) -> dict[Summary, Any]:
        """The results of several summaries, by summary, in as few sweeps as possible."""
        return self._ask_all(summaries)

    # ── products ─────────────────────────────────────────────────────────────────────────────

    def __matmul__(self, x: Tensor) -> Tensor:
        """A @ x without A: x is (S,), or (…, S, M) broadcast over batch and heads."""
        return self._product(x, transposed=False)

    @property
    def T(self) -> Transposed:  # noqa: N802
        """The transposed matrix, for products: a.T @ y."""
        return Transposed(self)

    def contributions(self, x: Any, values: Any = None) -> Contributions:
        """What each key adds to the output along a direction: C_ij = p_ij · ⟨x_i, v_j⟩, signed, as
        a matrix that is never stored. Rows sum to ⟨x, output⟩.

        x       (…, Hq, L, Dv), or (…, Hq, 1, Dv) for one direction: W_Oᵀu for an answer's logit u,
                or the gradient at the output. Packed sequences have heads first here too
        values  (…, Hkv or Hq, S, M) in place of the attention's
        """
        self._fresh()
        return Contributions(self, x, values)

    def mass(self, groups: Any) -> Tensor:
        """(…, Hq, L, G): how much of each row lies on groups of keys, such as passages or turns.

        groups  (S,) or (…, S) whole numbers, the group of each key, −1 for none; or a list of
                ranges, slices or pairs (start, stop), which may overlap
        """
        self._fresh()
        counting = self._counting()
        return counting @ members_of(groups, counting)

    def _product(self, x: Any, transposed: bool) -> Tensor:
        self._fresh()
        x = self._factor(x)
        shape = self._call.shape
        inner = shape.queries if transposed else shape.keys
        columns = x.unsqueeze(-1) if x.ndim == 1 else x
        if columns.ndim < 2 or columns.shape[-2] != inner:
            raise ShapeError(
                f"{'a.T' if transposed else 'a'} @ x: the matrix has {inner} "
                f"{'queries' if transposed else 'keys'}, x has shape {tuple(x.shape)}; "
                f"give ({inner},) or (…, {inner}, M)"
            )
        full = (*shape.batch, shape.query_heads, *columns.shape[-2:])
        try:
            spread = columns.to(self.dtype).expand(full)
        except RuntimeError as error:
            raise ShapeError(
                f"x has shape {tuple(x.shape)}, which does not broadcast to {full}"
            ) from error
        run = self._implementation.apply_transposed if transposed else self._implementation.apply
        found = self._public(run(self._call, self._rows(), spread))
        return found.squeeze(-1) if x.ndim == 1 else found

    def _factor(self, x: Any) -> Tensor:
        """Numbers to multiply with, as a tensor beside the query."""
        if not isinstance(x, Tensor):
            try:
                x = torch.tensor(x, device=self.device)  # a copy, as of masks: see checks.py
            except (TypeError, ValueError, RuntimeError) as error:
                raise DTypeError(f"a @ x: x is a {type(x).__name__}; give a tensor") from error
        if self.implementation != "dense" and is_transformed([x]):
            raise GradientError(NO_TRANSFORM)
        if x.device != self.device:
            raise DeviceError(f"a @ x: x is on {x.device}, the matrix on {self.device}")
        if x.is_complex():
            raise DTypeError(f"a @ x: x has dtype {x.dtype}; give real numbers")
        return x

    # ── beside another ───────────────────────────────────────────────────────────────────────

    def _divergence_from(
        self, teacher: tuple[Any, ...], student: tuple[Any, ...], asked: DivergenceOptions
    ) -> Tensor:
        """`regard.divergence`, of which this is the student."""
        if len(teacher) + len(student) > 2:
            raise InputError("several attentions as one side; give one, whose heads are compared")
        from regard.engine.divergence import diverge  # which is needed by few

        return diverge(teacher[0], self, asked)

    # ── packed sequences ─────────────────────────────────────────────────────────────────────

    def sequence(self, n: int) -> Attention:
        """The attention of one of the packed sequences, alone: its queries and keys are counted
        from its own first ones. Nothing is copied."""
        self._fresh()
        call = self._call
        if call.pack is None:
            raise InputError(
                "sequence(n) is for packed sequences; give attend or replay cu_seqlens_q"
            )
        pack = call.pack.on_host()
        if not -pack.sequences <= n < pack.sequences:
            raise InputError(f"sequence {n} does not exist; there are {pack.sequences}")
        queries, keys = pack.of(n % pack.sequences)
        here = slice(queries.start, queries.stop)
        output, state = self._output, self._state
        if state is not None:
            state = RowState(*(part[..., here].contiguous() for part in state))
        answers = Answers(
            None if output is None else output[..., here, :],
            None if self._row_lse is None else self._row_lse[..., here], Known(), state,
        )  # fmt: skip
        found = Attention(
            call.of_sequence(queries, keys, n % pack.sequences), answers, self._implementation
        )
        found._tokens_first = True
        return found

    # ── lifetime ─────────────────────────────────────────────────────────────────────────────

    def detach(self) -> Attention:
        """The same attention without its autograd graph."""
        self._fresh()
        return self._over(Tensor.detach, self._call)

    def clone(self) -> Attention:
        """The same attention over copies, which later in-place changes do not affect."""
        self._fresh()
        return self._over(lambda tensor: tensor.detach().clone(), self._call.read())

    def release(self) -> None:
        """Free q, k, v and all results but output and lse."""
        self._row_lse = self._lse
        self._held, self._known, self._twin = None, Known(), None
        self._state = self._given = None
        self._parts = {}

    def _over(self, keep: Callable[[Tensor], Tensor], call: Call) -> Attention:
        """The same with every tensor as it is to be kept; what carries a graph is left behind."""
        output = self._output if self._output is None else keep(self._output)
        state = None if self._state is None else map_parts(self._state, keep)
        answers = Answers(output, keep(self._lse), self._known.map(keep), state)
        found = Attention(call.map(keep), answers, self._implementation)
        found._rows_counted = None if self._rows_counted is None else keep(self._rows_counted)
        return found

    def _fresh(self) -> None:
        """Raise StaleError where q, k, mask or bias changed in place since the forward."""
        if self._versions and self._versions != _versions(self._call, self._given):
            raise StaleError(
                "query, key, lse, mask or bias was changed in place after this attention was "
                "computed, so its weights can no longer be recovered; ask before the change, "
                "or pass clones to attend"
            )
        if self._written and self._written != _written(self._known, self._row_lse):
            raise StaleError(
                "an answer of this attention was changed in place, and later answers come from it; "
                "change a copy: a.received().clone()"
            )

    @property
    def _lse(self) -> Tensor:
        """(*batch, Hq, L); swept for once where the forward did not leave it."""
        return self._sweep_lse() if self._row_lse is None else self._row_lse

    def _sweep_lse(self) -> Tensor:
        self._fresh()
        call, rows = self._call, self._state
        has_graph = any(t.requires_grad for t in call.tensors())
        lse = self._implementation.lse(call, rows) if has_graph else self._rows().lse
        self._row_lse = lse
        self._written = _written(self._known, self._row_lse)
        return lse

    def _rows(self, along: tuple[Summary, ...] = ()) -> RowState:
        """What later sweeps start from; swept for once, with what is asked `along` with it."""
        if self._state is None:
            self._state = self._implementation.state(self._call, along, self._known)
            self._written = _written(self._known, self._row_lse)
        return self._state

    # ── asking ───────────────────────────────────────────────────────────────────────────────

    def _counting(self) -> Attention:
        """The attention that statistics are asked of: rows that do not count see no key."""
        if self._rows_counted is None:
            return self
        if self._twin is None:
            call, rows, state = self._call, self._rows_counted, self._state
            state = None if state is None else counting_state(state, rows)
            answers = Answers(self._output, counting_lse(self._lse, rows), Known(), state)
            self._twin = Attention(counting_call(call, rows), answers, self._implementation)
        return self._twin

    def _ask_all(self, summaries: tuple[Summary, ...]) -> dict[Summary, Any]:
        self._fresh()
        if self._rows_counted is not None:
            return self._counting()._ask_all(summaries)
        call = self._call
        for summary in summaries:
            if not isinstance(summary, Summary):
                raise InputError(f"{summary!r} is not a summary; give e.g. regard.Entropy()")
            summary.check(call.shape)
        few = self._asked_of_parts(summaries)
        rest = summaries if not few else tuple([s for s in summaries if s not in few])
        if not rest:
            return few
        state = self._rows() if self._state is None else self._state
        found = self._implementation.measure(call, state, rest, self._known)
        self._written = _written(self._known, self._row_lse)
        if self._headless:
            found = {summary: map_parts(found[summary], self._public) for summary in rest}
        return found if not few else {s: few[s] if s in few else found[s] for s in summaries}

    def _asked_of_parts(self, summaries: tuple[Summary, ...]) -> dict[Summary, Any]:
        """The answers about a few queries side by side, of the attention of these alone: no other
        row is swept, nor its state needed. Not where torch records or traces."""
        found: dict[Summary, Any] = {}
        call = self._call
        if torch.compiler.is_compiling():
            return found
        for summary in summaries:
            part = summary.of_part(call.shape.queries)
            if part is None or summary.answer(self._known.values, call.shape) is not None:
                continue
            if not unwatched((call.query, call.key, *call.arrays)):
                continue
            rows, inner = part
            if rows not in self._parts:
                self._parts[rows] = self._of_rows(rows)
            found[summary] = self._parts[rows]._ask_all((inner,))[inner]
        return found

    def _of_rows(self, rows: range) -> Attention:
        here = slice(rows.start, rows.stop)
        call, lse, state = self._call.of_rows(rows), self._lse[..., here], self._state
        if state is not None:
            state = RowState(*(part[..., here].contiguous() for part in state))
        elif call.query.element_size() < lse.element_size():
            # somebody else's kernel, which left one number a row: scores of half precision have
            # lost more than it has
            state = RowState(lse.contiguous(), torch.zeros_like(lse))
        answers = Answers(call.query[..., :0], lse, Known(), state)
        return Attention(call, answers, self._implementation)

    def _public(self, tensor: Tensor) -> Tensor:
        """Without the head axis, where the inputs had none."""
        return tensor.squeeze(-tensor.ndim) if self._headless else tensor

    _repr_html_ = as_html

    def __str__(self) -> str:
        """Weights with words up to twelve tokens, beyond them a line a head."""
        return repr(self) if self._held is None else str(ask("attention_text", self))

    def __repr__(self) -> str:
        if self._held is None:
            return "Attention(released)"
        score, mask = self._call.score, self._call.mask
        said = [f"shape={self.shape}", f"implementation={self.implementation!r}"]
        said += [] if mask is None else [f"mask={mask!r}"]
        said += [] if score.bias is None else [f"bias={score.bias!r}"]
        return f"Attention({', '.join(said)})"


class Cells:
    """Weights or final scores, indexed like the tensor that is never built."""

    def __init__(self, attention: Attention, what: What) -> None:
        self._attention = attention
        self._what = what

    def __getitem__(self, index: Any) -> Tensor:
        """The named cells, in the shape torch would give them."""
        a = self._attention
        a._fresh()
        return read_cells(
            index,
            a.shape,
            a.device,
            lambda place: a._implementation.block(a._call, a._rows(), place, self._what),
        )


class Transposed(TensorLike):
    """Aᵀ, as something to multiply with."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, Hq, S, L)."""
        *lead, queries, keys = self._attention.shape
        return (*lead, keys, queries)

    @property
    def dtype(self) -> torch.dtype:
        return self._attention.dtype

    @property
    def device(self) -> torch.device:
        return self._attention.device

    def _whole(self, asked: str) -> Tensor:
        return self._attention._whole(asked).mT

    @property
    def T(self) -> Attention:  # noqa: N802
        """Back again."""
        return self._attention

    def __matmul__(self, y: Tensor) -> Tensor:
        """Aᵀ @ y without A: y is (L,), or (…, L, M) broadcast over batch and heads."""
        return self._attention._product(y, transposed=True)


def _versions(call: Call, state: RowState | None) -> tuple[int, ...]:
    """How often each tensor that defines the matrix was written to, the lse that a replay was given
    among them; values do not define it. Inference tensors do not count; compiled code does not
    count at all."""
    if torch.compiler.is_compiling():
        return ()
    watched = (call.query, call.key, *call.arrays, *(state or ()))
    return tuple([-1 if t.is_inference() else t._version for t in watched])


def _written(known: Known, lse: Tensor | None) -> tuple[int, ...]:
    """The same of everything measured, and of the lse; callers have no copy of them."""
    if torch.compiler.is_compiling():
        return ()
    counts = [] if lse is None or lse.is_inference() else [lse._version]
    for value in known.values.values():
        for part in (value,) if isinstance(value, Tensor) else value:
            if part is not None and not part.is_inference():
                counts.append(part._version)
    return tuple(counts)
