"""What is answered about a recording, field by field: by `regard show --json`, by the server, and
by a page that is one file. `web/src/source/answers.ts` is written from this file
(`tools/answers_types.py`), and a comment behind a field stands there too. What is said of pictures
stands in `schema_sight.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Known: TypeAlias = float | None  # None where a number is not known or not finite
Facts: TypeAlias = Mapping[str, Any]  # as a file says them
Grid: TypeAlias = list[list[Known]]  # layers × heads
How: TypeAlias = Literal["mean", "max"]


# ── a recording ──────────────────────────────────────────────────────────────────────────────


class DamageAnswer(TypedDict):
    """What could not be read."""

    offset: int
    reason: str


class StandingAnswer(TypedDict):
    """Which recording it is, and how it is."""

    recording: int
    name: str
    revision: int
    live: bool
    damage: list[DamageAnswer]
    model: Facts


class ListingAnswer(StandingAnswer):
    """A recording in a list of them."""

    prompts: int


class GuessAnswer(TypedDict):
    """A token that the model might have said next."""

    token: str
    probability: Known


class PromptFactsAnswer(TypedDict):
    """One text that went through the model."""

    title: str
    tokens: int
    generated: int
    finished: bool
    next: list[GuessAnswer]
    streams: dict[str, int | None]  # Tokens of each stream; null where the file is damaged there.


class ScaleAnswer(TypedDict):
    """What the codes of a tile stand for."""

    name: str
    low: float
    high: float
    # What the last colour stands for, where that is not `high`: no row has so many keys.
    top: NotRequired[float]
    log: bool
    hidden: int
    first: int
    last: int


class StatisticFactsAnswer(TypedDict):
    """One number a head."""

    title: str
    words: str
    # one: a share 0–1; entropy: nats; spread: from the smallest to the largest there is.
    span: Literal["one", "entropy", "spread"]


class StackAnswer(TypedDict):
    """Layers of one kind."""

    name: str  # "" for a model with one stack; encoder, decoder, cross otherwise.
    layers: int
    heads: int
    grids: dict[str, Grid | None]


class HeadShortAnswer(TypedDict):
    """One head, in a list of them."""

    label: str
    stack: str
    layer: int
    head: int
    shape: tuple[int, int]  # Queries and keys.
    kind: Literal["self", "cross"]
    recorded: tuple[int, int]  # First row, and the one after the last.
    exact: bool


class HeadsAnswer(TypedDict):
    """All heads of a prompt."""

    stacks: list[StackAnswer]
    heads: list[HeadShortAnswer]
    problems: list[str]  # What of it could not be read.
    why_unknown: dict[str, str]  # By statistic: why recorded heads lack the number.


class OverviewAnswer(StandingAnswer, HeadsAnswer):
    """The first look at a recording."""

    made: Facts
    plan: Facts
    check: Facts
    prompts: list[PromptFactsAnswer]
    prompt: int
    statistics: dict[str, StatisticFactsAnswer]
    statistic: str  # By which heads are told apart, where nobody chose another.
    opens_on: str | None  # The head that lies farthest from its layer by it.
    glossary: dict[str, str]
    scale: ScaleAnswer
    caveat: str
    stands_out: list[FindingAnswer] | None  # The first findings; null where they are asked for.
    training: TrainingFactsAnswer | None  # Null where it is asked for, or where none was monitored.


class TokensAnswer(TypedDict):
    """A page of a stream."""

    stream: str
    start: int
    total: int
    tokens: list[str]
    ids: list[int]
    flags: list[int]


# ── a head ───────────────────────────────────────────────────────────────────────────────────


class TrackAnswer(TypedDict):
    """Point n is about tokens edges[n] … edges[n + 1] − 1."""

    words: str
    edges: list[int]
    mean: list[Known]
    largest: list[Known]


class TracksAnswer(TypedDict):
    """Curves beside a map."""

    received: TrackAnswer | None
    distance: TrackAnswer | None
    entropy: TrackAnswer | None


class StreamsAnswer(TypedDict):
    """Which tokens stand on the sides of a map."""

    queries: str
    keys: str


class LevelsAnswer(TypedDict):
    """Tokens per pixel, finest first; empty where nothing can be drawn."""

    mean: list[int]
    max: list[int]


class CellsAnswer(TypedDict):
    """A map in cells, from the first recorded row on; null where it is masked."""

    cell: int
    how: How
    first_row: int
    weights: Grid
    times_uniform: Grid


class KeysAnswer(TypedDict):
    """Keys that are looked at."""

    keys: tuple[int, int]  # The first, and the one after the last.
    token: str | None  # Of a single key.
    share: float  # Of all attention.


class HeadFactsAnswer(HeadShortAnswer):
    """One head."""

    prompt: int
    revision: int
    place: str
    why_not: str | None
    rows: NotRequired[list[int]]  # Those that can be read, where a file carries only some.
    streams: StreamsAnswer
    statistics: dict[str, Known]
    stored: dict[str, str | None]
    tile: int
    levels: LevelsAnswer
    sight: bool  # Whether its mask is known for every row.
    scale: ScaleAnswer
    tracks: TracksAnswer
    problems: list[str]
    caveat: str
    map: NotRequired[CellsAnswer]  # Where one was asked for.
    looked_at: NotRequired[list[KeysAnswer]]  # Likewise; the most first.


class KeyAnswer(TypedDict):
    """A key and its weight."""

    key: int
    token: str | None
    weight: Known


class RowFactsAnswer(TypedDict):
    """One row of a head."""

    head: str
    prompt: int
    row: int
    token: str | None
    visible: int
    keys: tuple[int, int]
    top: list[KeyAnswer]
    caveat: str
    exact: bool
    why_not: str | None


class RegionAnswer(TypedDict):
    """A part of a head's matrix; null where it is masked."""

    head: str
    prompt: int
    rows: tuple[int, int]
    keys: tuple[int, int]
    query_tokens: list[str] | None
    key_tokens: list[str] | None
    weights: Grid
    caveat: str


