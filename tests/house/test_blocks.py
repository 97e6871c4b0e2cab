"""What the documents show, runs; docs/cli has what --help prints, one page per verb."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from house.checks import blocks
from house.conftest import REPOSITORY

DOCUMENT = """# Title

```python
import os
x = 1
```

```text
not looked at
```

```console exit=2
$ regard 2 \\
    --json
some output
$ make test ARGS=-x
```

```python
assert x == 1
open("made.txt", "w").write("x")
```

```python no-run
# a GPU is needed
boom()
```
"""
KILLED = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
ALONE = "```python\nx = 1\n```\n```python needs=json\nassert 'x' not in globals()\nboom\n```\n"
# a `regard` that exits with its first argument; `view` serves an address until Ctrl-C
FAKE = """
import pathlib, sys, time
if sys.argv[1] == "view":
    try:
        print(sys.argv[2], flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(0)
print("seen")
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "path",
    [path for path in blocks.documents(REPOSITORY) if blocks.chosen(path)],
    ids=lambda path: path.relative_to(REPOSITORY).as_posix(),
)
def test_the_blocks_of_every_document_run(path, tmp_path, clean):
    clean(blocks.failures(path, REPOSITORY / "src", tmp_path))


NEEDED = blocks.needed(REPOSITORY)


@pytest.mark.parametrize("package", NEEDED)
def test_blocks_that_need_a_package_run_where_it_is(package, tmp_path, clean):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    for path in NEEDED[package]:
        clean(blocks.failures(path, REPOSITORY / "src", tmp_path, package))


def test_the_documents_are_sound(repository, clean):
    clean(blocks.unsound(repository))


def test_the_pages_of_the_command_line_equal_its_help(repository):
    """How a difference is found is tested with the tool, in tests/tools/test_cli_pages.py."""
    command = [sys.executable, str(repository / "tools" / "cli_pages.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_page_is_what_a_terminal_shows(repository):
    """The tool renders inside one process; here the command itself prints."""
    page = (repository / "docs" / "cli" / "doctor.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "regard", "doctor", "--help"]
    wide = os.environ | {"COLUMNS": "100"}
    shown = subprocess.run(command, env=wide, capture_output=True, text=True, check=True).stdout
    # `python -m regard` calls itself so; installed, it is `regard`.
    assert shown.strip().replace("python -m regard", "regard") in page


def test_the_documents_and_their_blocks(plant):
    names = ["README.md", "CONTRIBUTING.md", "docs/a.md", "docs/deep/b.md"]
    root = plant(dict.fromkeys([*names, "CHANGELOG.md", "src/SPEC.md"], ""))
    assert [path.relative_to(root).as_posix() for path in blocks.documents(root)] == names
    parsed = blocks.blocks(DOCUMENT)
    assert [(b.language, b.flags, b.line, b.runs) for b in parsed] == [
        ("python", (), 4, True),
        ("text", (), 9, False),
        ("console", ("exit=2",), 13, True),
        ("python", (), 20, True),
        ("python", ("no-run",), 25, False),
    ]
    assert parsed[2].commands == ["regard 2      --json", "make test ARGS=-x"]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        (DOCUMENT.replace("x == 1", "x == 2"), '  File "page.md", line 20', "AssertionError"),
        ("```python\nraise SystemExit(0)\n```\n", "  File", "SystemExit: 0"),
        (f"```python\n{KILLED}```\n", "page.md: ended with status -9 and without a word", None),
        ("```console\n$ cd x\n$ regard 0 | cat\n$ regard 3 | cat\n```\n",
         "page.md:2: `regard 3 | cat`: exit 3, not 0", "seen"),
        ("```console exit=1\n$ regard 0\n```\n", "page.md:2: `regard 0`: exit 0, not 1", "seen"),
        ("```console\n$ regard x\n```\n", "page.md:2: `regard x`: exit 1, not 0", "ValueError"),
        ("```console\n$ regard view http://127.0.0.1:1\n$ regard view no\n```\n",
         "page.md:2: `regard view no`: exit 1, not 0", "no"),
    ],
)  # fmt: skip
def test_a_block_that_fails_is_found_at_its_own_line(plant, text, first, last):
    wrong = _run(plant, text)
    assert any(line.startswith(first) for line in wrong)
    assert last is None or wrong[-1].startswith(last)


def test_blocks_share_their_names_and_run_in_an_empty_folder(plant, tmp_path):
    assert _run(plant, DOCUMENT) == []
    assert (tmp_path / "empty" / "made.txt").exists()


def _run(plant, text: str) -> list[str]:
    root = plant({"page.md": text, "regard/__init__.py": "", "regard/__main__.py": FAKE})
    (root / "empty").mkdir()
    return blocks.failures(root / "page.md", root, root / "empty")


def test_a_block_that_needs_a_package_runs_alone(plant, tmp_path):
    root = plant({"docs/page.md": ALONE})
    page = root / "docs" / "page.md"
    assert blocks.needed(root) == {"json": [page]}
    assert blocks.failures(page, REPOSITORY / "src", tmp_path) == []
    wrong = blocks.failures(page, REPOSITORY / "src", tmp_path, "json")
    assert any("NameError: name 'boom'" in line for line in wrong)


def test_unsound_documents_are_found(plant):
    files = {
        "Makefile": "VENV := x\ndemo: ready\n\ttouch x\n",
        "README.md": "\n" * 40 + "```python\n```\n",
        "docs/a.md": "```python no-run\nx = 1\n```\n" + "```python no-run\n# why\n```\n" * 6,
        "docs/deep/b.md": "```console\n$ make demo -j2\n$ make gone\n$ curl x\n$ git x\n```\n",
    }
    assert blocks.unsound(plant(files)) == [
        "docs/a.md:2: a no-run block begins with a comment that says why",
        "docs/deep/b.md:2: the Makefile has no target gone",
        "docs/deep/b.md:2: `curl` is not run here; one of regard, make, pip, git, cd",
        "7 blocks are not run; at most 6",
        "README.md shows no usage within its first 40 lines",
    ]
    assert blocks.unsound(plant({"README.md": "```console\n$ regard learn x\n```\n"}))[-1] != (
        "README.md shows no usage within its first 40 lines"
    )
