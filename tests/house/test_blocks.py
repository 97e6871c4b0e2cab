"""What the documents show, runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from house.checks import blocks

ROOT = Path(__file__).resolve().parents[2]

DOCUMENT = """# Title

```python
import os
x = 1
```

```text
not looked at
```

```console exit=2
$ regard learn \\
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


@pytest.mark.parametrize(
    "path", blocks.documents(ROOT), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_the_blocks_of_every_document_run(path, tmp_path, clean):
    clean(blocks.failures(path, ROOT / "src", tmp_path))


NEEDED = blocks.needed(ROOT)


@pytest.mark.parametrize("package", NEEDED)
def test_blocks_that_need_a_package_run_where_it_is(package, tmp_path, clean):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    for path in NEEDED[package]:
        clean(blocks.failures(path, ROOT / "src", tmp_path, package))


def test_the_documents_are_sound(repository, clean):
    clean(blocks.unsound(repository))


def test_the_documents_are_found(plant):
    names = ["README.md", "CONTRIBUTING.md", "docs/a.md", "docs/deep/b.md"]
    root = plant(dict.fromkeys([*names, "CHANGELOG.md", "src/SPEC.md"], ""))
    assert [path.relative_to(root).as_posix() for path in blocks.documents(root)] == names


def test_blocks_are_found_with_their_lines():
    found = blocks.blocks(DOCUMENT)
    assert [(b.language, b.flags, b.line) for b in found] == [
        ("python", (), 4),
        ("text", (), 9),
        ("console", ("exit=2",), 13),
        ("python", (), 20),
        ("python", ("no-run",), 25),
    ]
    assert [b.runs for b in found] == [True, False, True, True, False]
    assert found[2].commands == ["regard learn      --json", "make test ARGS=-x"]
    assert found[2].exit_status == 2


def _run(plant, text: str) -> list[str]:
    """Run a document against a fake `regard` that exits with its first argument."""
    fake = "import sys, pathlib\nprint('seen')\nsys.exit(int(sys.argv[1]))\n"
    root = plant({"page.md": text, "regard/__init__.py": "", "regard/__main__.py": fake})
    (root / "empty").mkdir()
    return blocks.failures(root / "page.md", root, root / "empty")


def test_blocks_share_their_names_and_run_in_an_empty_folder(plant, tmp_path):
    text = DOCUMENT.replace("regard learn", "regard 2")
    assert _run(plant, text) == []
    assert (tmp_path / "empty" / "made.txt").exists()


def test_a_failing_block_is_found_at_its_own_line(plant):
    wrong = _run(plant, DOCUMENT.replace("regard learn", "regard 2").replace("x == 1", "x == 2"))
    assert any('"page.md", line 20' in line for line in wrong)
    assert wrong[-1] == "AssertionError"


def test_a_block_that_leaves_the_interpreter_is_found(plant):
    assert _run(plant, "```python\nraise SystemExit(0)\n```\n")[-1] == "SystemExit: 0"


def test_a_process_that_is_killed_is_found(plant):
    kills = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    wrong = _run(plant, f"```python\n{kills}```\n")
    assert wrong == ["page.md: ended with status -9 and without a word"]


def test_a_wrong_exit_status_is_found(plant):
    wrong = _run(plant, "```console\n$ cd x\n$ regard 0 | cat\n$ regard 3 | cat\n```\n")
    assert wrong == ["page.md:2: `regard 3 | cat`: exit 3, not 0", "seen"]
    assert _run_again(plant) == ["page.md:2: `regard 0`: exit 0, not 1", "seen"]


def _run_again(plant) -> list[str]:
    root = plant({"page.md": "```console exit=1\n$ regard 0\n```\n"})
    return blocks.failures(root / "page.md", root, root / "empty")


def test_a_command_that_raises_is_found(plant):
    wrong = _run(plant, "```console\n$ regard x\n```\n")
    assert wrong[0] == "page.md:2: `regard x`: exit 1, not 0"
    assert wrong[-1].startswith("ValueError")


def test_a_block_that_needs_a_package_runs_alone(plant, tmp_path):
    text = "```python\nx = 1\n```\n```python needs=json\nassert 'x' not in globals()\nboom\n```\n"
    root = plant({"docs/page.md": text})
    page = root / "docs" / "page.md"
    assert blocks.needed(root) == {"json": [page]}
    assert blocks.failures(page, ROOT / "src", tmp_path) == []
    wrong = blocks.failures(page, ROOT / "src", tmp_path, "json")
    assert any("NameError: name 'boom'" in line for line in wrong)


def test_unsound_documents_are_found(plant):
    fine = "```python no-run\n# why\n```\n"
    root = plant(
        {
            "Makefile": "VENV := x\ndemo: ready\n\ttouch x\n",
            "README.md": "\n" * 40 + "```python\n```\n",
            "docs/a.md": "```python no-run\nx = 1\n```\n" + fine * 6,
            "docs/deep/b.md": "```console\n$ make demo -j2\n$ make gone\n$ curl x\n$ git x\n```\n",
        }
    )
    assert blocks.unsound(root) == [
        "docs/a.md:2: a no-run block begins with a comment that says why",
        "docs/deep/b.md:2: the Makefile has no target gone",
        "docs/deep/b.md:2: `curl` is not run here; one of regard, make, pip, git, cd",
        "7 blocks are not run; at most 6",
        "README.md shows no usage within its first 40 lines",
    ]


def test_usage_may_be_a_command(plant):
    root = plant({"README.md": "# regard\n\n```console\n$ regard learn x\n```\n"})
    assert blocks.unsound(root) == []
