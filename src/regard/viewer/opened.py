"""Opened: a recording that is served, to many threads, while it may still grow."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock, RLock
from typing import Final, TypeVar

from regard.errors import InputError
from regard.recording import Head, PromptView, Recording
from regard.study import make_report
from regard.views.cache import Cache
from regard.views.findings import report_answer
from regard.views.overview import Who, who_is
from regard.views.schema import ReportAnswer
from regard.views.tiles import HeadMap

CACHE_BYTES: Final = 2**28
_EVERY: Final = 2**31  # findings: all there are
_MAP_BYTES: Final = 48  # a recorded row of a HeadMap, about
_Made = TypeVar("_Made")


class Opened:
    """One of the recordings that were named at the start. Whoever reads heads holds `lock`."""

    def __init__(self, recording: Recording, number: int = 0, cache: Cache | None = None) -> None:
        self.recording, self.number = recording, number
        self.name = who_is(recording).name
        self.revision = 0
        self.lock = RLock()
        self.progress: dict[Hashable, tuple[int, int]] = {}  # of comparisons under way
        self._cache = Cache(CACHE_BYTES) if cache is None else cache
        self._reports: dict[tuple[int, int], ReportAnswer] = {}
        self._report_lock = Lock()
        self._grows = True  # until a look found nothing new and nobody writing
        self._size = -1  # of the file at the last look

    @property
    def who(self) -> Who:
        """How it is called; no folder of this machine is told to the page."""
        return Who(self.name, self.number, self.revision)

    def refresh(self) -> bool:
        """Look at what was written since; whether there was anything."""
        with self.lock:
            size = _size_of(self.recording)
            if not self._grows and size == self._size:
                return False
            self._size = size
            is_live = self.recording.is_live  # before the look: its last words are not missed
            has_new = self.recording.refresh()
            self.revision += has_new
            self._grows = is_live or has_new
            return has_new

    def prompt(self, number: int) -> PromptView:
        """By its place among the prompts."""
        with self.lock:
            prompts = self.recording.prompts
            if not 0 <= number < len(prompts):
                raise InputError(
                    f"prompt {number} does not exist; {self.name} has {len(prompts)} prompts"
                )
            return prompts[number]

    def head(self, prompt: int, label: str) -> Head:
        """By its label."""
        with self.lock:
            return self.prompt(prompt)[label]

    def head_map(self, prompt: int, label: str) -> HeadMap:
        """Its map; kept, for what it knows of its rows."""
        with self.lock:
            name = self.number, self.revision, prompt
            return self._cache.get(
                (name, label, "map"),
                lambda: HeadMap(self.prompt(prompt), self.head(prompt, label), self._cache, name),
                lambda made: _MAP_BYTES * len(made.head.recorded) + 1024,
            )

    def remembered(self, what: str, prompt: int, make: Callable[[], _Made], size: int) -> _Made:
        """Something about a prompt, made once as long as the recording does not grow."""
        with self.lock:
            return self._cache.get(self.key(prompt, what), make, lambda _: size)

    def key(self, prompt: int, what: str) -> Hashable:
        """The name of something about a prompt, of what is written of it now."""
        with self.lock:
            return self.number, self.revision, prompt, what

    def shared(self, key: Hashable, make: Callable[[], _Made], size: int) -> _Made:
        """Something that takes long and needs no lock: others are answered meanwhile."""
        return self._cache.get(key, make, lambda _: size)

    def snapshot(self) -> Recording:
        """The same recording with heads of its own, for work that holds no lock."""
        with self.lock:
            own = Recording(self.recording.store)
            own.name = self.name  # no folder of this machine is told to the page
            own.prompts  # noqa: B018  listed before the recording can grow
            return own

    def report(self, prompt: int) -> ReportAnswer:
        """Everything that stands out, computed once; others are answered meanwhile."""
        self.prompt(prompt)
        with self._report_lock:
            with self.lock:
                key, own = (self.revision, prompt), self.snapshot()
            if key not in self._reports:
                made = report_answer(make_report(own, prompt, top=_EVERY), file=self.name)
                self._reports = {k: v for k, v in self._reports.items() if k[0] == key[0]}
                self._reports[key] = made
            return self._reports[key]

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self.recording.close()


def _size_of(recording: Recording) -> int:
    """In bytes, of all ranks; notes may be added to a finished file. 0 where there is no file."""
    path = getattr(recording.store, "path", None)
    if path is None:
        return 0
    try:
        files = list(path.iterdir()) if path.is_dir() else [path]
        return sum(one.stat().st_size for one in files)
    except OSError:
        return 0
