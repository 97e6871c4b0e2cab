"""The reader's browser, where there is a desktop that has one."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_in_browser(address: str) -> bool:
    """Whether it was opened. Without a desktop nothing is tried: what `webbrowser` finds then is a
    browser for terminals, which would take over the one that shows the address."""
    has_desktop = sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return has_desktop and webbrowser.open(address)
