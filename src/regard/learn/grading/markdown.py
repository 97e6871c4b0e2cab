"""Markdown, the other way a hand calculation is written: headings, then rows in many spellings.

LaTeX becomes plain text of as many lines first. Under the heading of a step every line is read, or
is prose without numbers, or is listed as not read: nothing with a number in it is passed over.
"""

from __future__ import annotations

import re

from regard.errors import InputError
from regard.learn.grading.blocks import STEPS, Block, Draft, Unread, step_named, unknown_step
from regard.learn.grading.cells import bare, is_blank, is_number, tidy
from regard.learn.grading.lines import Row, has_number, plain_marks, rows_of

_CAUSAL = re.compile(r"\b(?:causal(?:ly)?|masked)\b", re.IGNORECASE)
_NOT = re.compile(r"\b(?:no|non|not|un|without|never|instead)\b|unmasked|n't", re.IGNORECASE)
_BEFORE_SCORES = ("embeddings", "w_q", "w_k", "w_v", "Q", "K", "V")  # below, q_I names a row
_VECTORS = {"q": "Q", "k": "K", "v": "V"}  # q_I, k_1
_WITHOUT_HEADING = _VECTORS | {
    "x": "embeddings", "e": "embeddings", "s": "scores", "a": "weights", "α": "weights",
    "z": "output", "o": "output",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_][\w'’-]*")


def read_markdown(text: str) -> Draft:
    """All that a Markdown text says."""
    return _Markdown(text).draft


class _Markdown:
    """Reads line by line; `step` is what the numbers met next belong to."""

    def __init__(self, text: str) -> None:
        self.draft = Draft()
        self.step: str | None = None
        self.heading = ""
        self.has_heading = False  # the step was opened by one, not by the name of a row
        self.opened: dict[str, Unread] = {}  # by step, the first heading that named it
        self.table: list[list[str]] = []  # its rows, the line after the last being `number`
        raws = text.splitlines()
        lines = without_latex(plain_marks("\n".join(raws))).split("\n")
        for self.number, line in enumerate([*lines, ""], start=1):
            self.raw = raws[self.number - 1].strip() if self.number <= len(raws) else ""
            self._line(" ".join(line.split()).lstrip("> "))
        for block in self.draft.blocks:
            _join_columns(block)
        done = {block.step for block in self.draft.blocks if block.rows}
        done |= {unread.step for unread in self.draft.unread}
        self.draft.unread += [seen for step, seen in self.opened.items() if step not in done]
        self.draft.unread.sort(key=lambda seen: seen.line)

    def _line(self, line: str) -> None:
        if line.startswith("|") or (
            "|" in line and self._is_open and not re.search(r"[\[(]", tidy(line))
        ):
            cells = line.removeprefix("|").removesuffix("|").split("|")
            self.table.append([bare(cell) for cell in cells])
            return
        self._close_table()
        if line and not line.startswith(("```", "~~~", "<!--")):
            self._read(line)

    @property
    def _is_open(self) -> bool:
        return self.step in STEPS

    def _read(self, line: str) -> None:
        if line.startswith("#"):
            self._head(bare(line.strip("# ")))
            return
        line = bare(re.sub(r"^(?:[-*+]|\d+[.)]) ", "", line))
        name, _, rest = line.replace("=", ":", 1).partition(":")
        step = step_named(name)
        if step in ("tokens", "d_k", "causal") and rest.strip():
            self._name(step, rest.strip())
        elif self.step == "tokens" and not self.draft.tokens and not step:
            self._name("tokens", line)
        elif step and not rest.strip(" [({"):
            self._open(name)
        else:
            self._numbers(line)

    def _head(self, text: str) -> None:
        """A heading; numbers behind its name are the first row."""
        self._open(text)
        rest = re.split(r"[:=]", text, maxsplit=1)[-1]
        if self._is_open and rest != text and rows_of(rest, self._is_label):
            self._numbers(rest)

    def _open(self, heading: str) -> None:
        self.step, self.heading, self.has_heading = step_named(heading), heading, True
        if self.step in STEPS:
            self.opened.setdefault(self.step, Unread(self.number, self.step, self.raw))
        if _CAUSAL.search(heading) and not _NOT.search(heading):
            self.draft.causal = True

    def _name(self, step: str, text: str) -> None:
        if step == "d_k":
            self.draft.d_k = text
        elif step == "causal":
            self.draft.causal = not re.match(r"(?:no|none|false|0)\b", text, re.IGNORECASE)
        else:
            words = text.strip("[]() ").split("," if "," in text else None)
            self.draft.tokens = [word.strip("\"' ") for word in words if word.strip()]

    def _is_label(self, text: str, signed: bool = False) -> bool:
        """A token or a step; behind a sign any one word, where no tokens were listed."""
        token, step = self._token_in(text), self._step_in(text)
        word = signed and not self.draft.tokens and self._is_open and _WORD.fullmatch(text)
        return bool(token or step or word)

    def _token_in(self, label: str) -> str | None:
        """The listed token that a label means: The, the, E_{The}, Q(The), row The."""
        tail = re.split(r"[_(\[]|^(?:row|token) ", label, flags=re.IGNORECASE)[-1]
        forms = (label, tail.strip("{}[]() "))
        known = {token.casefold(): token for token in self.draft.tokens}
        return next((known[f.casefold()] for f in forms if f.casefold() in known), None)

    def _step_in(self, label: str) -> str | None:
        step = step_named(label)
        if step is None:
            free = not (self._is_open and self.has_heading)
            letters = _WITHOUT_HEADING if free else _VECTORS if self.step in _BEFORE_SCORES else {}
            letter = re.match(r"([^\W\d_])(?:_|\(|[₀-₉0-9])", label)
            return letters.get(letter[1].lower()) if letter else None
        return step if step in STEPS else None

    def _numbers(self, line: str) -> None:
        rows = rows_of(line, self._is_label)
        if rows is None and self.step in STEPS:
            self.draft.unread.append(Unread(self.number, self.step, self.raw))
        for row in rows or []:
            self._add(*row, is_bracketed="[" in line)

    def _add(self, label: str | None, cells: list[str], is_bracketed: bool) -> None:
        token = self._token_in(label) if label else None
        is_row = self._is_open and label is not None and label == token
        if label is not None and not is_row and (step := self._step_in(label)):
            self.has_heading = self.has_heading and self.step == step
            self.step, label = step, token or (label if self._follows_matrix(step) else None)
        elif token and label and label.casefold() != token.casefold():
            label = token
        elif label and not token and not self._is_open and not is_bracketed and len(cells) == 1:
            return  # "Group: 3" above the first step
        block = self._block(label or self.heading)
        block.rows.append((label, cells))
        block.lines.append(self.number)

    def _follows_matrix(self, step: str) -> bool:
        """Whether all rows of the step stand above in one line: q_I then writes one out again."""
        block = self.draft.blocks[-1] if self.draft.blocks else Block("")
        first = block.lines[:2]
        return block.step == step and len(first) > 1 and first[0] == first[1] < self.number

    def _block(self, name: str) -> Block:
        if not self._is_open and name:
            raise unknown_step(name)
        if not self._is_open:
            raise InputError("has numbers before any step is named; put '## weights' above them")
        if not self.draft.blocks or self.draft.blocks[-1].step != self.step:
            self.draft.blocks.append(Block(str(self.step)))
        return self.draft.blocks[-1]

    def _close_table(self) -> None:
        table, self.table = self.table, []
        if not table or (not self._is_open and not any(map(_has_cell, table))):
            return
        ruled = len(table) > 1 and all(re.fullmatch(r":?-+:?", cell) for cell in table[1])
        head = table[0] if ruled else []
        body = table[2:] if ruled else table
        if head and all(is_number(tidy(cell)) for cell in head):
            head, body = [], [head, *body]  # Markdown forces a heading onto every table
        if head and body and len(head) == len(body[0]) - 1:
            head = ["", *head]  # the corner is empty, and no bar stands before it
        labelled = bool(head and not head[0]) or any(self._is_name(line[0]) for line in body)
        block = self._block(self.heading)
        block.columns = head[1:] if labelled else head
        rows: list[Row] = [(line[0], line[1:]) if labelled else (None, line) for line in body]
        block.rows += rows
        block.lines += range(self.number - len(body), self.number)

    def _is_name(self, cell: str) -> bool:
        return not is_blank(cell) and (not has_number(cell) or self._is_label(cell))


def _join_columns(block: Block) -> None:
    """Line after line of [1; 0]: rows whose cells are separated by semicolons, not columns."""
    if any(label is not None for label, _ in block.rows):
        return
    by_line: dict[int, list[list[str]]] = {}
    for (_, cells), line in zip(block.rows, block.lines, strict=True):
        by_line.setdefault(line, []).append(cells)
    rows = [
        each[0] if len(each) == 1 else [cells[0] for cells in each if len(cells) == 1]
        for each in by_line.values()
    ]
    width = {len(row) for row in rows}
    if (
        len(rows) > 1
        and len(width) == 1
        and sum(map(len, rows)) == sum(len(cells) for _, cells in block.rows)
    ):
        block.rows, block.lines = [(None, row) for row in rows], list(by_line)


def _has_cell(line: list[str]) -> bool:
    return any(is_number(tidy(cell)) for cell in line)


_ENVIRONMENT = re.compile(r"(\\(?:begin|end)\{[A-Za-z]+\*?\})")
_WORDS = {
    "approx": "≈", "cdot": "·", "times": "×", "div": "÷", "top": "ᵀ", "to": "→", "rightarrow": "→",
    "Rightarrow": "→", "mapsto": "→", "infty": "∞", "ldots": "…", "dots": "…", "cdots": "…",
    "quad": " ", "qquad": " ", "left": "", "right": "", "big": "", "bigl": "", "bigr": "",
    "Big": "", "Bigl": "", "Bigr": "", "displaystyle": "", "hline": "", "le": "≤", "ge": "≥",
}  # fmt: skip
_STYLES = "text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|operatorname|boldsymbol|vec|mbox"
_NUMERAL = r"\s*([+-]?(?:[0-9]+(?:[.,][0-9]+)?)?√?[0-9]+(?:[.,][0-9]+)?)\s*"


def without_latex(text: str) -> str:
    """Matrices become bracketed rows, fractions a/b; what is unknown keeps its backslash."""
    if "\\" not in text:
        return text
    text = re.sub(r"(?<=[0-9])\{,\}(?=[0-9])", ".", text)  # so a decimal comma is marked
    text = re.sub(r"\\sqrt ?\{([^{}\n]*)\}", r"√\1", text)
    text = re.sub(r"\\sqrt ?([0-9])", r"√\1", text)
    text = re.sub(rf"\\[dt]?frac\{{{_NUMERAL}\}}\{{{_NUMERAL}\}}", r"\1/\2", text)
    text = re.sub(r"\\[dt]?frac ?([0-9]) ?([0-9])(?![0-9])", r"\1/\2", text)
    text = re.sub(rf"\\(?:{_STYLES}) ?\{{([^{{}}\n]*)\}}", r"\1", text)
    text = _matrices(text)
    text = "\n".join(map(_without_display, text.split("\n")))
    text = re.sub(r"\\([\[\]_*%&#])", r"\1", text)
    text = re.sub(r"\\[()]", "", text)
    text = re.sub(r"\\([A-Za-z]+)(?![A-Za-z])", lambda m: _WORDS.get(m[1], m[0]), text)
    return re.sub(r"\\\\|\\[,;:!> ]|\\[{}]", " ", text)


def _without_display(line: str) -> str:
    r"""\[ … \] is display mathematics, or an escaped row where it holds nothing but cells."""
    if line.strip() in ("\\[", "\\]"):
        return ""
    opened, inside, closed = line.count("\\["), line.partition("\\[")[2], line.count("\\]")
    if (opened, closed) == (1, 1) and re.search(r"[=\[(]", inside.partition("\\]")[0]):
        return line.replace("\\[", " ").replace("\\]", " ")
    return line


def _matrices(text: str) -> str:
    """Each matrix on one line, in front of as many line ends as it had; other frames go."""
    pieces = _ENVIRONMENT.split(text)  # text, frame, text, frame, …
    out = [pieces[0]]
    at = 1
    while at < len(pieces):
        frame, body = pieces[at], pieces[at + 1]
        name = frame.partition("{")[2].rstrip("*}")
        closes = at + 2 < len(pieces) and pieces[at + 2].partition("{")[2].rstrip("*}") == name
        if frame.startswith("\\begin") and name.endswith(("matrix", "array")) and closes:
            out.append(_matrix(body) + "\n" * body.count("\n") + pieces[at + 3])
            at += 4
        else:  # aligned equations: the marks of alignment mean nothing
            out.append(re.sub(r"&(?=\s*[=≈\\])", "", body))
            at += 2
    return "".join(out)


def _matrix(body: str) -> str:
    body = re.sub(r"^\s*(?:\[\w\])?\s*\{[lcr|@ ]*\}", "", body.replace("\\hline", ""))
    rows = [" ".join(row.split()) for row in re.split(r"\\\\(?:\[[^\]\n]*\])?", body)]
    return "[" + "; ".join(row for row in rows if row) + "]"
