"""What a statistic is. It is declared in one place; everything that lists them derives from that.

    class Varentropy(RowStatistic):
        tag = "varentropy/1"
        name, words, unit = "varentropy", "variance of −log p in a row", "nats²"
        needs = ("total", "centred", "second")

        def define(self, matrix, shape): ...     # on the dense matrix: the oracle
        def close(self, sums): ...               # from the running sums of one sweep
        def merge(self, parts): ...              # over disjoint sets of keys
        def slopes(self, p, u, value): ...       # dvalue/dscore, where it has a gradient

A kernel lists which statistics it brings itself; `tiled` brings every other one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from regard.arrays import cast, filled, library
from regard.declare import Declared
from regard.errors import InputError
from regard.running import SUMS, RunningSum, Step, Sums
from regard.shapes import AttentionShape

if TYPE_CHECKING:
    from torch import Tensor


class Matrix(Protocol):
    """The dense intermediates a definition may speak of (`regard.attention.Steps`)."""

    @property
    def position(self) -> int | Tensor:
        """Query i stands at key i + position: one number, or one a query (L,)."""

    @property
    def scaled(self) -> Tensor:
        """scale·q·k, (…, Hq, L, S)."""

    @property
    def visible(self) -> Tensor:
        """Which cells may be seen."""

    @property
    def masked(self) -> Tensor:
        """The final scores, −∞ where hidden."""

    @property
    def weights(self) -> Tensor:
        """After the softmax."""

    @property
    def lse(self) -> Tensor:
        """(…, Hq, L)."""

    @property
    def sink(self) -> Tensor:
        """The sink's share of each row, (…, Hq, L)."""


class MergePart(NamedTuple):
    """One part's share in the value of a statistic over all parts."""

    value: Any
    weight: Tensor  # (…, Hq, L): exp(lse of the part − lse)
    gap: Tensor  # lse − lse of the part; 0 where the weight is, so that 0·∞ = 0
    also: Mapping[Any, Any]  # the part's other statistics


class TopKeys(NamedTuple):
    """Weights and the keys they fall on, largest first; weight 0 and key −1 where none is left."""

    weights: Any  # tensors; of a recording, numpy's arrays
    keys: Any


class TopScores(NamedTuple):
    """The best keys of a row by final score; −∞ and −1 where there are fewer."""

    scores: Tensor  # (…, L, k), descending
    keys: Tensor  # (…, L, k), global numbers


class TopScored(NamedTuple):
    """The heaviest keys of each row (…, L, k), with the final scores they are merged by."""

    weights: Any
    keys: Any
    scores: Any


class Mass(NamedTuple):
    """Sums over queries (…, Hq, S), and how many of them may see each key where that was asked."""

    mass: Any
    seen: Any = None


class ColumnSums(NamedTuple):
    """What a column sweep brings for a statistic: the mass of each key, and what else is said."""

    queries: Any = None  # over which queries, as `Received` names them; None: all
    seen: bool = False  # how many of them may see each key
    offsets: bool = False  # not the mass but every diagonal, over all queries
    largest: bool = False  # not the mass but the largest weight
    mass: bool = True  # where it is not needed, a sweep may leave it out
    by: Any = None  # (…, Hq, L): what mass and largest multiply each query's weights by; None: 1

    @classmethod
    def together(cls, several: Iterable[ColumnSums]) -> ColumnSums:
        """One sweep that brings them all, over the same queries, multiplied by the same."""
        seen = offsets = largest = mass = False  # a plain loop, because torch.compile traces it
        by = None
        for sums in several:
            seen, offsets = seen or sums.seen, offsets or sums.offsets
            largest, mass, by = largest or sums.largest, mass or sums.mass, sums.by
        return cls(None, seen, offsets, largest, mass, by)


Measured: TypeAlias = "Tensor | TopScored | Mass"  # what a sweep brings for one statistic
_Size: TypeAlias = tuple[tuple[int, ...], bool]  # of a tensor; whether it holds whole numbers


