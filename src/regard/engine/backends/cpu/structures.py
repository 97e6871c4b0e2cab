"""The C structures and constants, read from `kernel/regard_cpu.h`, which says them once."""

from __future__ import annotations

import re
from ctypes import Structure, c_double, c_int64, c_void_p
from pathlib import Path
from typing import Any

_HEADER = (Path(__file__).parent / "kernel" / "regard_cpu.h").read_text(encoding="utf-8")
_CODE = re.sub(r"/\*.*?\*/", "", _HEADER, flags=re.DOTALL)
_TYPES: dict[str, Any] = {"int64_t": c_int64, "double": c_double}


def _constants() -> dict[str, int]:
    """What the enums say; without a number, one more than the one before."""
    found: dict[str, int] = {}
    for body in re.findall(r"enum\s+\w*\s*\{(.*?)\}", _CODE, re.DOTALL):
        value = -1
        for name, number in re.findall(r"(\w+)(?:\s*=\s*(\d+))?", body):
            value = int(number) if number else value + 1
            found[name] = value
    return found


CONSTANTS = _constants()
BLOCK_ROWS, TILE_KEYS, MOST_POOLS, MOST_MATCHES, OFFSET_PARTS, MOST_KEPT_BYTES = (
    CONSTANTS[name]
    for name in (
        "BLOCK_ROWS", "TILE_KEYS", "MOST_POOLS", "MOST_MATCHES", "OFFSET_PARTS", "MOST_KEPT_BYTES",
    )
)  # fmt: skip


def _fields(name: str) -> list[tuple[str, Any]]:
    """The fields of a typedef: `const int64_t *row, *col;`, `Pool pool[MOST_POOLS];` …"""
    match = re.search(r"typedef struct \{([^{}]*)\} " + name + ";", _CODE)
    assert match is not None, name
    fields: list[tuple[str, Any]] = []
    for statement in filter(str.strip, match[1].split(";")):
        if function := re.search(r"\(\*(\w+)\)", statement):
            fields.append((function[1], c_void_p))
            continue
        kind, names = re.sub(r"\bconst\b", "", statement).split(maxsplit=1)
        for star, field, count in re.findall(r"(\*?)(\w+)(?:\[(\w+)\])?", names):
            one = c_void_p if star else _TYPES[kind]
            if count:
                one = one * (int(count) if count.isdigit() else CONSTANTS[count])
            fields.append((field, one))
    return fields


class KernelCall(Structure):
    """The problem and its tensors."""

    _fields_ = _fields("KernelCall")


class Pool(Structure):
    """One pooled map."""

    _fields_ = _fields("Pool")


class Match(Structure):
    """One mark to look for."""

    _fields_ = _fields("Match")


class QuerySums(Structure):
    """Sums over queries."""

    _fields_ = _fields("QuerySums")


_TYPES |= {"Pool": Pool, "Match": Match, "QuerySums": QuerySums}


class RowSweep(Structure):
    """What the row sweep measures."""

    _fields_ = _fields("RowSweep")


class ColumnSweep(Structure):
    """What the column sweep sums."""

    _fields_ = _fields("ColumnSweep")


class Rectangle(Structure):
    """A rectangle of some heads."""

    _fields_ = _fields("Rectangle")


class Backward(Structure):
    """What the backward sweep reads and writes."""

    _fields_ = _fields("Backward")