# ── what heads do ────────────────────────────────────────────────────────────────────────────


class EvidenceRowAnswer(TypedDict):
    """A row, and how far it shows a pattern."""

    row: int
    last: int
    token: str | None
    value: Known
    exact: bool
    key: int | None
    key_token: str | None
    weight: Known


class FindingAnswer(TypedDict):
    """A label of a head."""

    label: str
    stack: str
    layer: int
    head: int
    row: int | None
    surprise: Known
    non_sink: Known
    pattern: str
    score: Known
    chance: Known
    threshold: Known
    conditional: Known
    holds: bool
    why_not: str
    known: bool  # Whether the recording tells if the label holds.
    n_rows: int  # Rows it was judged by.
    p_value: Known  # How likely such a score is by chance, at most.
    test: str  # … by which test.
    detail: Facts
    causal: Known
    rows: list[EvidenceRowAnswer]
    counter: EvidenceRowAnswer | None
    sentence: str


class StudiedAnswer(TypedDict):
    """What was looked for in one head."""

    label: str
    stack: str
    layer: int
    head: int
    labels: list[str]
    not_known: dict[str, str]
    sink: Known
    non_sink: Known
    scores: dict[str, Known]


class ReportAnswer(TypedDict):
    """What stands out in a prompt, most surprising first."""

    file: str
    model: str
    prompt: int
    title: str
    tokens: int
    doubts: list[str]
    caveat: str
    causal_check: str
    counts: dict[str, int]
    unknown: dict[str, str]
    labels: int
    stand_out: int  # So many of the findings stand on an overview.
    why_nobody: str  # Why no head stands out; "" where one does.
    knocked: dict[str, Facts]
    findings: list[FindingAnswer]
    heads: list[StudiedAnswer]


