"""The sources keep the rules of the house, and each rule finds what breaks it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from house.checks import kinds, layers, page_sources, public, sentences, shape
from house.checks.source import Sources

Rule = Callable[[Sources], list[str]]

RULES: tuple[Rule, ...] = (
    layers.misplaced, layers.undrawn,
    layers.outward_imports, layers.implementation_leaks, layers.cycles,
    kinds.class_tests,
    public.unlisted, public.undocumented, public.shadows,
    shape.large_files, shape.wide_lines, shape.large_functions,
    shape.unlisted_skips,
    page_sources.long_files, page_sources.upward_imports, page_sources.forbidden_words,
    sentences.missing_names, sentences.unused_names, sentences.written_in_page,
    sentences.written_in_story,
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """Files that break a rule, below src/regard unless they name another folder, and how."""

    what: str
    rule: Rule
    files: dict[str, str]
    violations: list[str]

    def caught(self) -> list[str]:
        """By the rule."""
        tops = ("src/", "web/", "tests/", "tools/", "bench/", "LAYOUT")
        named = {p if p.startswith(tops) else f"src/regard/{p}": t for p, t in self.files.items()}
        return self.rule(Sources.of(named))


def function(lines: int, name: str = "f", decorator: str = "") -> str:
    return f"{decorator}def {name}():\n" + "    x = 1\n" * (lines - 1)


TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
LAYERS = [
    Fault("a unit without a place", layers.misplaced,
        {"__init__.py": "", "drawer/things.py": "", "errors.py": ""},
        ["regard.drawer.things: 'drawer' is in no ring; place it in one of layers.py"]),
    Fault("a layout that differs", layers.undrawn, {
        "LAYOUT.md": "| `src/regard/` `gone/` | x |\n" * 30 + f"| `tests/each/` | {'x ' * 16} |\n",
        "score.py": "",
        "mask/__init__.py": "",
        "mask/deep/__init__.py": "",
        "tests/each/test_a.py": "",
    }, [
        "LAYOUT.md has no row of src/regard/mask/",
        "LAYOUT.md has a row of gone/, which is no folder",
        "LAYOUT.md has 31 rows; at most 30",
        "LAYOUT.md: 16 words about `tests/each/`; at most 15",
    ]),
    Fault("outward imports", layers.outward_imports, {
        "mask/tile.py": "def f():\n    try:\n        from regard.engine import api\n"
        "    except ImportError:\n        import regard.nn",
        "score.py": f"{TYPED}import regard.nn\n",
        "nn.py": "",
        "state.py": "from . import errors\nfrom .mask import tile\n",
        "errors.py": "from regard import x\n",
        "engine/api.py": "from regard.state import thing\n",
        "running.py": "def f():\n    import regard.state\n",  # numpy alone: no torch
        "study/heads.py": "import regard.recording\nimport regard.engine\n",
        "viewer/app.py": "import regard.draw\nimport regard.views\n",
        **dict.fromkeys((f"{unit}/__init__.py" for unit in ("recording", "draw", "views")), ""),
        "engine/__init__.py": "",
    }, [
        "regard.mask.tile:3: mask may not import engine",
        "regard.mask.tile:5: mask may not import nn",
        "regard.score:3: score may not import nn",
        "regard.errors:1: errors may not import __init__",
        "regard.running:2: running may not import state",
        "regard.study.heads:2: study may not import engine",
        "regard.viewer.app:1: viewer may not import draw",
    ]),
    Fault("backends that know each other", layers.implementation_leaks, {
        "engine/__init__.py": "",
        "engine/api.py": "from regard.engine.plan import pick\n",
        "engine/plan.py": "import regard.engine.backends.dense\n"
        "def pick():\n    from regard.engine.backends import gpu\n",
        "engine/backends/dense.py": "from regard.engine.backends.tiled import loop\n",
        "engine/backends/tiled.py": "def f():\n    import regard.engine.api\n",
        "engine/backends/gpu/__init__.py": "",
        "engine/backends/gpu/tile.py": "from regard.engine.backends.gpu import shared\n",
        "engine/backends/gpu/shared.py": "",
        "nn/__init__.py": "from regard.engine.backends.gpu.tile import kernel\n",
        "testing/__init__.py": "from regard.engine.backends.dense import steps\n",
    }, [
        "regard.engine.plan:1: import engine.backends.dense inside a function",
        "regard.engine.backends.dense:1: only engine/plan.py knows engine.backends.tiled",
        "regard.engine.backends.tiled:2: an implementation may not import api",
        "regard.nn:1: only engine/plan.py knows engine.backends.gpu",
    ]),
    Fault("circles of modules, not for types, and of units, also when lazy", layers.cycles, {
        "mask/__init__.py": "from regard.mask.a import x\n",
        "mask/a.py": "from regard.mask import x\n",
        "score.py": f"{TYPED}import regard.shapes\n",
        "shapes.py": "import regard.score\n",
        "nn/__init__.py": "def f():\n    import regard.models\n",
        "models.py": "import regard.nn\n",
    }, [
        "import cycle: regard.mask → regard.mask.a → regard.mask",
        "import cycle: nn → models → nn",
    ]),
]  # fmt: skip

MASKS = """
class Mask: ...
class Causal(Mask):
    def same(self, other): return isinstance(other, Causal)
