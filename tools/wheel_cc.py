"""A C compiler for wheels: what it makes loads wherever the C library is glibc 2.17 or newer.

    CC="python tools/wheel_cc.py x86_64" python -m hatchling build --target wheel

A library asks for the versions of symbols that the C library it was linked with has, so zig links,
which knows every glibc. On x86-64 gcc compiles: zig's clang moves the 16 sums of the AVX2 product
from register to register, 62 instructions for 16 multiply-adds where gcc needs 35. For aarch64,
which has registers enough, zig compiles too. auditwheel checks what comes out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ZIG = (sys.executable, "-m", "ziglang", "cc")
# machine → how a source becomes an object
_COMPILE = {
    "x86_64": ("gcc",),
    "aarch64": (*_ZIG, "-target", "aarch64-linux-gnu.2.17"),
}


def commands(machine: str, words: list[str]) -> list[list[str]]:
    """The two commands for what a compiler was asked that makes a library of one source."""
    place = words.index("-o")
    library = Path(words[place + 1])
    rest = words[:place] + words[place + 2 :]
    libraries = [word for word in rest if word.startswith("-l")]
    flags = [word for word in rest if word not in (*libraries, "-shared")]
    made = str(library.with_suffix(".o"))
    link = [*_ZIG, "-target", f"{machine}-linux-gnu.2.17", "-shared", "-pthread"]
    # -s: zig would keep what debuggers read, with the paths of this machine
    return [
        [*_COMPILE[machine], *flags, "-c", "-o", made],
        [*link, "-s", made, "-o", str(library), *libraries],
    ]


def main(machine: str, *words: str) -> None:
    """Compile, then link."""
    for command in commands(machine, list(words)):
        done = subprocess.run(command)
        if done.returncode != 0:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
