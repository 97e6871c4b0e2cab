"""The structures Python fills in are the ones C reads: every field at the same place."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from regard.engine.backends.cpu import structures
from regard.engine.backends.cpu.compile import _SOURCES, find_compiler

STRUCTURES = {
    name: kind
    for name, kind in vars(structures).items()
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure)
    and kind is not ctypes.Structure
}  # fmt: skip
CONSTANTS = structures.CONSTANTS


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes, places and constants, as a C program sees them."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    folder = tmp_path_factory.mktemp("sizes")
    lines = [f'say("{name}", {name});' for name in CONSTANTS]
    for name, kind in STRUCTURES.items():
        lines.append(f'say("{name}", sizeof({name}));')
        for field, *_ in kind._fields_:
            lines.append(f'say("{name}.{field}", offsetof({name}, {field}));')
            lines.append(f'say("{name}.{field} size", sizeof((({name} *)0)->{field}));')
    program = folder / "sizes.c"
    program.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "regard_cpu.h"\n'
        'static void say(const char *name, size_t n) { printf("%s=%zu\\n", name, n); }\n'
        "int main(void) {\n" + "\n".join(lines) + "\n}\n"
    )
    made = folder / "sizes"
    command = [*compiler.split(), "-std=gnu11", f"-I{_SOURCES}", str(program), "-o", str(made)]
    subprocess.run(command, check=True, timeout=300)
    printed = subprocess.run([made], check=True, capture_output=True, text=True, timeout=300).stdout
    return {name: int(n) for name, n in (line.split("=") for line in printed.splitlines())}


def test_every_field_and_every_constant_is_what_c_has(in_c: dict[str, int]) -> None:
    """And a fresh structure asks for nothing."""
    header = Path(_SOURCES / "regard_cpu.h").read_text()
    assert set(re.findall(r"^\} (\w+);", header, re.MULTILINE)) == set(STRUCTURES)
    for name, kind in STRUCTURES.items():
        assert ctypes.sizeof(kind) == in_c[name]
        assert bytes(kind()) == b"\0" * ctypes.sizeof(kind)
        for field, *_ in kind._fields_:
            here = getattr(kind, field)
            places = in_c[f"{name}.{field}"], in_c[f"{name}.{field} size"]
            assert (here.offset, here.size) == places, f"{name}.{field}"
    assert {"BLOCK_ROWS", "MOST_POOLS", "NO_BIAS", "BIAS_BY_DISTANCE"} < set(CONSTANTS)
    assert {name: in_c[name] for name in CONSTANTS} == CONSTANTS