class OutlierAnswer(TypedDict):
    """A head that lies apart from its layer, over many documents."""

    label: str
    statistic: str
    value: float
    median: float
    deviations: float
    sentence: str


class ManyStatisticAnswer(TypedDict):
    """One number a head over many documents, and over how many rows it was taken."""

    meaning: str
    values: list[Known]
    rows: list[Known]


class ManyAnswer(TypedDict):
    """Many documents at once."""

    folder: str
    model: Facts
    made: Facts
    files: list[str]
    documents: int
    tokens: int
    heads: list[str]
    statistics: dict[str, ManyStatisticAnswer]
    surprising: list[OutlierAnswer]
    caveat: str


# ── two recordings ───────────────────────────────────────────────────────────────────────────


class HeadDifferenceAnswer(TypedDict):
    """How far a head is from the head of the same name."""

    label: str
    distance: Known  # Jensen–Shannon, 0 … 1; null where the two cannot be compared.
    how: Literal["rows", "profiles", "nothing"]
    rows: int
    worst_rows: tuple[int, int] | None
    worst_distance: Known
    worst_token: str | None
    profiles: dict[str, Known]


class ComparedAnswer(TypedDict):
    """One of two prompts."""

    recording: int
    prompt: int
    name: str
    model: str
    title: str


class ProgressAnswer(TypedDict):
    """How many of the heads of a comparison are done; 0 of 0 where none is under way."""

    done: int
    total: int


class ComparisonAnswer(TypedDict):
    """Every head that two prompts both have, the farthest apart first."""

    a: ComparedAnswer
    b: ComparedAnswer
    alignment: str  # How tokens were matched, in words.
    largest: float
    doubts: list[str]  # What must be known before the numbers are read.
    heads: list[HeadDifferenceAnswer]
    only_a: list[str]
    only_b: list[str]


# ── a training run ───────────────────────────────────────────────────────────────────────────


class LimitAnswer(TypedDict):
    """Beyond it a head is in trouble."""

    side: Literal["above", "below"]
    value: float
    customary: bool  # Not told by this run: what a monitor takes where nobody gives another.


class ExtremeAnswer(TypedDict):
    """The least or the largest number of a statistic."""

    value: Known
    head: str
    step: int


class TrainedStatisticAnswer(TypedDict):
    """One statistic over the steps."""

    words: str
    # one: a share 0–1; decades: on a log scale; spread: from the smallest to the largest.
    span: Literal["one", "decades", "spread"]
    limit: LimitAnswer | None
    median_first: Known  # Of all heads, at the first step.
    median_last: Known
    least: ExtremeAnswer
    largest: ExtremeAnswer


class AlarmAnswer(TypedDict):
    """A head that stayed over a limit."""

    kind: str
    head: str
    step: int  # The first over the limit.
    statistic: str
    value: Known
    threshold: Known


class LossAtAnswer(TypedDict):
    """The loss of a sampled step; null where it is NaN or infinite."""

    value: Known
    step: int


class LossAnswer(TypedDict):
    """The loss over the sampled steps."""

    samples: int  # Steps that have one.
    first: LossAtAnswer
    last: LossAtAnswer
    least: LossAtAnswer | None  # Of those that are finite; null where none is.
    largest: LossAtAnswer | None
    not_finite: int  # How many are NaN or infinite.
    first_not_finite: int | None  # The first step of these.


class TrainingFactsAnswer(TypedDict):
    """A run that was monitored."""

    recording: int
    revision: int
    samples: int  # How many steps were sampled.
    steps: tuple[int, int] | None  # The first and the last that was; null where none was.
    places: list[str]  # Layers, those of all stacks one after another.
    heads: list[int]  # Of each place.
    statistics: dict[str, TrainedStatisticAnswer]
    loss: LossAnswer | None  # Null where the run gave none.
    alarms: list[AlarmAnswer]
    maps: dict[str, list[int]]  # The steps of which each head has a stored map.
