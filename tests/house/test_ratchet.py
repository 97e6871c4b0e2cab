"""Rooms, words and names grow only where a row of RATCHET.md says so, and no file names the machine
it was written on."""

from __future__ import annotations

from collections import Counter

from house import ratchet
from house.checks import shape
from house.checks.source import Sources

FILES = {
    "src/regard/mask/base.py": "one, result = 1, 2  # fmt: skip\nclass Base: ...\n",
    "src/regard/mask/kernel.c": "int found;\n",
    "src/regard/score.py": "def f(told):\n    class _Base: ...  # nobody reads it\n",
    "src/regard/hear/base.py": "class Read: ...\n",
    "src/regard/engine/backends/cpu/bind.py": "",
    "src/regard/engine/backends/gpu/deep/bind.py": "",
    "src/regard/other.txt": "\n",
    "src/regard/kv/__init__.py": "from regard.kv.scores import score\n__all__ = ['score']\n",
    "src/regard/drawer/things.py": "class Read: ...\n",
    "tests/mask/test_base.py": "import regard, regard.mask.base\nfrom regard.kv import score, x\n",
    "tests/test_score.py": "from regard.errors import ShapeError, _private\n",
    "tests/warm.py": "from regard.shapes import named, unnamed\n",
    "tests/SKIPS.md": "\n\n",
    "web/src/maths/dot.ts": "one\n",
    "web/src/main.tsx": "one\ntwo\n",
    "web/tests/dot.test.ts": "one\n",
    "docs/page.md": ".. automodule:: regard.errors\nfrom regard.shapes import named\n",
}
COUNTS = {
    "src/engine: lines": 7, "src/engine: files": 6, "src/engine: tokens": 39,
    "src/engine: found, one, told, said": 2,
    "src/capture: lines": 1, "src/capture: files": 1, "src/capture: tokens": 5,
    "src/other: lines": 1, "src/other: files": 1, "src/other: tokens": 5,
    "tests/engine: lines": 3, "tests/engine: files": 2, "tests/engine: tokens": 26,
    "tests/engine: undocumented imports": 3,
    "tests/support: lines": 1, "tests/support: files": 1, "tests/support: tokens": 9,
    "tests/support: undocumented imports": 1,
    "web/lesson: lines": 1, "web/lesson: files": 1, "web/rest: lines": 2, "web/rest: files": 1,
    "src: `# fmt: skip`": 1, "src: nobody, somebody, whoever": 1, "src: the name result": 1,
    "src: classes of another's name": 2, "src: those in the inner rings": 1,
    "src: files of another's name": 1,
}  # fmt: skip


def test_no_room_has_grown(sources, clean):
    allowed = ratchet.read(ratchet.PAGE.read_text(encoding="utf-8"))
    clean(ratchet.exceeded(ratchet.measure(sources), allowed))


def test_what_is_counted():
    assert ratchet.measure(Sources.of(FILES)) == COUNTS


def test_every_count_that_grows_is_found():
    now = Counter(COUNTS)
    page = ratchet.write(now, None)
    assert ratchet.read(page) == now and "| src/engine: lines | 7 | 22500 |" in page
    assert ratchet.exceeded(now, now) == []
    for what, count in COUNTS.items():
        assert ratchet.exceeded(now + Counter([what]), ratchet.read(page)) == [
            f"{what}: {count + 1}, {count} allowed"
        ]


def test_the_command_writes_the_page_downward_alone(plant, monkeypatch, capsys):
    root = plant(FILES)
    page = root / "RATCHET.md"
    monkeypatch.setattr(ratchet, "ROOT", root)
    monkeypatch.setattr(ratchet, "PAGE", page)
    ratchet.main()
    assert ratchet.read(page.read_text()) == COUNTS
    (root / "web/src/main.tsx").write_text("\n" * 3)
    (root / "src/regard/score.py").unlink()
    ratchet.main()
    rows = ratchet.read(page.read_text())
    assert (rows["web/rest: lines"], rows["src/engine: lines"]) == (2, 5)
    assert capsys.readouterr().out.startswith("web/rest: lines: 3, 2 allowed: edit RATCHET.md")


def test_no_workplace_words(repository, clean):
    clean(shape.workplace_words(repository))


def test_workplace_words_are_found(plant):
    wrong = {  # in pieces, lest this file be found
        "a.py": "path = '/wor" + "k/main'\n",
        "b.md": "see /roo" + "t/x\n",
        "c.txt": "http://box.inter" + "nal/x\n",
        "lock.json": '"https://regi' + 'stry.example.com/a.tgz"\n',
        "mirror.md": "https://py" + "pi.example.org/simple\n",
        "pip.conf": "index-url" + " = https://10.0.0.1/simple\n",
        "wheels.conf": "find-links" + "=/opt/wheels\n",
    }
    right = {"fine.md": "/homework/ https://example.com/npm registry = 1\n"}
    root = plant(wrong | right, git=True)
    (root / "new.txt").write_text("/wor" + "k/x\n")
    found = shape.workplace_words(root)
    assert [line.split(":")[0] for line in found] == sorted([*wrong, "new.txt"])
