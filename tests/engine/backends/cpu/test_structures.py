"""The structures Python fills in are the ones C reads: every field at the same place."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from regard.engine.backends.cpu import structures
from regard.engine.backends.cpu.compile import _SOURCES, find_compiler

STRUCTURES = [
    one
    for one in vars(structures).values()
    if isinstance(one, type) and issubclass(one, ctypes.Structure) and one is not ctypes.Structure
]
CONSTANTS = structures.CONSTANTS


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes, places and constants, as a C program sees them."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    folder = tmp_path_factory.mktemp("sizes")
    lines = [f'say("{name}", {name});' for name in CONSTANTS]
    for one in STRUCTURES:
        lines.append(f'say("{one.__name__}", sizeof({one.__name__}));')
        for name, *_ in one._fields_:
            place = f"{one.__name__}.{name}"
            lines.append(f'say("{place}", offsetof({one.__name__}, {name}));')
            lines.append(f'say("{place} size", sizeof((({one.__name__} *)0)->{name}));')
    program = folder / "sizes.c"
    program.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "regard_cpu.h"\n'
        'static void say(const char *name, size_t n) { printf("%s=%zu\\n", name, n); }\n'
        "int main(void) {\n" + "\n".join(lines) + "\n}\n"
    )
    made = folder / "sizes"
    command = [*compiler.split(), "-std=gnu11", f"-I{_SOURCES}", str(program), "-o", str(made)]
    subprocess.run(command, check=True, timeout=300)
    said = subprocess.run([made], check=True, capture_output=True, text=True, timeout=300).stdout
    pairs = (line.split("=") for line in said.splitlines())
    return {name: int(number) for name, number in pairs}


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: s.__name__)
def test_every_field_is_where_c_has_it(
    structure: type[ctypes.Structure], in_c: dict[str, int]
) -> None:
    name = structure.__name__
    assert ctypes.sizeof(structure) == in_c[name]
    for field, *_ in structure._fields_:
        here = getattr(structure, field)
        assert here.offset == in_c[f"{name}.{field}"], field
        assert here.size == in_c[f"{name}.{field} size"], field


def test_constants_are_the_same(in_c: dict[str, int]) -> None:
    assert {"BLOCK_ROWS", "MOST_POOLS", "NO_BIAS", "BIAS_BY_DISTANCE"} < set(CONSTANTS)
    assert {name: in_c[name] for name in CONSTANTS} == CONSTANTS


def test_every_structure_of_the_header_is_mirrored() -> None:
    header = Path(_SOURCES / "regard_cpu.h").read_text()
    assert set(re.findall(r"^\} (\w+);", header, re.MULTILINE)) == {s.__name__ for s in STRUCTURES}


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: s.__name__)
def test_a_fresh_structure_asks_for_nothing(structure: type[ctypes.Structure]) -> None:
    assert bytes(structure()) == b"\0" * ctypes.sizeof(structure)