class Summary(Declared):
    """Something measured on an attention matrix. Equal parameters make equal summaries."""

    family = "statistic"
    name: ClassVar[str] = ""  # in files, tables and on the page
    words: ClassVar[str] = ""  # one line that says what it is
    unit: ClassVar[str] = ""

    # "refused": asking for its gradient is an error; "constant": it has none by nature;
    # "declared": `slopes` says it; the others are closed forms that the engine carries back
    gradient: ClassVar[Literal["refused", "constant", "declared", "entropy", "weights", "mass"]] = (
        "refused"
    )
    about: ClassVar[Literal["queries", "keys", "matrix"]] = "queries"  # what its numbers belong to
    merges_with: ClassVar[tuple[Summary, ...]] = ()  # statistics whose parts `merge` reads too
    takes_numpy: ClassVar[bool] = False  # whether its formulas take numpy's arrays as well
    counts_sink: ClassVar[bool] = True  # whether the sink is one more key to it

    @property
    def called(self) -> str:
        """In messages about a gradient it does not have."""
        return type(self).__name__

    @abstractmethod
    def define(self, matrix: Matrix, shape: AttentionShape) -> Any:
        """What it means, on the dense matrix: the oracle of every faster way."""

    def tensors(self, shape: AttentionShape) -> list[_Size]:
        """The sizes of what a sweep brings."""
        raise InputError(
            f"{type(self).__name__} is neither a RowStatistic nor a ColumnStatistic: only "
            "implementation='dense' measures it"
        )

    def packed(self, tensors: Sequence[Tensor]) -> Measured:
        """What a sweep brings, from its tensors."""
        return tensors[0]

    # ── what is asked of sweeps ──────────────────────────────────────────────────────────────

    def column_sums(self) -> ColumnSums | None:
        """What a column sweep has to bring, which `packed` is given; None: it comes with rows."""
        return None

    def in_blocks(self, shape: AttentionShape, like: Tensor) -> InBlocks | None:
        """It put together from blocks of the matrix, where it can be: one that is empty yet."""
        return None

    def source(self) -> Summary:
        """What a sweep measures for it."""
        return self

    def of_part(self, queries: int) -> tuple[range, Summary] | None:
        """Where it is about a few of so many queries that stand side by side: these, and the
        statistic to ask of them alone."""
        return None

    def serving(self, other: Summary) -> Summary | None:
        """One question whose answer holds this one's and the other's; None where there is none."""
        return self if self == other else None

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> Any:
        """The value, from what sweeps have brought; None where that is not enough."""
        return known.get(self)

    # ── over disjoint sets of keys ───────────────────────────────────────────────────────────

    @property
    def merges(self) -> bool:
        """Whether it merges over disjoint sets of keys."""
        return type(self).merge is not Summary.merge

    def merge(self, parts: Sequence[MergePart]) -> Any:
        """The value over the union of the parts' keys."""
        raise InputError(
            f"{self!r} does not merge over keys; take it by replay once the global lse is known"
        )

    def of_nothing(self, like: Any) -> Any:
        """The value over no keys, in the shape of another."""
        return filled(like, like.shape, 0)

    def for_merging(
        self, value: Any, known: Measured | None, scores: Callable[[], Tensor], key_start: int
    ) -> Any:
        """What `merge` reads of a part whose keys begin at `key_start`, from its value there, from
        what a sweep brought where one did, and from the part's final scores where it takes them."""
        return value


class InBlocks(Protocol):
    """A statistic of the whole matrix on its way through blocks of it."""

    cell: int  # a block begins at a multiple of so many tokens
    cells: Tensor  # so far
    join: Literal["sum", "max"]  # over disjoint sets of queries

    @property
    def asked(self) -> Summary:
        """What is measured of each block."""

    def add(self, row: int, col: int, found: Tensor, shape: AttentionShape) -> None:
        """What was found in a block of that shape, which begins at this row and this column."""

    def close(self, cells: Tensor) -> Tensor:
        """The value, from the cells of all queries joined."""


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