class Window(Mask): ...
class Rare(Window): ...
"""
TESTED = {
    "isinstance(x, Causal)": "Causal",
    "isinstance(x, int | Causal)": "Causal",
    "isinstance(x, (int, Window))": "Window",
    "isinstance(x, masks.Rare)": "Rare",
    "issubclass(type(x), Causal)": "Causal",
    "type(x) is Causal": "Causal",
    "type(x) in (Causal, int)": "Causal",
    "isinstance(x, BANDS)": "Window",
    "{Causal: 1}[type(x)]": "Causal",
    "{Causal: 1}.get(type(x))": "Causal",
    "isinstance(x, Mask)": "",
    "x == Causal()": "",
    "x in (Causal(), Window())": "",
    "Causal(x)": "",
    "[Causal]": "",
}
IMPORTED = "from regard.masks import Causal, Mask, Window\nBANDS = (Window,)\n"
MATCHED = "from .masks import Causal as C\ndef f(x):\n    match x:\n        case C(): return 1\n"
KERNEL = "from regard.masks import Causal\ndef f(x): return isinstance(x, Causal)\n"
ALLOWED = {"kernel.py": "reads causal masks", "gone.py": "did once"}
no_table = partial(kinds.class_tests, allowed={})
KINDS = [
    Fault(text, no_table,
        {"masks.py": MASKS, "use.py": f"{IMPORTED}def f(x): return {text}\n"},
        [f"use.py:3: a test for the class {name}; test what it declares"] if name else [],
    )
    for text, name in TESTED.items()
] + [
    Fault("a pattern under a name of its own", no_table, {"masks.py": MASKS, "use.py": MATCHED},
        ["use.py:4: a test for the class Causal; test what it declares"]),
    Fault("a table that is none", partial(kinds.class_tests, allowed=ALLOWED),
        {"masks.py": MASKS, "kernel.py": KERNEL},
        ["gone.py tests for no class: it needs no exception"]),
    Fault("another class of the same name", no_table,
        {"masks.py": MASKS, "use.py": "class Causal: ...\ndef f(x): return isinstance(x, Causal)"},
        []),
]  # fmt: skip

THING = '''
class Base:
    def size(self):
        """Documented."""

class Thing(Base):
    def size(self): ...
    def method(self): ...
    def _hidden(self): ...
    @property
    def length(self):
        """Documented."""
    @length.setter
    def length(self, value): ...

def function(): ...
def inner(): ...
'''
PUBLIC = [
    Fault("lists and definitions that differ", public.unlisted, {
        "__init__.py": "from regard.good import Thing\nfrom typing import Any\n__all__ = []",
        "good.py": '__all__ = ["Thing"]\nclass Thing:\n    def inner(self): ...\n',
        "bare.py": "def f():\n    pass\n",
        "inner/__init__.py": "__all__ = ['a', 'a', 'c']\nfrom typing import Any\na = 1\n"
        "try:\n    d = 1\nexcept ValueError:\n    e = 2\n",
        "lazy/__init__.py": "__all__ = ['late']\nHOMES = 1\ndef __getattr__(name): ...\n",
        "bench/other/__init__.py": "def f():\n    pass\n",
    }, [
        "regard: Thing is public but not in __all__",
        "regard.good has an __all__, which is for packages",
        "regard.inner: __all__ lists a name twice",
        "regard.inner: __all__ lists c, which is not defined there",
        "regard.inner: d is public but not in __all__",
        "regard.inner: e is public but not in __all__",
        "regard.lazy: HOMES is public but not in __all__",
        "bench.other has no __all__ but defines f",
    ]),
    Fault("exports without a docstring", public.undocumented, {
        "nn/__init__.py": "from regard.nn.thing import Thing, function\n"
        "__all__ = ['Thing', 'function']",
        "nn/thing.py": THING,
    }, [
        "regard.nn.thing.Thing has no docstring",
        "regard.nn.thing.Thing.method has no docstring",
        "regard.nn.thing.function has no docstring",
    ]),
    Fault("folders called like modules", public.shadows, {
        "__init__.py": "import triton\nimport regard.mask\n",
        "engine/triton/__init__.py": "",
        "inspect/__init__.py": "",
        "mask/__init__.py": "",
        "vllm/__init__.py": "import vllm",
        "tests/json/test_x.py": "",
        "tests/mine/test_x.py": "",
    }, [
        "src/regard/engine/triton shadows the module triton",
        "src/regard/inspect shadows the module inspect",
        "tests/json shadows the module json",
    ]),
]  # fmt: skip

SHAPE = [
    Fault("long files", shape.large_files,
        {"a.py": "x = 1\n" * 601, "b.py": "x = 1\n" * 600, "tests/test_a.py": "\n" * 601},
        [
        "src/regard/a.py has 601 lines; at most 600",
        "tests/test_a.py has 601 lines; at most 600",
    ]),
    Fault("wide lines of C", shape.wide_lines, {"b.c": "é" * 100 + "\n" + "é" * 101},
        ["src/regard/b.c:2 has 101 columns"]),
    Fault("long functions", shape.large_functions,
        {"a.py": "".join(function(46, f"f{n}") for n in range(4))},
        [
        "the median function has 46 lines; at most 10",
        "p90 is 46 lines; at most 45. The longest: regard.a.f0 (46), regard.a.f1 (46), "
        "regard.a.f2 (46), regard.a.f3 (46)",
    ]),
    Fault("one long function in twenty", shape.large_functions,
        {"a.py": function(5) * 19 + function(90) + f'def f():\n    """{chr(10) * 90}"""\n'}, []),
    Fault("long kernels", shape.large_functions, {
        "engine/backends/gpu/forward.py": function(160) + function(161, "g"),
        "engine/backends/tiled.py": function(162, "k", "@triton.jit\n"),
    }, [
        "kernel regard.engine.backends.gpu.forward.g has 161 lines",
        "kernel regard.engine.backends.tiled.k has 162 lines",
    ]),
]  # fmt: skip

LEDGER = """
| test | skipped until |
|---|---|
| `tests/test_a.py::test_known` | torch 3 is out |
| `tests/test_b.py` | |
| `tests/test_gone.py` | never |
"""
SKIPPING = """
import pytest
@pytest.mark.skipif(True, reason='x')
def test_known(): ...
@pytest.mark.parametrize('x', [1])
def test_new(x):
    pytest.skip('y')
