"""Where the recordings of finished requests go: into the file of `regard.vllm.record`, or into
memory, until the client fetches them or their time is over."""

from __future__ import annotations

import hmac
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.errors import FileError, InputError, RegardError
from regard.recorder.plan import human, parse_budget
from regard.recording import Memory, Writer
from regard.vllm.sequence import ServedSequence

_CHILD = re.compile(r"(?:\d+_)?(.+?)(?:-[0-9a-f]{8})?")  # n > 1 adds in front, every request behind


_ITEM = re.compile(r"[-_]\d+$")  # of several prompts in one request


def client_id(request: str) -> str:
    """The id that a client was given: vLLM's own less what it adds to it."""
    found = _CHILD.fullmatch(request)
    return found[1] if found else request


def in_words(error: Exception) -> str:
    """A reason, for whoever asked."""
    return str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"


class Shelf(ABC):
    """Takes the recordings of requests that share a secret."""

    @abstractmethod
    def number(self, request: str) -> int:
        """Which prompt of its recording a new request is."""

    @abstractmethod
    def room(self, request: str) -> int:
        """Bytes that a new request may take."""

    @abstractmethod
    def deliver(self, sequence: ServedSequence) -> None:
        """A request is at its end."""

    @abstractmethod
    def refuse(self, request: str, secret: str, reason: str) -> None:
        """A request is not recorded, or no further."""


class FileShelf(Shelf):
    """One file, in the order in which requests finish."""

    def __init__(
        self, path: str | os.PathLike[str], notes: Mapping[str, str], budget: int, overwrite: bool
    ) -> None:
        self._writer = Writer(path, overwrite=overwrite)
        self._budget, self._spent = budget, 0
        self._open: dict[str, int] = {}  # bytes foreseen for requests on their way
        self._count = 0
        self.delivered = 0
        self.refused: dict[str, str] = {}
        self._put(lambda: self._writer.note(notes))

    def number(self, request: str) -> int:
        self._count += 1
        return self._count - 1

    def room(self, request: str) -> int:
        return max(self._budget - self._spent - sum(self._open.values()), 1)

    def foresee(self, request: str, size: int) -> None:
        """So many bytes are planned for a request."""
        self._open[request] = size

    def deliver(self, sequence: ServedSequence) -> None:
        self._open.pop(sequence.request.id, None)
        self._spent += sequence.spent
        if self._put(lambda: copy_into(self._writer, sequence.memory)):
            self.delivered += 1
        else:
            self.refused[sequence.request.id] = self.error

    def refuse(self, request: str, secret: str, reason: str) -> None:
        self._open.pop(request, None)
        self.refused[request] = reason

    def close(self) -> Path:
        """The file is whole; a file without any request is not left behind."""
        path = self._writer.path
        if self.error or not self.delivered:
            self._writer.abandon()
        self._put(self._writer.close)
        if not self.delivered:
            path.unlink(missing_ok=True)
        return self._writer.path

    error = ""  # what the file system said; nothing is written behind it

    def _put(self, write: Callable[[], None]) -> bool:
        """A disk that is full ends the recording, not the server."""
        if self.error:
            return False
        try:
            write()
        except (FileError, OSError) as error:
            self.error = str(error)
        return not self.error


def copy_into(writer: Writer, memory: Memory) -> None:
    """All tensors and notes of a recording in memory."""
    for name, entry in memory.entries.items():
        dtype = entry.dtype if entry.dtype == "BF16" else None
        writer.add(name, memory.words(name), entry.metadata, dtype=dtype)
    writer.note(memory.metadata)


# ── until it is fetched ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ClientLimits:
    """What requests of clients may take, in bytes and seconds: `--additional-config
    '{"regard": {"request": "64MB", "total": "512MB", "seconds": 600}}'`."""

    request: int = 64 * 10**6
    total: int = 512 * 10**6
    seconds: float = 600.0

    @classmethod
    def of(cls, given: Any) -> ClientLimits:
        """As the operator gives them."""
        if given is None:
            return cls()
        known = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping) or set(given) - set(known):
            raise InputError(f"regard={given!r:.80} of additional_config; give {', '.join(known)}")
        sizes = {name: parse_budget(given[name]) for name in ("request", "total") if name in given}
        return cls(**sizes, seconds=float(given.get("seconds", cls.seconds)))


