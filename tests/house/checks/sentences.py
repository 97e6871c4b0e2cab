"""The lesson's sentences: each name that is said is in the table, each in the table is said, and
none stands in the sources where no translation reaches it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["missing_names", "unused_names", "written_in_page", "written_in_story"]

_TABLE: Final = "src/regard/learn/languages/en.json"
_ROOM: Final = "web/src/learner"
_NAME: Final = re.compile(r"""["'`]([a-z][a-z_0-9]*\.[a-z][a-z_0-9]*)["'`]""")
_SAID: Final = re.compile(
    r"""(?:\b(?:say|phrase|Phrase)\(\s*|<Say\s+name=)["']([a-z][a-z_0-9]*\.[a-z][a-z_0-9]*)["']"""
)
# Names that are put together where they are said, each from a short list in its source.
_COMPUTED: Final = (
    r"(why|embedding|projections|scores|scaling|softmax|sum|heads|real_head|next_layer|next_word|"
    r"cache|cross)\.(name|title|why|question|answer)",  # steps/words.ts
    r"projections\.(queries|keys|values)",  # steps/projections.tsx
    r"symbol\.(query|key|value|weight)",  # render/html.py
    r"symbol\.(scores|scaled|weights|output)",  # labs/exercise.ts
    r"lab_twice\.(value|the|scaling|weight|cat|addition)",  # labs/CountedTwice.tsx
    r"lab_mask\.(before|after|zero)",  # labs/MaskPlace.tsx
    r"motion\.(clip|scene)_(meet|scale|squeeze|flow|heads)",  # motion/Film.tsx
    r"sentence\.(about_)?(notes|features|smollm2|one|by_hand|random)",  # parts/SentenceChoices.tsx
    r"vectors\.(person|animal|thing|place|water|money|action|past)",  # features.json
    r"cache\.(cached|new|unneeded|waiting)",  # story/Generation.tsx
    r"cross\.where_(translation|speech|pictures|chat)",  # story/cross.tsx
    r"sheet\.[a-z_]+",  # worksheets: by their topics and questions, tests/learn/worksheets
)

_WORDS: Final = re.compile(r"[A-Za-z]{2,}[,:]? (?:a )?[a-z]{2,}")
_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", re.DOTALL)
_CLASSES: Final = re.compile(
    r"""\b(?:class|tone)=(?:"[^"]*"|\{`(?:[^`$]|\$\{[^}]*\})*`\}|\{[^{}]*\})"""
)
_ERROR: Final = re.compile(r"new Error\((?:[^()]|\([^()]*\))*\)")
_IMPORT: Final = re.compile(r"^(?:import|export)\b[^;]*?from [^;]*;|^import [^;]*;", re.MULTILINE)
_LITERAL: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`' + r"|'(?:[^'\\\n]|\\.)*'")
_TEXT_NODE: Final = re.compile(r"[>}]([^<>{}]*)(?=[<{])")
_CODE: Final = re.compile(
    r"=>|\?\?|\w\([^()]*\) [+<>-]|[=&|]|;[ \t]*(?:\n|$)|"
    r"\bas (?:const|number|string|[A-Z])|\breturn\b|: (?:string|number)\b|"
    r"^\s*(?:else|export|function|interface|type|const|let|async|"
    r"class|catch|switch|case|from|extends|implements|satisfies|readonly|if|for|while)\b",
    re.MULTILINE,
)
_SHELL: Final = ("regard ", "(prefers-")  # commands and queries are the same in every language
_TONE: Final = re.compile(r"[a-z]+ (?:strong|[a-z]+-[a-z]+)")  # names of styles
_EXAMPLES: Final = "examples.ts"  # sentences to try, English in every language


def _names(root: Path) -> set[str]:
    table = json.loads((root / _TABLE).read_text(encoding="utf-8"))
    return {f"{section}.{name}" for section, names in table.items() for name in names}


def _sources(root: Path) -> Iterator[Path]:
    yield from sorted((root / "src" / "regard").rglob("*.py"))
    yield from sorted((root / _ROOM).rglob("*.ts*"))
    yield from sorted((root / "tools").glob("*.py"))
    yield from sorted((root / "src" / "regard").rglob("real_head.json"))


def missing_names(root: Path) -> list[str]:
    """Sentences that are said and stand in no table."""
    known = _names(root)
    return [
        f"{path.relative_to(root)}: {name}"
        for path in _sources(root)
        for name in _SAID.findall(path.read_text(encoding="utf-8"))
        if name not in known
    ]


def unused_names(root: Path) -> list[str]:
    """Sentences of the table that nobody says."""
    said = {name for path in _sources(root) for name in _NAME.findall(path.read_text("utf-8"))}
    computed = re.compile("|".join(f"(?:{pattern})" for pattern in _COMPUTED))
    return sorted(name for name in _names(root) - said if not computed.fullmatch(name))


def written_in_page(root: Path) -> list[str]:
    """Words in the room's own sources: in text nodes, attributes and other literals.

    What a learner takes away (`export/`) stays English: code and names for other programs.
    """
    found = []
    for path in sorted((root / _ROOM).rglob("*.ts*")):
        if "export" in path.relative_to(root / _ROOM).parts or path.name == _EXAMPLES:
            continue
        text = _COMMENT.sub(" ", path.read_text(encoding="utf-8"))
        for pattern in (_IMPORT, _CLASSES, _ERROR):
            text = pattern.sub(" ", text)
        found += [f"{path.relative_to(root)}: {words}" for words in _words_in(text)]
    return found


def _words_in(text: str) -> Iterator[str]:
    for literal in _LITERAL.findall(text):
        words = re.sub(r"\$\{[^}]*\}", "…", literal[1:-1])
        if _TONE.fullmatch(words) or words.startswith(_SHELL):
            continue
        if _WORDS.search(words):
            yield words
    if "</" not in text and "/>" not in text:
        return
    bare = _LITERAL.sub('""', text)
    for node in _TEXT_NODE.findall(bare):
        words = " ".join(node.split())
        if _WORDS.search(words) and not _CODE.search(node):
            yield words


def written_in_story(root: Path) -> list[str]:
    """Words in string literals of the narration and its renderers, docstrings excepted."""
    found = []
    for folder in ("story", "render"):
        for path in sorted((root / "src" / "regard" / "learn" / folder).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for words in _literals(tree, docs):
                bare = re.sub(r"<[^>]*>", " ", words)
                if _WORDS.search(bare) and not bare.startswith(_SHELL):
                    found.append(f"{path.relative_to(root)}: {words}")
    return found


def _literals(tree: ast.AST, docs: set[int]) -> Iterator[str]:
    """Every string, an f-string as one with … for its values."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docs and id(node) not in inside:
                yield node.value
