"""Docstrings as reStructuredText.

They are written to be read in the source: `code` in single backticks, formulas indented, and what
parameters mean in two columns. Nothing in them is markup but the backticks.
"""

from __future__ import annotations

import re

_COLUMNS = re.compile(r"^(\S+)(?:\s{2,}(\S.*))?$")
_SPECIAL = re.compile(r"([*|\\_])")
_CODE = re.compile(r"`([^`]+)`")


def as_rst(lines: list[str]) -> list[str]:
    """Paragraph by paragraph: text, definitions, or a block as it stands."""
    found: list[str] = []
    for block in _blocks(lines):
        found += [*_rst(block), ""]
    return found


def _blocks(lines: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _rst(block: list[str]) -> list[str]:
    if block[0].startswith("    "):
        return _literal([line.removeprefix("    ") for line in block])
    if any(re.search(r"\S {2,}\S", line) for line in block):
        return _definitions(block) or _literal(block)
    if any(line.startswith(" ") for line in block):
        return _literal(block)
    return [_text(line) for line in block]


def _definitions(block: list[str]) -> list[str]:
    """From two columns, names and what they mean; nothing where the block is something else."""
    found: list[str] = []
    for line in block:
        columns = _COLUMNS.match(line)
        if columns and columns.group(2):
            found += [f"``{columns.group(1).strip('`')}``", f"    {_text(columns.group(2))}"]
        elif line.startswith("  ") and found:
            found += [f"    {_text(line.strip())}"]
        else:
            return []
    return found


def _literal(block: list[str]) -> list[str]:
    return ["::", "", *(f"    {line}" for line in block)]


def _text(line: str) -> str:
    """Backticks are code, and everything else is itself."""
    parts = _CODE.split(line)
    return "".join(
        f"``{part}``" if number % 2 else _SPECIAL.sub(r"\\\1", part)
        for number, part in enumerate(parts)
    )
