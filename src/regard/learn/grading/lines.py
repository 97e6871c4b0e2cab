"""One line of a hand calculation: rows of cells with their labels, prose, or not to be read.

    The = [0.42 0.16 0.42] are its weights        (0.42, 0.16, 0.42)        The: 42 %, 16 %, 42 %
    The = 0.5·[1 0] + 0.5·[0 1] = [0.5 0.5]       [[1, 0], [0, 1]]          1 & 0 & 1/2

Prose has no number, or only such as belong to a remark: √4 = 2, d_k = 4, four decimals, a sum.
A number that is neither is never passed over: the whole line then counts as not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from regard.learn.grading.cells import is_blank, is_number, tidy, without_about

Row: TypeAlias = tuple[str | None, list[str]]


class IsLabel(Protocol):
    """Whether a text may name a row; `signed` where = or : stands behind it."""

    def __call__(self, text: str, signed: bool = False) -> bool: ...


_GROUP = re.compile(r"(\[[^\[\]()]*\]|\([^\[\]()]*\))")
_LABELLED = re.compile(r"[^=:≈→]+[=:≈→]")
_VALUE = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
_REMARKS = re.compile(
    rf"√ ?\(?{_VALUE}\)?(?: ?[=≈] ?{_VALUE})?"
    rf"|\b(?:d_?[kv]|d|n) ?= ?{_VALUE}"
    rf"|\b(?:sums?|total|adds? up)\b(?: up)?(?: to)? ?[=:≈]? ?{_VALUE}"
    rf"|\b(?:divid|multipl|scal)\w* by {_VALUE}"
    r"|\b[0-9]+ (?:decimals?|places?|digits?|dimensions?|tokens?)\b"
    r"|\b(?:step|part|row|exercise|section|note) [0-9]+\b",
    re.IGNORECASE,
)
_ARRAY = re.compile(r"\b(?:(?:np|numpy|torch|jnp|tf)\.)?(?:array|tensor|matrix|constant) ?(?=\()")
_NAMED = re.compile(r"(?<![\w.])[^\W\d_]{1,2}_?\{?[0-9]{1,2}\}?(?![\w.,])")  # q1, k_2


_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # ０ and ＝ as 0 and =
_MARKS = str.maketrans({chr(wide): plain for wide, plain in _WIDE.items()}
                       | {"，": ", ", "、": ", ", "；": "; ", "⟨": "(", "⟩": ")"})  # fmt: skip


def plain_marks(text: str) -> str:
    """Chinese and full-width signs as those of ASCII, angle brackets as round ones."""
    return text.translate(_MARKS)


def has_number(text: str) -> bool:
    """Whether any digit stands in it, of any script; ½ counts, the subscript of k₁ does not."""
    return any(c.isdecimal() or c in "½⅓⅔¼¾⅛" for c in text)


def is_prose(text: str) -> bool:
    """Whether nothing in it could be a number of the calculation."""
    rest = _REMARKS.sub(" ", text)
    words = sum(len(word) > 1 and word.isalpha() for word in rest.split())
    is_formula = words > 1 or re.search(r"[·×+*]", rest)
    if is_formula and not re.search(r"[\[(|][^\[\](|)]*[0-9]", rest):
        rest = _NAMED.sub(" ", rest)  # names of vectors
    return not has_number(rest)


def rows_of(line: str, is_label: IsLabel) -> list[Row] | None:
    """The rows of a line, [] where it is prose, None where it has numbers that cannot be read."""
    line = re.sub(r":=", "=", re.sub(r"->|=>|⇒", "→", tidy(line)))
    line = re.sub(r", ?dtype ?= ?[\w.]+", "", _ARRAY.sub("", line))
    pieces = _joined(_GROUP.split(line))
    is_bare = len(pieces) == 1
    rows = _unbracketed(line, is_label) if is_bare else _bracketed(pieces, is_label)
    return rows or ([] if is_prose(line) else None)


def _joined(pieces: Sequence[str]) -> list[str]:
    """Brackets that hold no cells are text like any other: (rounded), [the note]."""
    out = [pieces[0]]
    for group, text in zip(pieces[1::2], pieces[2::2], strict=True):
        is_last = not text.strip(" ,;.]$") and re.search(r"(?:^|[=:≈→]) ?$", out[-1])
        is_alone = is_last and is_number(group[1:-1].strip())  # The = (3)
        is_no_number = is_last and group[0] == "[" and "=" in out[-1]  # The = [nan]
        if _is_row(group) or is_alone or is_no_number:
            out += [group, text]
        else:
            out[-1] += group + text
    return out


def _is_row(group: str) -> bool:
    inside = group[1:-1].strip()
    if group.startswith("("):
        rows = split_cells(inside, round_brackets=True)
        return bool(rows and len(rows[0]) > 1 and all(map(_is_cell, rows[0]))) and has_number(
            inside
        )
    return has_number(inside) or (bool(inside) and all(is_blank(word) for word in inside.split()))


def _is_cell(text: str) -> bool:
    return is_number(without_about(text)) or is_blank(text)


def _bracketed(pieces: list[str], is_label: IsLabel) -> list[Row]:
    """Every bracket a row with its own label, or a sum whose result stands last."""
    *before, after = [text.strip(" ,;.[](){}") for text in pieces[0::2]]
    groups = pieces[1::2]
    is_product = any(
        re.match(r" ?[·×]? ?w_?[qkv] ?=", text, re.IGNORECASE) for text in pieces[2::2]
    )
    if not is_prose(after) or re.match(r"[=≈·×*/+]|-(?! )", after):
        return []
    rows: list[Row] = []
    name_all = (_names_a_row(t, first=not n, is_label=is_label) for n, t in enumerate(before))
    if not is_product and all(name_all):
        for text, group in zip(before, groups, strict=True):
            rows += _labelled(_name_in(text), group, is_label)
    elif before[-1].endswith(("=", "≈", "→")):
        name = _name_in(re.split(r"(?<=[=:≈→])", before[0])[0])
        is_name = name and any(letter.isalpha() for letter in name)  # "1/2 ·" is no name
        rows += _labelled(name if is_name else None, groups[-1], is_label)
    return _without_title(rows, is_label)


def _without_title(rows: list[Row], is_label: IsLabel) -> list[Row]:
    """Rows of a matrix whose one name, as "S/√4 =", is neither a token nor a step."""
    names = {label for label, _ in rows if label}
    title = rows[0][0] if len(rows) > 1 and len(names) == 1 else None
    if title and not is_label(title):
        return [(None, cells) for _, cells in rows]
    return rows


def _names_a_row(text: str, *, first: bool, is_label: IsLabel) -> bool:
    """Nothing, "The =", or a known word alone; between brackets "/ 2 =" is arithmetic."""
    if not text or is_label(text):
        return True
    if not _LABELLED.fullmatch(text):
        return False
    return first or (text[0].isalpha() and not has_number(text))


def _name_in(text: str) -> str | None:
    text = re.sub(r"^(?:and|und) (?=\w)", "", text)
    return text.rstrip("=:≈→ ").strip("\"'“”‘’ ") or None


def _labelled(label: str | None, group: str, is_label: IsLabel) -> Iterator[Row]:
    rows = split_cells(group[1:-1], round_brackets=group.startswith("("))
    if "&" in group and all(len(row) > 1 and is_label(row[0]) for row in rows):
        return ((row[0], row[1:]) for row in rows)  # The & 1 & 0
    if label and len(rows) > 1 and all(len(row) == 1 for row in rows) and not has_number(label):
        rows = [[row[0] for row in rows]]  # a column vector, written under its token's name
    return ((label, row) for row in rows)


def _unbracketed(line: str, is_label: IsLabel) -> list[Row]:
    """Cells alone, or behind "The:"; a label without a sign must be a known one."""
    text = line.strip(" ;.{}[]()") if re.search(r"[0-9?][ .;\])}]*$", line) else line.strip()
    label: str | None = None
    if not _are_cells(text):
        head, sign, rest = _cut(text)
        word, _, tail = text.partition(" ")
        if sign and is_label(name := _name_in(head) or "", signed=True):
            label, text = name, rest
        elif is_label(word):
            label, text = word, tail
    if not has_number(text) or not _are_cells(text):
        return []
    return [(label, row) for row in split_cells(text, round_brackets=True)]


def _cut(text: str) -> tuple[str, str, str]:
    found = re.search(r"[=:≈→]", text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def _are_cells(text: str) -> bool:
    rows = split_cells(text, round_brackets=True)
    return len(rows) == 1 and all(map(_is_cell, rows[0]))


def split_cells(text: str, *, round_brackets: bool = False) -> list[list[str]]:
    """Cells of each row. `&` or `|`, else `;` between rows, else commas, else blanks.

    A comma is decimal where something else separates: `0,42 0,16` and, in round brackets or in
    none, `0,42; 0,16`. In `[0,42; 0,16]` it may be either, and the texts stay no numbers; in
    `[0,423; 0,157]` it is decimal.
    """
    text = text.strip()
    if "&" in text or "|" in text:
        return [[cell.strip() for cell in re.split(r"[&|]", row)] for row in text.split(";")]
    parts = [part.strip() for part in text.split(";")]
    decimal = all(re.fullmatch(r"[+-]?[0-9]+,[0-9]+%?", part) for part in parts)
    if decimal and len(parts) > 1:
        fractions = [part.partition(",")[2] for part in parts]
        leading = any(len(f) > 1 and f.startswith("0") for f in fractions)
        if round_brackets or leading or all(len(f) > 2 for f in fractions):
            return [parts]
        if any(len(f) > 1 for f in fractions):
            return [[text]]
    if round_brackets and len(parts) > 1 and all(map(_is_cell, parts)):
        return [parts]
    return [_cells(part) for part in parts]


def _cells(text: str) -> list[str]:
    words = text.split()
    if "," not in text:
        return words
    whole = r"[+-]?[0-9]+(?:,[0-9]+)?%?|\?"
    if len(words) > 1 and all(re.fullmatch(whole, word) for word in words):
        return words  # 0,42 0,16
    commas = [word.removesuffix(",") for word in words]
    if len(words) > 1 and all(re.fullmatch(r"[+-]?[0-9]+,[0-9]{2,}", word) for word in commas):
        return commas  # 0,42, 0,16
    if len(words) > 1 and all(re.fullmatch(r"[0-9]+(?:,[0-9]+)?%", word) for word in commas):
        return commas  # 73,1%, 26,9%
    cells = [cell.strip() for cell in text.split(",")]
    return cells[:-1] if cells and not cells[-1] else cells
