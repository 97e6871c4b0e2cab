r"""LaTeX in a hand calculation, as plain text of as many lines.

\begin{bmatrix} 1 & 0 \\ 0 & \frac{1}{2} \end{bmatrix}  →  [1 & 0; 0 & 1/2]
"""

from __future__ import annotations

import re

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
