"""The rules: what is changed, and which rows must not move.

    future      every token from a cut on        rows before it
    padding     what padding holds, how much     rows of real tokens
    documents   one document of a pack           rows of the others
    batch       some sequences                   rows of the others
    window      a position beyond it             rows of each layer (layers.py)
    cache       parts, one behind the other      every row, against one pass
    training    all of it in training mode       the same

Each is tried as pairs of runs some of whose rows must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.check.batch import GivenBatch
from regard.check.runs import EXACT, Feed, Runner, distance
from regard.errors import InputError

RULES = ("future", "padding", "documents", "batch", "window", "cache", "training")
LARGE = 1e30  # what is larger, or no number, stands for -inf
_BEHIND = "position {} and those behind it in its document"
REGROUPED = 64  # units in the last place by which experts, whose rows are grouped anew, may move
_OF_SHAPES = 1e-9  # by which sums over other parts differ, as in scans by chunks and by steps
_OF_TABLES = 3e-7  # by which numbers of a table differ that was rounded to float32


@dataclass(frozen=True, eq=False)
class RunPair:
    """Two runs, the rows of them that must agree, and how far they do."""

    rule: str  # "" of the control
    words: str  # what is changed, {} its first position
    runs: tuple[Feed, Feed]
    still: tuple[Tensor, Tensor]  # (B, L) bool of each run: the rows that must agree
    changed: Tensor | None = None  # (B, L) bool: positions of the second that hold something else
    moving: Tensor | None = None  # (B, L) bool: rows that should move
    by: float = 0.0  # how far rows moved that must not, in shares of the largest entry
    rows: tuple[tuple[int, int], ...] = ()  # (sequence, row) of those
    control: float = 0.0  # how far rows moved that should
    entries: int = 1  # that were compared

    @property
    def keeps_shape(self) -> bool:
        """Whether contents alone differ."""
        return self.changed is not None

    @property
    def sequence(self) -> int:
        """The one whose rows moved most."""
        return self.rows[0][0]

    @property
    def source(self) -> str:
        """What is changed, in words: in the sequence whose rows moved."""
        if self.changed is None:
            return self.words
        return self.words.format(int(self.changed[self.sequence].long().argmax()))

    def of_one(self, s: int) -> RunPair:
        """The same of one sequence alone."""

        def single(run: Feed) -> Feed:
            factors = None if run.factors is None else run.factors[s : s + 1]
            return Feed(run.batch.part(s, 0, run.batch.shape[1]), factors)

        changed, moving = (
            None if of is None else of[s : s + 1] for of in (self.changed, self.moving)
        )
        still = self.still[0][s : s + 1], self.still[1][s : s + 1]
        rows = tuple((0, row) for n, row in self.rows if n == s)
        runs = single(self.runs[0]), single(self.runs[1])
        return replace(self, runs=runs, still=still, changed=changed, moving=moving, rows=rows)


def exchanges(
    batch: GivenBatch, prefix: int | None, turn: int, scales: bool, room: int
) -> Iterator[RunPair]:
    """What is tried in one mode without a change of shape: some changes, and what each says of
    several rules. Cuts and changes differ from one `turn` to the next. `prefix` first tokens may
    see one another; None where every token may see later ones. `scales`: embeddings can be changed
    under their tokens. `room`: so many changes are one forward."""
    real, (count, length) = batch.real, batch.shape
    nothing, past = torch.zeros_like(real), _past(batch)

    def change(at: Tensor, factor: float = 0.0) -> Callable[..., RunPair]:
        after = exchanged(batch, at, factor if scales else 0.0)

        def trial(rule: str, words: str, still: Tensor, moving: Tensor = nothing) -> RunPair:
            return RunPair(rule, words, (Feed(batch), after), (still, still), at, moving)

        return trial

    for own in _halves(batch, turn, room) if count > 1 else ():
        own = own if bool((own & ~past).any()) else real & ~own  # one of them is a token alone
        at = past & own
        after = Feed(exchanged(batch, at, 0.0).batch.with_other_source(own.any(1)))
        still = real & ~own
        yield RunPair("batch", "the other sequences", (Feed(batch), after), (still, still), at, own)
        yield RunPair("", "", (Feed(batch), after), (nothing, nothing), at, own & ~past)
    if count == 1 and length > 1 and batch.documents is None:
        yield change(past)("", "", nothing, real & ~past)
    if not batch.is_whole and (scales or not batch.are_ids):  # positions may count padding's ids
        yield change(~real, 3.0)("padding", "what padding holds", real)
    factors = ((-1.0, 0.0, 20.0), (0.0, 20.0, -1.0), (0.0, -1.0, 20.0))[turn % 3]
    if batch.documents is None and prefix is not None:
        left = max(room - (1 if room < 4 or count == 1 else 2) - (not batch.is_whole), 1)
        for n, at in enumerate(behind(batch, _cuts(length, prefix, turn * left * count), left)):
            yield change(at, factors[n])("future", "position {} and all behind it", real & ~at)
    for n, (s, document) in enumerate(_some_documents(batch, turn)):
        inside, others = _within(batch, s, document)
        at = inside & (past if n == 0 else (inside & ~past).long().cumsum(1) > 0)
        words = f"document {document + 1} of the pack"
        trial = change(at, factors[n])
        yield trial("documents", words, others)
        if n == 0:
            yield trial("", "", nothing, inside & ~at)
        elif prefix is not None:
            yield trial("future", _BEHIND, inside & ~at)


def _halves(batch: GivenBatch, turn: int, room: int) -> list[Tensor]:
    """(B, L) of the sequences that are changed: each turn splits them by another bit, one way
    and, where there is room, the other."""
    real, count = batch.real, batch.shape[0]
    bits = (count - 1).bit_length()
    halves = (torch.arange(count, device=real.device) >> turn % bits) % 2 == turn // bits % 2
    both = [real & halves[:, None], real & ~halves[:, None]]
    return both[:1] if room < 4 else both[:: 1 if turn % 2 == 0 else -1]


def exchanged(batch: GivenBatch, at: Tensor, factor: float) -> Feed:
    """The batch with other tokens at some positions, or with their embeddings times a factor."""
    if factor and batch.are_ids:
        return Feed(batch, torch.where(at, factor, 1.0))
    other = at.view(*at.shape, *(1 for _ in batch.tokens.shape[2:]))
    return Feed(batch.with_tokens(torch.where(other, batch.other_tokens(), batch.tokens)))


def _past(batch: GivenBatch) -> Tensor:
    """(B, L) of earlier positions: the first half of each sequence, or of each document of a pack,
    and its last, which may lie beside the next one."""
    inside = batch.real & ~batch.is_special() if batch.are_ids else batch.real
    ids = batch.real.long() if batch.documents is None else batch.documents
    past = torch.zeros_like(inside)
    for own in set(ids[batch.real].tolist()):
        some = inside & (ids == own)
        many, nth = some.sum(1, keepdim=True), some.long().cumsum(1)
        past |= some & ((nth <= (many + 1) // 2) | ((nth == many) & (many > 3)))
    return past


def _cuts(length: int, prefix: int, turn: int) -> list[int]:
    """In the middle, near the ends, and beside multiples of 4, 16 and 64, where chunks begin."""
    middle = (length + prefix) // 2 | 1
    wanted = (middle, length - 1, prefix + 1, 64, 16, 4, 65, 17, 5, 63, 15, 3, length // 4)
    cuts = [cut for cut in dict.fromkeys(wanted) if prefix < cut < length]
    turn %= max(len(cuts), 1)
    return cuts[turn:] + cuts[:turn]


def behind(batch: GivenBatch, cuts: list[int], most: int) -> Iterator[Tensor]:
    """(B, L) of the positions behind a cut, another one in each sequence."""
    count, length = batch.shape
    places = torch.arange(length, device=batch.real.device)
    for n in range(min(-(-len(cuts) // count), most)):
        own = [cuts[(n * count + s) % len(cuts)] for s in range(count)]
        yield batch.real & (places >= torch.tensor(own, device=places.device)[:, None])


def _some_documents(batch: GivenBatch, turn: int = 0) -> list[tuple[int, int]]:
    """(sequence, document): the first, and one in the middle, of the pack with most of them; in
    other turns those behind them."""
    if batch.documents is None:
        return []
    known = [row[real].unique() for row, real in zip(batch.documents, batch.real, strict=True)]
    s = max(range(len(known)), key=lambda n: len(known[n]))
    return [(s, int(known[s][n])) for n in _two_of(len(known[s]), turn)]


def _two_of(many: int, turn: int) -> list[int]:
    return sorted({turn % many, (many // 2 + turn) % many})


def _within(batch: GivenBatch, s: int, document: int) -> tuple[Tensor, Tensor]:
    """(B, L) of the positions of one document, and of the others of its pack."""
    inside, others = torch.zeros_like(batch.real), torch.zeros_like(batch.real)
    inside[s] = batch.real[s] & (batch.documents[s] == document)  # type: ignore[index]
    others[s] = batch.real[s] & ~inside[s]
    return inside, others


def amounts(batch: GivenBatch, sides: tuple[int, int]) -> Iterator[RunPair]:
    """More padding, to the left and to the right; and a padded sequence by itself."""
    real, is_left = batch.real, bool(sides[0]) or not bool(batch.real[:, 0].all())
    base = batch.positioned(is_left)
    if any(sides):
        longer = batch.padded(*sides).positioned(is_left)
        words = "how much padding there is"
        yield RunPair("padding", words, (Feed(base), Feed(longer)), (real, longer.real))
    if not batch.is_whole:
        s = int(real.sum(1).where(real.any(1), real.shape[1]).argmin())
        still = torch.zeros_like(real)
        still[s] = real[s]
        words = "sequences padded to the same length, against one alone"
        yield from _alone("padding", words, base, still)


def apart(batch: GivenBatch) -> Iterator[RunPair]:
    """Documents of a pack by themselves."""
    for s, document in _some_documents(batch)[1:]:
        words = f"a pack, against its document {document + 1} alone"
        yield from _alone("documents", words, batch, _within(batch, s, document)[0])


def _alone(rule: str, words: str, batch: GivenBatch, still: Tensor) -> Iterator[RunPair]:
    """Positions that lie side by side, in the batch and by themselves."""
    places = still.nonzero()
    s, start, stop = int(places[0, 0]), int(places[0, 1]), int(places[-1, 1]) + 1
    if len(places) == stop - start:
        alone = batch.part(s, start, stop)
        yield RunPair(rule, words, (Feed(batch), Feed(alone)), (still, alone.real))


class Mode:
    """The model in one precision and mode: what it returns, and how far changes move that."""

    def __init__(self, name: str, runner: Runner, batch: GivenBatch, copies: int) -> None:
        self.name, self.runner, self.batch = name, runner, batch
        self.copies = copies if batch.can_repeat else 1  # each with a change of its own
        if self.copies * batch.shape[0] == batch.shape[1]:  # rows could be taken for sequences
            self.copies = max(self.copies - 1, 1)
        try:
            self.base = runner.stacked([Feed(batch)] * self.copies)
        except (RuntimeError, ValueError, IndexError, TypeError):
            if self.copies == 1:
                raise
            self.copies = 1  # the inputs cannot be repeated, as patches of pictures of many sizes
            self.base = runner.stacked([Feed(batch)])
        self.is_by_row = self.base.shape[2] == batch.shape[1]
        self.is_pooled = not self.is_by_row and runner.ndim == 2
        size = self.base[0].abs()
        self.scale = float(size[size < LARGE].max()) if bool((size < LARGE).any()) else 1.0
        self.scale = self.scale or 1.0
        self.eps = EXACT if runner.exact else float(torch.finfo(self.base.dtype).eps)
        self.trials: list[RunPair] = []
        self.is_mixed = False  # sequences move one another, those of copies among them
        self._repeats: float | None = None
        self._of_shapes: float | None = None

    def exchange(self, prefix: int | None, turn: int, rules: Sequence[str] = ("", *RULES)) -> None:
        """Try what keeps the shape, as many changes at once as there are copies."""
        scales = bool(self.runner.embeds)
        every = exchanges(self.batch, prefix, turn, scales, self.copies)
        self._try([trial for trial in every if trial.rule in rules])

    def cut(self, cells: list[tuple[int, int]], prefix: int | None) -> None:
        """Try what the layers' (row, key) cells show: cuts where keys are ahead of rows, and
        documents whose keys are seen by others."""
        batch, (_, length), some = self.batch, self.batch.shape, []
        cells = [(row, key) for row, key in cells if max(row, key) < length]
        ahead = {key for row, key in cells if row < key and prefix is not None and prefix < key}
        if batch.documents is None:
            for at in behind(batch, sorted(ahead), self.copies):
                words = "position {} and all behind it"
                some.append(self._exchange("future", words, at, batch.real & ~at))
            self._try(some)
            return
        s, document = _some_documents(batch)[0]
        ids = batch.documents[s].tolist()
        for document in sorted({ids[key] for row, key in cells if ids[row] != ids[key]})[:4]:
            inside, others = _within(batch, s, document)
            words = f"document {document + 1} of the pack"
            some.append(self._exchange("documents", words, inside, others))
        ahead &= {key for row, key in cells if row < key and ids[row] == ids[key]}
        for key in sorted(ahead)[:4]:
            inside, _ = _within(batch, s, ids[key])
            at = inside & (torch.arange(length, device=inside.device) >= key)
            some.append(self._exchange("future", _BEHIND, at, inside & ~at))
        self._try(some)

    def _exchange(self, rule: str, words: str, at: Tensor, still: Tensor) -> RunPair:
        """Other tokens at some positions."""
        return RunPair(
            rule, words, (Feed(self.batch), exchanged(self.batch, at, 0.0)), (still, still), at
        )

    def _try(self, every: list[RunPair]) -> None:
        # copies may see one another: in the first and the last all sequences are changed
        ahead = [trial for trial in every if trial.rule == "future"]
        every = [*ahead[:1], *(t for t in every if t.rule != "future"), *ahead[1:]]
        runs = list(dict.fromkeys(trial.runs[1] for trial in every))
        rows: dict[Feed, Tensor] = {}
        for start in range(0, len(runs), self.copies):
            some = runs[start : start + self.copies]
            blank = [Feed(self.batch)] * (self.copies - len(some))
            made = self.runner.stacked([*some, *blank])
            rows.update(zip(some, made, strict=False))
            still = len(some)
            self.is_mixed |= bool(blank) and self._is_far(made[still:], self.base[still:])
        places = {run: n % self.copies for n, run in enumerate(runs)}
        for trial in every:
            after = trial.runs[1]
            self.trials.append(self._measured(trial, self.base[places[after]], rows[after]))
        if self.copies > 1:
            hits = [t for t in self.trials[-len(every) :] if t.rule not in ("", "batch") and t.rows]
            for trial in hits[:1]:
                self.is_mixed |= trial.by > self._regrouped and self._is_still_alone(trial)

    def _is_still_alone(self, trial: RunPair) -> bool:
        """Whether nothing moves the sequence but those beside it."""
        try:
            single = trial.of_one(trial.sequence)
            before, after = map(self.runner.rows, single.runs)
        except (RuntimeError, ValueError, IndexError, TypeError):
            return False  # it cannot be cut, as patches of several pictures
        return self._measured(single, before, after).by <= self._regrouped

    @property
    def _regrouped(self) -> float:
        """What rows may move by that are grouped anew, as those of experts."""
        return EXACT if self.runner.exact else REGROUPED * self.eps

    def _is_far(self, rows: Tensor, others: Tensor) -> bool:
        return float(distance(rows, others, self.scale).max()) > self._regrouped

    def compare(self, trial: RunPair) -> RunPair:
        """One whose runs have other shapes."""
        first, second = trial.runs
        rows = self.base[0] if first.batch is self.batch else self.runner.rows(first)
        return self._measured(trial, rows, self.runner.rows(second))

    def alone(self, trial: RunPair) -> RunPair:
        """The same without copies beside it, where that moves rows as well."""
        if not trial.keeps_shape or self.copies == 1:
            return trial
        single = self._measured(trial, *map(self.runner.rows, trial.runs))
        return single if single.by > self.noise(single) else trial

    def cached(self) -> Iterator[RunPair]:
        """Parts of a text, each on the cache of those before, against one pass."""
        real = self.batch.real[0].nonzero().flatten()
        text = self.batch.part(0, int(real[0]), int(real[-1]) + 1)
        length, whole = text.shape[1], Feed(text)
        pictures = text.is_special()[0].nonzero() if text.shows else real[:0]
        begin = int(pictures[-1]) + 1 if len(pictures) else 0  # the first part holds them
        rows = self.runner.rows(whole)
        self.runner.forwards -= 1
        ones = min(max(length - 6, length // 2, begin), length - 1)
        for words, ends in (
            ("one token at a time", [ones, *range(ones + 1, length + 1)]),
            ("five tokens at a time", [*range(max(begin, 5), length, 5), length]),
        ):
            sizes = tuple(b - a for a, b in zip([0, *ends[:-1]], ends, strict=True))
            words = f"{words} on a cache, against one pass"
            trial = RunPair(
                "cache", words, (whole, Feed(text, sizes=sizes)), (text.real, text.real)
            )
            trial = self._measured(trial, rows, self.runner.rows(trial.runs[1]))
            if trial.rows:  # the first part that is wrong, for the place
                n = next(n for n, end in enumerate(ends) if trial.rows[0][1] < end)
                head = text.part(0, 0, ends[n])
                still = torch.zeros_like(text.real)
                still[:, ends[n] - sizes[n] : ends[n]] = True
                until = Feed(head, sizes=sizes[: n + 1])
                trial = replace(trial, runs=(whole, until), still=(still, still[:, : ends[n]]))
            yield trial

    def _measured(self, trial: RunPair, rows: Tensor, after: Tensor) -> RunPair:
        """How far the rows of both runs lie apart."""
        still, others = map(self._rows, trial.still, trial.runs)
        if trial.keeps_shape and rows.shape != after.shape:
            raise InputError(
                "the length of the output follows from the contents of the batch: "
                f"{tuple(rows.shape)} and {tuple(after.shape)}; no rows of it can be compared"
            )
        far = distance(rows[still], after[others], self.scale)
        moved = far > (self.noise(trial) if bool((far > 0).any()) else 0.0)
        control = torch.zeros(0)
        if trial.moving is not None:
            should = trial.moving if self.is_by_row else trial.moving.any(1, keepdim=True)
            control = distance(rows[should], after[should], self.scale)
        most, least = (float(x.max()) if len(x) else 0.0 for x in (far, control))
        places = [(int(s), int(row)) for s, row in still.nonzero()[moved]]
        if places:  # those of the sequence that moves most come first
            s = int(still.nonzero()[int(far.argmax()), 0])
            places.sort(key=lambda place: place[0] != s)
        entries = int(still.sum()) * rows.shape[-1]
        return replace(trial, by=most, rows=tuple(places), control=least, entries=entries)

    def _rows(self, mask: Tensor, run: Feed) -> Tensor:
        """(B, L); (B, 1) where the model returns a row a sequence: all of its tokens."""
        real = run.batch.real
        return mask if self.is_by_row else (mask | ~real).all(1, True) & real.any(1, True)

    @property
    def is_lost(self) -> bool:
        """Whether rows of tokens are no numbers."""
        rows = self.base[:, self.batch.real] if self.is_by_row else self.base
        return bool(rows.isnan().all(-1).any())

    @property
    def control(self) -> float:
        """How far rows move with tokens that they may see."""
        return next((trial.control for trial in self.trials if trial.rule == ""), 0.0)

    def resolution(self, trial: RunPair) -> float:
        """The smallest movement that shows. Where every bit counts: one so small that it changes
        the last bit of one entry in n only shows in n entries or so."""
        if self.runner.exact or not trial.keeps_shape or trial.by:
            return max(self.eps, self.noise(trial))
        return self.eps * min(1.0, 5 / max(trial.entries, 1))

    def noise(self, trial: RunPair) -> float:
        """How far rows move without a leak: where kernels do not repeat themselves; in runs of
        other shapes, by rounding; in float64, by tables that were rounded before."""
        if self.runner.exact:
            if trial.keeps_shape:
                return EXACT
            is_shifted = trial.rule != "cache"
            return _OF_TABLES if is_shifted or self._has_tables() else _OF_SHAPES
        if self._repeats is None:
            again = self.runner.stacked([Feed(self.batch)] * self.copies)
            self._repeats = float(distance(again, self.base, self.scale).max())
        if trial.keeps_shape:
            return 8 * self._repeats
        if self._of_shapes is None:
            alone = self.runner.rows(Feed(self.batch))
            self._of_shapes = float(distance(alone, self.base[0], self.scale).max())
        return 8 * max(self._of_shapes, self.eps)

    def _has_tables(self) -> bool:
        """Whether the model keeps numbers that it does not learn, a row a position or so."""
        fixed = [p for p in self.runner.model.parameters() if not p.requires_grad]
        every = [*fixed, *self.runner.model.buffers()]
        return any(x.ndim > 1 and x.is_floating_point() for x in every)
