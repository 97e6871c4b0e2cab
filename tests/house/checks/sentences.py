"""The lesson's sentences: each name that is used is in the table, each in the table is used, and
none is written in the sources, where no translation reaches it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Final

from house.checks.source import Source, Sources

_TABLE: Final = "src/regard/learn/languages/en.json"
_ROOM: Final = "web/src/learner"
_NAME: Final = re.compile(r"""["'`]([a-z][a-z_0-9]*\.[a-z][a-z_0-9]*)["'`]""")
_USED: Final = re.compile(
    r"""(?:\b(?:say|phrase|Phrase)\(\s*|<Say\s+name=)["']([a-z][a-z_0-9]*\.[a-z][a-z_0-9]*)["']"""
)
# Names that are put together where they are used, each from a short list in its source.
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


def missing_names(sources: Sources) -> list[str]:
    """Sentences that are used and in no table."""
    known = _names(sources)
    return [
        f"{source.path}: {name}"
        for source in _users(sources)
        for name in _USED.findall(source.text)
        if name not in known
    ]


def unused_names(sources: Sources) -> list[str]:
    """Sentences of the table that nothing uses."""
    used = {name for source in _users(sources) for name in _NAME.findall(source.text)}
    computed = re.compile("|".join(f"(?:{pattern})" for pattern in _COMPUTED))
    return sorted(name for name in _names(sources) - used if not computed.fullmatch(name))


def written_in_page(sources: Sources) -> list[str]:
    """Words in the room's own sources: in text nodes, attributes and other literals.

    What a learner takes away (`export/`) stays English: code and names for other programs.
    """
    wrong = []
    for source in sources.below(_ROOM, ".ts", ".tsx"):
        if "/export/" in source.path or source.path.endswith(f"/{_EXAMPLES}"):
            continue
        text = _COMMENT.sub(" ", source.text)
        for pattern in (_IMPORT, _CLASSES, _ERROR):
            text = pattern.sub(" ", text)
        wrong += [f"{source.path}: {words}" for words in _words_in(text)]
    return wrong


def written_in_story(sources: Sources) -> list[str]:
    """Words in string literals of the narration and its renderers, docstrings excepted."""
    learn = "src/regard/learn"
    return [
        f"{source.path}: {words}"
        for source in (*sources.below(f"{learn}/story"), *sources.below(f"{learn}/render"))
        for words in _literals(source)
        if _WORDS.search(bare := re.sub(r"<[^>]*>", " ", words)) and not bare.startswith(_SHELL)
    ]


def _names(sources: Sources) -> set[str]:
    table = json.loads(sources[_TABLE].text)
    return {f"{section}.{name}" for section, names in table.items() for name in names}


def _users(sources: Sources) -> list[Source]:
    page, tools = sources.below(_ROOM, ".ts", ".tsx"), sources.below("tools")
    return [*sources.package, *page, *tools, *sources.below("src/regard", "real_head.json")]


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


def _literals(source: Source) -> Iterator[str]:
    """Every string, an f-string as one with … for its values."""
    apart = {id(node.value) for node in source.nodes(ast.Expr)}  # docstrings
    for node in source.nodes(ast.JoinedStr):
        apart |= {id(part) for part in node.values}
        parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
        yield "".join(map(str, parts))
    for node in source.nodes(ast.Constant):
        if isinstance(node.value, str) and id(node) not in apart:
            yield node.value
