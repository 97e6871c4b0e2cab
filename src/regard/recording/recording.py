"""Recording: an open recording of attention, its prompts, places and heads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from regard.display import Style, as_html, ask
from regard.errors import InputError
from regard.recording.format.frames import Damage
from regard.recording.head import Head
from regard.recording.merged import Merged, merge_prompts, read_merged
from regard.recording.notes import read_notes
from regard.recording.pieces import sort_pieces
from regard.recording.prompt import PromptView, listed
from regard.recording.schema import Place
from regard.recording.shards import Shards, is_shards
from regard.recording.statistics import Statistic, statistic_kinds
from regard.recording.stores import Array, Memory, Store, open_recording
from regard.recording.training import TRAINING_NOTE, Training
from regard.tidy import TidyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def open(path: str | os.PathLike[str]) -> Recording:
    """Open a recording: one file, or a folder of one file per rank, or of many documents
    in one file per shard."""
    return Recording(Shards(path) if is_shards(Path(path)) else open_recording(path))


class Recording:
    """What was recorded of a model. `rec["L5H1"]` is a head of the first prompt.

    Everything is listed at once and read when asked for. An unfinished or damaged recording opens
    with what is there: pieces behind a gap are left out, and `damage` says so.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        path = getattr(store, "path", None)
        self.name = "this recording" if path is None else str(path)
        try:
            self._notes = read_notes(store, self.name)
        except BaseException:
            store.close()
            raise

    # ── what it says ─────────────────────────────────────────────────────────────────────────

    @property
    def model(self) -> dict[str, Any]:
        """What is known of the model: name, family, layers, heads …"""
        return self._notes.facts["model"]

    @property
    def made(self) -> dict[str, Any]:
        """The versions it was made with, and the date."""
        return self._notes.facts["made"]

    @property
    def unheard(self) -> tuple[str, ...]:
        """Modules that attended while it was recorded, and whose attention it does not hold; with
        the reason where one is known."""
        named = self.made.get("not_recorded", ())
        return tuple(map(str, named)) if isinstance(named, list) else ()

    @property
    def not_recorded(self) -> tuple[str, ...]:
        """Another name of `unheard`."""
        return self.unheard

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of the recording: what is kept, and at which resolution."""
        return self._notes.facts["plan"]

    @property
    def check(self) -> dict[str, Any]:
        """The differences between replayed and eager weights, measured while recording."""
        return self._notes.facts["check"]

    @property
    def training(self) -> Training:
        """What a monitor wrote down of a training run; empty where none was monitored."""
        if isinstance(self.store, Shards):
            return Training(Memory())  # files of documents have none, and need not be opened
        return Training(self.store)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What could not be read; empty if the file is intact."""
        return self.store.damage

    @property
    def is_live(self) -> bool:
        """Whether it is still being written."""
        return self.store.is_live

    @cached_property
    def prompts(self) -> Sequence[PromptView]:
        """The texts that went through the model."""
        if isinstance(self.store, Shards):
            return self.store.documents()
        notes, pieces = self._notes, sort_pieces(self.store)
        numbers = sorted({*notes.prompts, *notes.places})
        return [PromptView(self.store, number, notes, pieces) for number in numbers]

    @property
    def files(self) -> Sequence[Path]:
        """The files of a folder of many documents; none where it is one recording."""
        return self.store.files if isinstance(self.store, Shards) else ()

    @property
    def tokens(self) -> list[str]:
        """The first prompt's tokens."""
        return self.prompts[0].tokens if self.prompts else []

    # ── heads ────────────────────────────────────────────────────────────────────────────────

    @property
    def places(self) -> dict[str, Place]:
        """The first prompt's attention modules, by label."""
        return self.prompts[0].places if self.prompts else {}

    @property
    def stacks(self) -> dict[str, tuple[int, int]]:
        """Each stack's (layers, heads); a model with one stack has the stack ""."""
        return self.prompts[0].stacks if self.prompts else {}

    def labels(self) -> list[str]:
        """Every recorded head of the first prompt: L0H0, L0H1 …"""
        return self.prompts[0].labels() if self.prompts else []

    def __getitem__(self, which: Any) -> Head:
        """`rec["L5H1"]`, `rec["cross.L2H0"]`, `rec[5, 1]`, `rec["cross", 2, 0]`, `rec[-1, 0]`."""
        if not self.prompts:
            raise InputError(f"{self.name}: nothing was recorded yet")
        return self.prompts[0][which]

    def __len__(self) -> int:
        return len(self.labels())

    def __iter__(self) -> Iterator[Head]:
        return iter(self.prompts[0]) if self.prompts else iter(())

    def __contains__(self, label: object) -> bool:
        return label in self.labels()

    @property
    def statistic_kinds(self) -> Mapping[str, Statistic]:
        """The statistics that heads have here, and what they mean."""
        return statistic_kinds(self.store.metadata)

    def grid(self, statistic: str, stack: str | None = None, prompt: int = 0) -> Array:
        """(layers, heads) float64 of one of `statistic_kinds`; NaN where it is not known."""
        return self.prompt(prompt).grid(statistic, stack)

    def merged(self) -> Merged:
        """The statistics of all heads over all texts: `rec.merged().grid("entropy")`."""
        if isinstance(self.store, Shards):
            return self.store.merged()
        return read_merged(self.store) or merge_prompts(self.prompts)

    def prompt(self, number: int = 0) -> PromptView:
        """One of the texts; negative numbers count from the last."""
        if not self.prompts:
            raise InputError(f"{self.name}: nothing was recorded yet")
        if not -len(self.prompts) <= number < len(self.prompts):
            have = listed(range(len(self.prompts))) or "none"
            raise InputError(f"prompt {number} does not exist; this recording has {have}")
        return self.prompts[number]

    def table(
        self,
        what: str = "statistics",
        *,
        heads: str | Sequence[str] | None = None,
        prompt: int | None = None,
        rows: slice | range | int | None = None,
        keys: slice | range | int | None = None,
        top: int = 8,
    ) -> TidyTable:
        """Tidy columns, which Arrow, pandas, polars and numpy read, and `regard export` writes.

        what    statistics  one line a head        rows      … a row of a head
                top         … a heaviest key       received  … a key
                weights     … a weight above 0     findings  … a label of a head
                positions   … a query or key of a layer, and where it lies in a picture or sound
                merged      … a head, over all texts
                training    … a head, a step and a statistic, and of the loss at a step;
                            alarms: an alarm of the run
        heads   "L0H0", "L5", "L*H3", several with commas or as a list; all without
        prompt  the index of a text; all without
        rows    a slice or range of rows, or one; keys likewise
        top     heaviest keys of a row
        """
        options = {"heads": heads, "prompt": prompt, "rows": rows, "keys": keys, "top": top}
        return ask("table", self, what, **options)

    # ── pictures ─────────────────────────────────────────────────────────────────────────────

    def plot_head(
        self,
        label: str,
        *,
        prompt: int = 0,
        cell: int | None = None,
        how: Literal["mean", "max"] = "mean",
        raw: bool = False,
        **style: Unpack[Style],
    ) -> Figure:
        """A head's map, coloured by how many times uniform it is, or (raw) by weight.

        `cell` tokens stand in a cell, by default as few as can be seen; `how` pools them. Every
        picture takes `dark`, `size` (width and height in inches) and `dpi`.
        """
        return ask("plot_head", self, label, prompt=prompt, cell=cell, how=how, raw=raw, **style)

    def plot_row(
        self, label: str, row: int, *, prompt: int = 0, raw: bool = False, **style: Unpack[Style]
    ) -> Figure:
        """A row's heaviest keys as bars, and a long row as a curve; -1 is the last row."""
        return ask("plot_row", self, label, row, prompt=prompt, raw=raw, **style)

    def plot_grid(
        self,
        statistic: str = "non_sink",
        *,
        stack: str | None = None,
        prompt: int = 0,
        **style: Unpack[Style],
    ) -> Figure:
        """One of `statistic_kinds`, layers by heads."""
        return ask("plot_grid", self, statistic, stack=stack, prompt=prompt, **style)

    def plot_entropy(self, *, prompt: int = 0, **style: Unpack[Style]) -> Figure:
        """Normalised entropy of the heads of each layer, from 0 to 1."""
        return ask("plot_entropy", self, prompt=prompt, **style)

    def plot_picture(
        self,
        label: str,
        *,
        query: int | None = None,
        key: int | None = None,
        prompt: int = 0,
        raw: bool = False,
        **style: Unpack[Style],
    ) -> Figure:
        """What a query looks at, or who looks at a key, over the picture that it is a part of."""
        options = {"query": query, "key": key, "prompt": prompt, "raw": raw}
        return ask("plot_picture", self, label, **options, **style)

    def plot_heads_over_picture(
        self,
        query: int,
        *,
        heads: str | Sequence[str] | None = None,
        prompt: int = 0,
        raw: bool = False,
        **style: Unpack[Style],
    ) -> Figure:
        """What a query looks at in every head, or in those that are named as in `table`."""
        options = {"heads": heads, "prompt": prompt, "raw": raw}
        return ask("plot_heads_over_picture", self, query, **options, **style)

    def view(self, head: str | None = None, *, prompt: int = 0, height: int = 720) -> object:
        """The page in a notebook, as the last line of a cell; it opens at a head, where one is
        named. With the extra `notebook` it is live: the kernel answers, so that every recorded head
        zooms down to its exact weights. Without it the page holds what fits into the notebook.

        height   pixels
        """
        return ask("view", self, head, prompt=prompt, height=height)

    # ── lifetime ─────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> bool:
        """Look at what was written since; whether there was anything. Heads that were handed out
        stay as they are: ask for them again."""
        before = dict(self.store.metadata)
        new = self.store.refresh()
        if not new and dict(self.store.metadata) == before:
            return False
        self._notes = read_notes(self.store, self.name)
        self.__dict__.pop("prompts", None)
        return True

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    _repr_html_ = as_html

    def __repr__(self) -> str:
        sizes = [f"{n or 'heads'} {a}×{b}" for n, (a, b) in self.stacks.items()]
        sizes += ["a training run"] if TRAINING_NOTE in self.store.metadata else []
        model = str(self.model.get("name", "a model"))
        prompts = f"{len(self.prompts)} prompt{'s' if len(self.prompts) != 1 else ''}"
        return f"Recording({model}, {prompts}, {', '.join(sizes) or 'nothing yet'})"
