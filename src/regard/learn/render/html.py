"""The lesson as HTML for readers without scripts: no script, no request, every word escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from regard.learn.languages import language
from regard.learn.story.document import Document, Grid, Line, Lines, Part, Prose, Section

_PRODUCT = '<mrow><mi class="q">Q</mi><msup><mi class="k">K</mi><mi>T</mi></msup></mrow>'
_DIVIDED = f"<mfrac>{_PRODUCT}<msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt></mfrac>"


def html_body(document: Document) -> str:
    """A header and a main part; the classes are roles (q, k, v, weight), styled by the page."""
    title, say = escape(document.title), language(document.language)
    roles = (("q", "query"), ("k", "key"), ("v", "value"), ("weight", "weight"))
    legend = [f'<b class="{role}">{escape(say(f"symbol.{name}"))}</b>' for role, name in roles]
    opening = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in document.opening)
    sections = "\n".join(_section(section) for section in document.sections)
    return f"""<header>
<p>{escape(say("page.title"))}</p>
<h1>{title}</h1>
{opening}
<p>{" ".join(legend[:3])}
{legend[3]}</p>
{_formula(document.scaled)}
</header>
<main>
{sections}
</main>"""


def _formula(scaled: bool) -> str:
    return (
        '<math display="block"><mrow><mi>Attention</mi><mo>(</mo><mi class="q">Q</mi><mo>,</mo>'
        '<mi class="k">K</mi><mo>,</mo><mi class="v">V</mi><mo>)</mo><mo>=</mo><mi>softmax</mi>'
        f"<mrow><mo>(</mo>{_DIVIDED if scaled else _PRODUCT}<mo>)</mo></mrow>"
        '<mi class="v">V</mi></mrow></math>'
    )


def _section(section: Section) -> str:
    number = f'<span class="number">{section.number}</span> ' if section.number is not None else ""
    why = f'<p class="why">{escape(section.why)}</p>' if section.why else ""
    parts = "\n".join(_parts(section.parts))
    return f"<section>\n<h2>{number}{escape(section.title)}</h2>\n{why}\n{parts}\n</section>"


def _parts(parts: tuple[Part, ...]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, Prose):
            item = ' class="item"' if part.text.startswith("• ") else ""
            yield f"<p{item}>{escape(part.text)}</p>"
        elif isinstance(part, Lines):
            yield "<pre>" + "\n".join(_line(one) for one in part.lines) + "</pre>"
        else:
            yield '<div class="grids">' + "\n".join(map(_grid, part.grids)) + "</div>"


def _line(one: Line) -> str:
    return "".join(
        escape(span.text)
        if span.role == "plain"
        else f'<span class="{span.role}">{escape(span.text)}</span>'
        for span in one
    )


def _grid(grid: Grid) -> str:
    heads = "".join(f'<th scope="col">{escape(label)}</th>' for label in grid.columns)
    rows = "\n".join(_row(grid, r) for r in range(len(grid.rows)))
    remark = f"<p>{escape(grid.remark)}</p>" if grid.remark else ""
    return (
        f'<div class="grid {grid.role}"><table><caption>{escape(grid.title)}</caption>\n'
        f"<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>{remark}</div>"
    )


def _row(grid: Grid, r: int) -> str:
    cells = "".join(f"<td>{escape(text)}</td>" for text in grid.cells[r])
    return f'<tr><th scope="row">{escape(grid.rows[r])}</th>{cells}</tr>'