@dataclass
class ClientEntry:
    """One request of a client."""

    secret: str
    number: int
    foreseen: int = 0  # bytes, while it runs
    memory: Memory | None = None  # when it is finished
    reason: str = ""  # why there is none
    since: float = 0.0  # when it finished


class MemoryShelf(Shelf):
    """Recordings by request, each given to whoever has its secret."""

    def __init__(
        self,
        notes: Mapping[str, str],
        limits: ClientLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notes, self.limits, self._clock = notes, limits, clock
        self._kept: dict[str, ClientEntry] = {}

    def expect(self, request: str, secret: str) -> None:
        """A request asks."""
        self._expire()
        whole = _ITEM.sub("", client_id(request))  # what can be fetched together
        known = [
            one.number for id, one in self._kept.items() if _ITEM.sub("", client_id(id)) == whole
        ]
        self._kept[request] = ClientEntry(secret, max(known, default=-1) + 1)

    def number(self, request: str) -> int:
        return self._kept[request].number

    def room(self, request: str) -> int:
        taken = sum(_size(one) for one in self._kept.values())
        while taken + self.limits.request > self.limits.total and self._drop_oldest():
            taken = sum(_size(one) for one in self._kept.values())
        left = self.limits.total - taken
        if left < 1:
            raise InputError(
                f"requests on their way take {human(taken)} of {human(self.limits.total)}; "
                "ask again when they are finished, or for fewer layers"
            )
        return min(self.limits.request, left)

    def foresee(self, request: str, size: int) -> None:
        """So many bytes are planned for a request."""
        self._kept[request].foreseen = size

    def deliver(self, sequence: ServedSequence) -> None:
        kept = self._kept[sequence.request.id]
        kept.memory, kept.since, kept.foreseen = sequence.memory, self._clock(), 0

    def refuse(self, request: str, secret: str, reason: str) -> None:
        kept = self._kept.setdefault(request, ClientEntry(secret, 0))
        kept.reason, kept.since, kept.foreseen = reason, self._clock(), 0

    def fetch(self, request: str, secret: str) -> dict[str, Any]:
        """`state`: unknown, running, refused (with `reason`) or ready (with `file`, bytes). A wrong
        secret is answered as an unknown request is; a request that gave none was refused, which
        whoever has its id may know."""
        self._expire()
        own = {
            id: one
            for id, one in self._kept.items()
            if request in (client_id(id), _ITEM.sub("", client_id(id)))
            and (not one.secret or hmac.compare_digest(one.secret.encode(), secret.encode()))
        }
        if not own:
            return {"state": "unknown"}
        if any(not one.since for one in own.values()):
            return {"state": "running"}
        found = [one.memory for one in own.values() if one.memory is not None]
        if not found:
            return {"state": "refused", "reason": next(iter(own.values())).reason}
        return {"state": "ready", "file": self._as_file(found)}

    def _as_file(self, memories: list[Memory]) -> bytes:
        with TemporaryDirectory(prefix="regard-") as folder:
            path = Path(folder) / "request.regard"
            with Writer(path) as writer:
                writer.note(self._notes)
                for memory in memories:
                    copy_into(writer, memory)
            return path.read_bytes()

    def _expire(self) -> None:
        over = self._clock() - self.limits.seconds
        for id in [id for id, one in self._kept.items() if one.since and one.since < over]:
            del self._kept[id]

    def _drop_oldest(self) -> bool:
        done = [(one.since, id) for id, one in self._kept.items() if one.memory is not None]
        if done:
            del self._kept[min(done)[1]]
        return bool(done)


def _size(kept: ClientEntry) -> int:
    if kept.memory is None:
        return kept.foreseen
    return sum(entry.nbytes for entry in kept.memory.entries.values())
