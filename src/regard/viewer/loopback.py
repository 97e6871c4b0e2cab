"""A socket that only this machine reaches, and the reader's browser, where a desktop has one."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from typing import Final

from regard.errors import InputError, UnavailableError


def open_in_browser(address: str) -> bool:
    """Whether it was opened. Without a desktop nothing is tried: what `webbrowser` finds then is a
    browser for terminals, which would take over the one that shows the address."""
    has_desktop = sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return has_desktop and webbrowser.open(address)


LOOPBACK: Final = "127.0.0.1"


def bound(port: int) -> socket.socket:
    """It listens already; port 0 picks a free one."""
    if not 0 <= port < 2**16:
        raise InputError(f"port {port}; give 0 for a free one, or 1 to 65535")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"port {port} cannot be had ({error.strerror}); give another, or 0 for a free one"
        ) from None
    return listener