class RowStatistic(Summary):
    """(…, Hq, L): one number a row, closed from running sums of one sweep over its keys."""

    needs: ClassVar[tuple[str, ...]] = ()  # names in SUMS
    whole: ClassVar[bool] = False  # counts, as int64
    # How the rows of a bin, and of a whole recording, become one number: "sum" (shown as a mean),
    # "max" or "min". None: "max" where the name begins with max_, else "sum".
    joins: ClassVar[Literal["sum", "max", "min"] | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.name:  # a base of others
            return
        if cls.close is RowStatistic.close:
            raise InputError(
                f"{cls.__qualname__}: a RowStatistic needs close(sums), which makes its value of "
                "the running sums it names in `needs`"
            )
        if cls.joins not in (None, "sum", "max", "min"):
            raise InputError(f"{cls.__qualname__}.joins is {cls.joins!r}; give 'sum', 'max', 'min'")
        if unknown := [name for name in cls.needs if name not in SUMS]:
            raise InputError(
                f"{cls.__qualname__}.needs names {', '.join(map(repr, unknown))}; there are "
                f"{', '.join(SUMS)}, and RunningSums that running_sums() returns"
            )

    def close(self, sums: Sums) -> Any:
        """The value, from the finished sums of some rows."""
        raise NotImplementedError

    def running_sums(self) -> tuple[RunningSum, ...]:
        """What the sweep has to bring; each after those it needs."""
        return tuple(SUMS[name] for name in self.needs)

    def slopes(self, p: Tensor, u: Tensor, value: Tensor) -> Tensor:
        """dvalue/dscore (…, R, C), from weights p and their logarithms u (0 where p is 0) of
        whole rows and the value (…, R, 1)."""
        raise NotImplementedError

    def tensors(self, shape: AttentionShape) -> list[_Size]:
        return [((*shape.batch, shape.query_heads, shape.queries), self.whole)]


class RowMean(RowStatistic):
    """Σ_j p_ij f_ij, the sink's f being 0: such means merge like the output."""

    def each(self, step: Step) -> Any:
        """(…, R, C): f on a tile."""
        raise NotImplementedError

    def running_sums(self) -> tuple[RunningSum, ...]:
        word = f"mean of {id(self)}"  # the value may hold arrays, and is alive during the sweep

        def carry(sums: Mapping[str, Any], a: Any, _: Any) -> Any:
            return a * sums[word]

        return (
            RunningSum(word, lambda step: (step.p * cast(self.each(step), step.p)).sum(-1), carry),
        )

    def close(self, sums: Sums) -> Any:
        return sums[self.running_sums()[0].name] * sums.weight

    def merge(self, parts: Sequence[MergePart]) -> Any:
        return sum(part.weight * part.value for part in parts)


# ── columns ──────────────────────────────────────────────────────────────────────────────────


class ColumnStatistic(Summary):
    """(…, Hq, S): one number a key, over the queries; every row's lse is known beforehand."""

    about = "keys"
    join: ClassVar[Literal["sum", "max"]] = "sum"  # over disjoint sets of queries

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name and cls.term is ColumnStatistic.term:
            raise InputError(
                f"{cls.__qualname__}: a ColumnStatistic needs term(p), which makes one number a "
                "key of a tile of weights"
            )
        if cls.join not in ("sum", "max"):
            raise InputError(f"{cls.__qualname__}.join is {cls.join!r}; give 'sum' or 'max'")

    def term(self, p: Tensor) -> Tensor:
        """(…, C): of the weights (…, R, C) of some rows."""
        raise NotImplementedError

    def close(self, column: Tensor, shape: AttentionShape) -> Tensor:
        """The value, from the terms of all rows joined."""
        return column

    def joined(self, a: Tensor, b: Tensor) -> Tensor:
        """The terms of two sets of queries together."""
        return a + b if self.join == "sum" else library(a).maximum(a, b)

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> Any:
        found = known.get(self)
        return None if found is None else self.close(found, shape)  # type: ignore[arg-type]

    def tensors(self, shape: AttentionShape) -> list[_Size]:
        return [((*shape.batch, shape.query_heads, shape.keys), False)]


def fewest(summaries: Sequence[Summary]) -> list[Summary]:
    """What sweeps have to bring for these: one top-k, the largest, serves all."""
    wanted: list[Summary] = []
    for summary in summaries:
        source = summary.source()
        for at, other in enumerate(wanted):
            both = other.serving(source)
            if both is not None:
                wanted[at] = both
                break
        else:
            wanted.append(source)
    return wanted


def summed_by_columns(sources: Iterable[Summary]) -> dict[Summary, ColumnSums]:
    """Those that column sweeps bring; a plain loop, because torch.compile traces it."""
    found = {}
    for source in sources:
        sums = source.column_sums()
        if sums is not None:
            found[source] = sums
    return found


def as_summaries(given: Any) -> tuple[Summary, ...]:
    """One summary or several, as a tuple; InputError where something else is among them."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    summaries = tuple(given) if several else (given,)
    for summary in summaries:
        if not isinstance(summary, Summary):
            raise InputError(f"{summary!r} is not a summary; give e.g. regard.Entropy()")
        summary.check_fields()
    return summaries
