"""HTTP for a server on loopback that stays reachable: connections are bounded, and so is the time
in which a request must be whole.

too many connections      the oldest that has no whole request is closed; of busy ones the oldest
a request in pieces       closed `PATIENCE` seconds after the server began to wait for it
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 100  # connections; macOS lets a process have 256 files
AT_ONCE: Final = 32  # accepted before one of them is looked at
PATIENCE: Final = 20.0  # seconds; a file of 32 MB arrives in less


class BoundedProtocol(H11Protocol):
    """uvicorn's, whose connections are closed where they are too many or wait too long."""

    _since: float
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to send something before anything can be answered."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room first, if need be."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._watch()
        open_now: set[Any] = self.connections
        if len(open_now) > MOST:
            oldest = min(open_now, key=lambda it: (not it.is_waiting, it._since))
            open_now.discard(oldest)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or the whole of it."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The connection is kept for another request, which has its own time."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """By either side."""
        super().connection_lost(exc)
        self._stop_timer()

    def _watch(self) -> None:
        """The timer runs as long as this waits; what trickles in does not prolong it."""
        if not self.is_waiting:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(PATIENCE, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
