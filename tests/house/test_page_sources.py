"""The page's sources obey the house too; and the checks can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.checks.page_sources import LONGEST, forbidden_words, long_files, upward_imports

WEB = Path(__file__).resolve().parents[2] / "web"


@pytest.fixture
def web(tmp_path):
    """A page of one file each in maths and learner."""
    for unit in ("maths", "learner"):
        (tmp_path / "src" / unit).mkdir(parents=True)
    (tmp_path / "src" / "maths" / "dot.ts").write_text("export const one = 1;\n")
    (tmp_path / "src" / "learner" / "Room.tsx").write_text('import { one } from "../maths/dot";\n')
    return tmp_path


def test_no_file_is_too_long():
    assert long_files(WEB) == []


def test_imports_go_downwards():
    assert upward_imports(WEB) == []


def test_nothing_opens_a_hole():
    assert forbidden_words(WEB) == []


def test_a_long_file_is_seen(web):
    (web / "src" / "maths" / "dot.ts").write_text("\n" * (LONGEST + 1))
    assert long_files(web) == [f"src/maths/dot.ts: {LONGEST + 1} lines; at most {LONGEST}"]


@pytest.mark.parametrize("line", ['import "../learner/Room";', 'await import("../learner/Room")'])
def test_an_upward_import_is_seen(web, line):
    assert upward_imports(web) == []
    (web / "src" / "maths" / "dot.ts").write_text(line)
    assert upward_imports(web) == ["src/maths/dot.ts: maths may not import learner"]


def test_only_types_come_from_outside(web):
    room = web / "src" / "learner" / "Room.tsx"
    room.write_text('import type table from "../../../elsewhere/en.json";\n')
    assert upward_imports(web) == []
    room.write_text('import table from "../../../elsewhere/en.json";\n')
    (wrong,) = upward_imports(web)
    assert "types alone" in wrong


def test_a_hole_is_seen(web):
    (web / "src" / "maths" / "dot.ts").write_text("element.innerHTML = token;\n")
    assert forbidden_words(web) == [
        "src/maths/dot.ts: innerHTML: token text is only ever a text node"
    ]
