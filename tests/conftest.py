"""What holds for every test."""

from __future__ import annotations

import signal

# A shell that starts the run in the background makes it, and every process it starts, deaf to
# Ctrl-C; tests that send one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