class TestGroup:
    @pytest.mark.xfail
    def test_in(self): ...
def test_free():
    text = 'pytest.skip'
    iterator.skip(3)
"""
SKIPS = [
    Fault("a ledger that differs", shape.unlisted_skips, {
        "tests/SKIPS.md": LEDGER,
        "tests/test_a.py": SKIPPING,
        "tests/test_b.py": "import pytest\ntorch = pytest.importorskip('torch')\n",
        "tests/deep/test_c.py": "from pytest import skip\n",
    }, [
        "tests/test_a.py::test_new is not in tests/SKIPS.md",
        "tests/test_a.py::TestGroup is not in tests/SKIPS.md",
        "tests/deep/test_c.py is not in tests/SKIPS.md",
        "tests/SKIPS.md: tests/test_b.py has no condition",
        "tests/SKIPS.md: tests/test_gone.py skips nothing",
    ]),
    Fault("no ledger", shape.unlisted_skips,
        {"tests/test_a.py": "import pytest\npytest.skip(allow_module_level=True)\n"},
        ["tests/test_a.py is not in tests/SKIPS.md"]),
]  # fmt: skip

DOT, ROOM = "web/src/maths/dot.ts", "web/src/learner/Room.tsx"
UPWARD = f"{DOT}: maths may not import learner"
PAGE = [
    Fault("a long file", page_sources.long_files, {DOT: "\n" * 401, ROOM: "\n" * 400},
          [f"{DOT}: 401 lines; at most 400"]),
    Fault("a long file written by a tool", page_sources.long_files,
          {DOT: "// Written by a tool\n" + "\n" * 401}, []),
    Fault("an upward import", page_sources.upward_imports, {DOT: 'import "../learner/Room";'},
          [UPWARD]),
    Fault("a late upward import", page_sources.upward_imports,
          {DOT: 'await import("../learner/Room")'}, [UPWARD]),
    Fault("a downward import", page_sources.upward_imports,
          {ROOM: 'import { dot } from "../maths/dot";\n'}, []),
    Fault("types from outside", page_sources.upward_imports,
          {ROOM: 'import type table from "../../../elsewhere/en.json";\n'}, []),
    Fault("values from outside", page_sources.upward_imports,
          {ROOM: 'import table from "../../../elsewhere/en.json";\n'},
          [f"{ROOM}: ../../../elsewhere/en.json is outside: types alone come from there"]),
    Fault("a hole", page_sources.forbidden_words, {DOT: "element.innerHTML = token;\n"},
          [f"{DOT}: innerHTML: token text is only ever a text node"]),
]  # fmt: skip

TABLE, STORY = "src/regard/learn/languages/en.json", "src/regard/learn/story/made.py"
LESSON = {
    TABLE: json.dumps({"story": {"title": "All of it"}, "page": {"title": "All of it"}}),
    STORY: '"""A doc string."""\nsay("story.title")\n',
    ROOM: '<p class="one two">{say("page.title")}</p>; // a comment of words\n',
}
WORDS = {
    "<p>Rows are tokens; columns are not.</p>": "Rows are tokens; columns are not.",
    "<p>\n  The row of\n <b>{name}</b></p>": "The row of",
    "<p>{count} numbers changed</p>": "numbers changed",
    '<button title="Dark or light" />': "Dark or light",
    '<nav aria-label="All steps" />': "All steps",
    '<input placeholder="Type a number" />': "Type a number",
    "<svg aria-label={`The query of ${name}`} />": "The query of …",
    'const WORDS = ["what a token asks"];': "what a token asks",
}
NO_WORDS = (
    "<p>softmax(Q Kᵀ / √d_k)</p>",
    "const d = { w_q: 1 } as const;",
    'throw new Error("no such sentence");',
    "<code>{COMMAND}</code>",
    'const COMMAND = "regard learn";',
    'import { one } from "../some where";',
)


def lesson(path: str, line: str) -> dict[str, str]:
    """The lesson with another line in one of its files."""
    return LESSON | {path: f"{LESSON[path]}{line}\n"}


SENTENCES = [
    *(Fault("the lesson", rule, LESSON, []) for rule in RULES[-4:]),
    Fault("a name without a sentence", sentences.missing_names,
          lesson(ROOM, '<Say name="page.nothing" />'), [f"{ROOM}: page.nothing"]),
    Fault("another", sentences.missing_names, lesson(STORY, 'say("story.nothing", count=1)'),
          [f"{STORY}: story.nothing"]),
    Fault("an unused sentence", sentences.unused_names, LESSON | {STORY: ""}, ["story.title"]),
    *(Fault(line, sentences.written_in_page, lesson(ROOM, line), [f"{ROOM}: {words}"])
      for line, words in WORDS.items()),
    *(Fault(line, sentences.written_in_page, lesson(ROOM, line), []) for line in NO_WORDS),
    Fault("words in the story", sentences.written_in_story,
          lesson(STORY, 'why = "Scores become shares."'), [f"{STORY}: Scores become shares."]),
    Fault("a value among words", sentences.written_in_story,
          lesson(STORY, 'why = f"the row of {name}"'), [f"{STORY}: the row of …"]),
]  # fmt: skip

FAULTS = [*LAYERS, *KINDS, *PUBLIC, *SHAPE, *SKIPS, *PAGE, *SENTENCES]


def name_of(rule: Rule) -> str:
    inner = getattr(rule, "func", rule)
    return f"{inner.__module__.rpartition('.')[2]}.{inner.__name__}"


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_the_sources_keep_the_rule(rule, sources, clean):
    clean(rule(sources))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{name_of(fault.rule)}: {fault.what}")
def test_what_breaks_a_rule_is_found(fault):
    assert fault.caught() == fault.violations


def test_every_rule_can_fail():
    assert {name_of(f.rule) for f in FAULTS if f.violations} == {name_of(rule) for rule in RULES}


def test_the_first_lines_of_the_layout_name_the_rings(sources):
    first = sources["LAYOUT.md"].text.splitlines()[:10]
    named = [line for line in first if re.match(r"\d\. ", line)]
    assert len(named) == len(layers.RINGS)
    for line, (numpy, torch) in zip(named, layers.RINGS, strict=True):
        units = {name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", line)}
        assert units, line
        assert units <= {*numpy, *torch, "regard"}, line


def test_violations_are_listed_one_by_one(clean):
    clean([])
    with pytest.raises(pytest.fail.Exception, match="2 violations:\nfirst\nsecond"):
        clean(["first", "second"])
