"""Writes web/src/source/answers.ts: the page's types, out of src/regard/views/schema.py and
schema_sight.py, and which of them is the answer to which question, out of
src/regard/viewer/questions.py.

python tools/answers_types.py            write the file
python tools/answers_types.py --check    exit 1 where it differs

A class `OverviewAnswer` becomes the interface `Overview`. Its docstring and the comments of its
fields, behind them or above, come along.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import textwrap
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = [ROOT / "src/regard/views" / name for name in ("schema.py", "schema_sight.py")]
QUESTIONS = ROOT / "src/regard/viewer/questions.py"
WRITTEN = ROOT / "web/src/source/answers.ts"
WIDTH = 100
_HEAD = "// Written by tools/answers_types.py out of views/schema.py and viewer/questions.py.\n"
_PLAIN = {"int": "number", "float": "number", "str": "string", "bool": "boolean", "None": "null",
          "Any": "unknown"}  # fmt: skip


def types(*sources: str) -> str:
    """The interfaces, in the order of the classes."""
    return "\n".join([_HEAD, *(part for source in sources for part in _types(source))])


def _types(source: str) -> list[str]:
    comments, parts = _comments(source), []
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and _name(node.annotation) == "TypeAlias":
            assert isinstance(node.target, ast.Name) and node.value is not None
            told = comments.get(node.lineno, "")
            parts.append(f"{_told(told, '')}export type {node.target.id} = {_type(node.value)};\n")
        if isinstance(node, ast.ClassDef):
            parts.append(_interface(node, comments))
    return parts


def answers(source: str) -> str:
    """The type of every question of the table that is answered in JSON, by its name."""
    (table,) = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and _name(node.target) == "QUESTIONS"
    )
    assert isinstance(table, ast.Dict)
    lines = ["\n/** What is answered to each question. */", "export interface Answers {"]
    for name, question in zip(table.keys, table.values, strict=True):
        assert isinstance(name, ast.Constant) and isinstance(question, ast.Call)
        kind = _name(question.args[0])
        lines += [f"  readonly {name.value!s}: {_short(kind)};"] if kind != "Binary" else []
    return "\n".join([*lines, "}\n"])


def _interface(node: ast.ClassDef, comments: dict[int, str]) -> str:
    bases = [_name(base) for base in node.bases if _name(base) != "TypedDict"]
    above = f" extends {', '.join(map(_short, bases))}" if bases else ""
    told = _told(ast.get_docstring(node) or "", "")
    lines = [f"{told}export interface {_short(node.name)}{above} {{"]
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        told = comments.get(field.lineno) or comments.get(-field.lineno + 1, "")
        kind, mark = field.annotation, ""
        if isinstance(kind, ast.Subscript) and _name(kind.value) == "NotRequired":
            kind, mark = kind.slice, "?"
        lines.append(f"{_told(told, '  ')}  readonly {field.target.id}{mark}: {_type(kind)};")
    return "\n".join([*lines, "}\n"])


def _type(node: ast.expr) -> str:
    """As TypeScript says it."""
    if isinstance(node, ast.BinOp):
        return f"{_type(node.left)} | {_type(node.right)}"
    if isinstance(node, ast.Constant):
        return "null" if node.value is None else f'"{node.value!s}"'
    if isinstance(node, ast.Name):
        return _PLAIN.get(node.id, _short(node.id))
    if not isinstance(node, ast.Subscript):
        raise ValueError(f"a type that has no words here: {ast.unparse(node)}")
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    given = [_type(one) for one in inner]
    if _name(node.value) == "Literal":
        return " | ".join(given)
    if _name(node.value) == "list":
        return f"readonly ({given[0]})[]" if " " in given[0] else f"readonly {given[0]}[]"
    if _name(node.value) == "tuple":
        return f"readonly [{', '.join(given)}]"
    return f"Readonly<Record<{', '.join(given)}>>"  # dict, Mapping


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _short(name: str) -> str:
    return re.sub(r"Answer$", "", name)


def _told(text: str, indent: str) -> str:
    """As a comment above what it is about."""
    if not text:
        return ""
    words = " ".join(text.split()).replace("None", "null")
    if len(indent) + len(words) + 7 <= WIDTH:
        return f"{indent}/** {words} */\n"
    rows = textwrap.wrap(words, WIDTH - len(indent) - 3)
    return "\n".join([f"{indent}/**", *(f"{indent} * {row}" for row in rows), f"{indent} */\n"])


def _comments(source: str) -> dict[int, str]:
    """By line; one that has a line of its own by its number below zero."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            is_alone = not token.line[: token.start[1]].strip()
            found[-token.start[0] if is_alone else token.start[0]] = token.string.lstrip("# ")
    return found


def main() -> int:
    """Write it, or say whether it is as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args()
    text = types(*(one.read_text(encoding="utf-8") for one in SCHEMAS))
    text += answers(QUESTIONS.read_text(encoding="utf-8"))
    if not asked.check:
        WRITTEN.write_text(text, encoding="utf-8")
        return 0
    if WRITTEN.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{WRITTEN.relative_to(ROOT)} differs: run python tools/answers_types.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
