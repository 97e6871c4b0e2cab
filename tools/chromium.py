"""Makes sure that there is a Chromium for the browser tests. Standard library only.

python tools/chromium.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """The path of a Chromium on PATH, or of the one that $REGARD_CHROMIUM names."""
    named = os.environ.get("REGARD_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def install() -> None:
    """Debian's package, where this is Debian and we may."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        sys.exit("the browser tests need Chromium on PATH (Debian: apt-get install chromium)")
    print("installing Debian's chromium for the browser tests (once)", file=sys.stderr)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        done = subprocess.run([apt, "--quiet", *words], env=quiet, capture_output=True, text=True)
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()[-3:]
            sys.exit(f"apt-get {' '.join(words)} failed: {' | '.join(last)}")


if __name__ == "__main__":
    if find_browser() is None:
        install()
