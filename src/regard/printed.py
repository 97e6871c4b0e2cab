"""Values as they are printed: a layer's steps as the lesson, an attention as weights with words."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from regard.learn.languages import language
from regard.learn.lesson.of_layer import lesson_of
from regard.learn.render import html_body, print_document
from regard.learn.render.terminal import side_by_side
from regard.learn.story import narrate
from regard.learn.story.tables import grid
from regard.learn.text import column, labels_of, padded, short_indices

if TYPE_CHECKING:
    from regard.engine.attention import Attention

MOST_WORDS: Final = 12  # tokens whose weights are printed one by one
_MOST_CELLS: Final = 2**26  # of an attention that are swept to be printed: a second or two
_WIDTH: Final = 100
_STYLE: Final = """
.regard-lesson{max-height:720px;overflow:auto;font:14px/1.5 system-ui,sans-serif}
.regard-lesson pre{background:none;margin:.3em 0 .3em 1.5em}
.regard-lesson .why{font-style:italic;margin:.1em 0 .3em 1.5em}
.regard-lesson .grids{display:flex;flex-wrap:wrap;gap:1em 2em;margin-left:1.5em}
.regard-lesson caption{text-align:left;font-weight:bold}
.regard-lesson .q{color:#2e8fd0}.regard-lesson .k{color:#d07a00}
.regard-lesson .v{color:#009e73}.regard-lesson .weight{color:#c06a9b}
"""


def steps_text(steps: Any) -> str:
    """Of a layer or block: what `regard learn` prints, for its own weights."""
    console = _console()
    print_document(narrate(lesson_of(steps)), console)
    return _written(console)


def steps_html(steps: Any) -> str:
    """The same for a notebook: every word escaped, no script."""
    body = html_body(narrate(lesson_of(steps)))
    return f'<div class="regard-lesson"><style>{_STYLE}</style>{body}</div>'


def attention_text(a: Attention) -> str:
    """Up to twelve tokens every weight, beyond them a line a head; of a batch its first entry."""
    if not 0 < math.prod(a.shape) <= _MOST_CELLS:
        return repr(a)
    *batch, queries, keys = a.shape
    heads = batch.pop() if batch else 1
    console = _console()
    console.print(repr(a), soft_wrap=True)
    if math.prod(batch) > 1:
        console.print(f"the first of a batch of {math.prod(batch)}")
    many = max(queries, keys) > MOST_WORDS
    for row in _lines(a, heads) if many else _grids(a, heads):
        console.print(row)
    return _written(console)


def _grids(a: Attention, heads: int) -> Iterator[Any]:
    rows, columns = _labels(a)
    shown = short_indices(heads)
    weights = _of_first(a[...], 3).reshape(heads, len(rows), len(columns))
    names = [f"head {h}" if heads > 1 else "weights" for h in shown]
    say = language("en")
    grids = (
        grid(name, weights[h], rows, columns, "weight", say=say)
        for name, h in zip(names, shown, strict=True)
    )
    yield from side_by_side(tuple(grids), _WIDTH, say)
    if len(shown) < heads:
        yield f"… and {heads - len(shown)} more heads"


def _lines(a: Attention, heads: int) -> Iterator[str]:
    """How spread out a head's rows are, and the keys with the most mass a row."""
    _, columns = _labels(a)
    entropy = _of_first(a.entropy(), 2).reshape(heads, -1).mean(-1)
    received = _of_first(a.received(), 2).reshape(heads, -1)
    shares = received / received.sum(-1, keepdims=True).clip(min=1e-300)
    for h, spread in enumerate(column(entropy)):
        best = sorted(range(len(columns)), key=lambda j: -shares[h, j])[:3]
        most = ", ".join(f"{columns[j]} {shares[h, j]:.3f}" for j in best)
        name = padded(f"head {h}", 8)
        yield f"{name}  mean entropy {spread} of {math.log(len(columns)):.4f}  most mass: {most}"


def _labels(a: Attention) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of queries and keys: words where they are known, else numbers."""
    queries, keys = a.shape[-2:]
    words = a.tokens or (None, None)
    return tuple(
        labels_of(given) if given is not None else tuple(map(str, range(count)))
        for given, count in zip(words, (queries, keys), strict=True)
    )  # type: ignore[return-value]


def _of_first(tensor: Any, axes: int) -> Any:
    """Of the first batch entry, with at most so many axes, in numpy."""
    return tensor[(0,) * max(tensor.ndim - axes, 0)].detach().double().cpu().numpy()


def _console() -> Console:
    return Console(file=io.StringIO(), width=_WIDTH, color_system=None, highlight=False)


def _written(console: Console) -> str:
    return str(console.file.getvalue()).rstrip()  # type: ignore[attr-defined]
