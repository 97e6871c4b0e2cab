"""What was computed lately, up to so many bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

_Made = TypeVar("_Made")


class Cache:
    """Values by key; the one that was not asked for longest goes first. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        # one lock a key that is being made; nobody keeps it longer than that
        self._turns: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], _Made], size: Callable[[_Made], int]) -> _Made:
        """The value, made now where it is not kept. Of those who ask at once one makes it; if that
        fails, the next one tries."""
        with self._lock:
            turn = self._turns.setdefault(key, Lock())
        with turn:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key][0]
            made = make()
            self._keep(key, made, size(made))
            return made

    def kept(self, key: Hashable) -> Any:
        """The value, where it is kept; else None, without waiting for who makes it."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        if size > self.limit:
            return
        with self._lock:
            self.used += size - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = value, size
            while self.used > self.limit:
                self.used -= self._kept.popitem(last=False)[1][1]
