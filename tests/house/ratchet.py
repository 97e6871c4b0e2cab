"""What may only fall: sizes and words of every room, written in RATCHET.md.

    make ratchet        rewrites RATCHET.md where a count has fallen (python -m house.ratchet, with
                        tests/ on PYTHONPATH); a row that a commit must raise is edited by hand

A room is a part of the package that is understood by itself, with its page and its tests.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from house.checks.layers import RINGS
from house.checks.public import listed
from house.checks.source import Source, Sources

PAGE = Path(__file__).with_name("RATCHET.md")
ROOT = PAGE.parents[2]

# room: (folders or files of src/regard, lines to reach, files to reach)
ROOMS = {
    "engine": ("engine mask summary nn parallel kv *", 22_500, 90),
    "capture": ("hear capture huggingface intervene recorder record monitor vllm models",
                14_000, 62),
    "page": ("views viewer draw plot colour export play study recording show", 18_500, 105),
    "learn": ("learn", 6_000, 38),
    "cli": ("cli", 3_400, 20),
    "bench": ("bench testing", 1_100, 8),
    "check": ("check", 1_100, 5),
    "why": ("why mixing explain", 2_500, 12),
}  # fmt: skip
LESSON = ("learner", "maths")  # of web/src
BANNED = ("found", "one", "told", "said")  # as identifiers
EMPTY = ("result", "item", "value", "obj", "data")
PERSONS = re.compile("nobody|somebody|whoever", re.IGNORECASE)  # in text
LAYOUT_TOKENS = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
}  # fmt: skip

GOALS = {
    **{f"src/{room}: lines": lines for room, (_, lines, _) in ROOMS.items()},
    **{f"src/{room}: files": files for room, (_, _, files) in ROOMS.items()},
    **{f"src: the name {word}": 60 for word in EMPTY},
    "src: `# fmt: skip`": 120,
}
PREFACE = """# What may only fall

A commit that makes a count larger edits its row and gives the reason in its message; `make ratchet`
writes the counts that have fallen. Tokens are those of Python without comments; undocumented
imports are those of names that no `__all__` lists and no page of the docs names.

| what | at most | goal |
| --- | --- | --- |
"""


def measure(sources: Sources) -> Counter[str]:
    """Every count, of rooms and of the whole package."""
    counts: Counter[str] = Counter()
    public = documented(sources)
    for source in sources.values():
        if room := room_of(source.path):
            counts += Counter({f"{room}: {what}": n for what, n in _of_file(source, public)})
    return counts + Counter({f"src: {what}": n for what, n in _of_package(sources.package)})


def exceeded(now: Counter[str], allowed: Counter[str]) -> list[str]:
    """Where there is more than the page allows."""
    return [f"{what}: {n}, {allowed[what]} allowed" for what, n in now.items() if n > allowed[what]]


def read(text: str) -> Counter[str]:
    """The rows of a page."""
    rows = re.findall(r"^\| (.+?) \| (\d+) \|", text, re.MULTILINE)
    return Counter({what: int(n) for what, n in rows})


def write(now: Counter[str], allowed: Counter[str] | None) -> str:
    """The page with the smaller of each two counts; without a page before, today's."""
    least = now if allowed is None else now & allowed
    rows = [f"| {what} | {n} | {GOALS.get(what, '')} |\n" for what, n in sorted(least.items())]
    return PREFACE + "".join(rows)


def room_of(path: str) -> str:
    """`src/engine` of src/regard/mask/kinds.py, `tests/engine` of its tests; else nothing."""
    top, *parts = path.split("/")
    if path.startswith("web/src/") and path.endswith((".ts", ".tsx", ".css")):
        return "web/lesson" if parts[1] in LESSON else "web/rest"
    if top == "tests" and path.endswith(".py"):
        is_support = len(parts) == 1 and not parts[0].startswith("test_")
        return "tests/support" if is_support else f"tests/{_room(parts, 'support')}"
    is_source = top == "src" and path.endswith((".py", ".c", ".h", ".cpp"))
    return f"src/{_room(parts[1:], 'other')}" if is_source else ""


def documented(sources: Sources) -> set[str]:
    """Names a test may import: what an `__all__` lists, or README and docs name."""
    names = {f"{s.name}.{name}" for s in sources.package for name in listed(s) or ()}
    pages = [s for p, s in sources.items() if p.endswith(".md") and p.startswith(("docs/", "READ"))]
    for page in pages:
        names |= set(re.findall(r"\bregard(?:\.\w+)+", page.text))
        names |= {f"{module}.*" for module in re.findall(r"automodule:: ([\w.]+)", page.text)}
        for module, imported in re.findall(r"from (regard[\w.]*) import (\([^)]*\)|.*)", page.text):
            names |= {f"{module}.{name}" for name in re.findall(r"\w+", imported)}
    return names


def _room(parts: list[str], other: str) -> str:
    name = parts[0] if len(parts) > 1 else "*"
    return next((room for room, (names, *_) in ROOMS.items() if name in names.split()), other)


def _of_file(source: Source, public: set[str]) -> Iterator[tuple[str, int]]:
    yield "lines", source.lines
    yield "files", 1
    if source.path.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
        yield "tokens", sum(token.type not in LAYOUT_TOKENS for token in tokens)
        yield ", ".join(BANNED), sum(name in BANNED for name in _assigned(source))
        if source.path.startswith("tests/"):
            private = (not _is_public(i.target, public) for i in source.imports)
            yield "undocumented imports", sum(private)


def _is_public(target: str, public: set[str]) -> bool:
    """Whether an import is of a documented name, or of another package."""
    module, _, name = target.rpartition(".")
    is_ours = target.split(".")[0] == "regard"
    is_named = not name.startswith("_") and not public.isdisjoint({target, f"{module}.*"})
    return is_named or not is_ours or target == "regard"


def _assigned(source: Source) -> Iterator[str]:
    yield from (node.id for node in source.nodes(ast.Name) if isinstance(node.ctx, ast.Store))
    yield from (node.arg for node in source.nodes(ast.arg))


def _of_package(package: list[Source]) -> Iterator[tuple[str, int]]:
    yield "`# fmt: skip`", sum(source.text.count("# fmt: skip") for source in package)
    yield "nobody, somebody, whoever", sum(len(PERSONS.findall(s.text)) for s in package)
    names = Counter(name for source in package for name in _assigned(source))
    yield from ((f"the name {word}", names[word]) for word in EMPTY)
    classes = [(s.unit, n.name.lstrip("_")) for s in package for n in s.nodes(ast.ClassDef)]
    inner = {unit for ring in RINGS[:2] for units in ring for unit in units} | {*RINGS[2][1]}
    yield "classes of another's name", _repeated(name for _, name in classes)
    yield "those in the inner rings", _repeated(name for unit, name in classes if unit in inner)
    # folders below engine/backends count as one, since their files are parts of one interface
    paths = {re.sub(r"(engine/backends)/.*(?=/)", r"\1", source.path) for source in package}
    files = [path.rpartition("/")[2] for path in paths]
    yield "files of another's name", _repeated(name for name in files if name[:2] != "__")


def _repeated(names: Iterable[str]) -> int:
    return sum(count - 1 for count in Counter(names).values())


def main() -> None:
    """Write the page, and print what has grown beyond it."""
    now = measure(Sources.read(ROOT))
    allowed = read(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else None
    PAGE.write_text(write(now, allowed), encoding="utf-8")
    for line in exceeded(now, now if allowed is None else allowed):
        print(f"{line}: edit {PAGE.name} and give the reason in the commit's message")


if __name__ == "__main__":
    main()
