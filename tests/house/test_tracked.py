"""LAYOUT.md draws the folders there are; no file tells where it was written."""

from __future__ import annotations

from house.checks import tracked


def test_layout_names_every_folder_and_no_other(repository, clean):
    clean(tracked.undrawn(repository))


def test_no_workplace_words(repository, clean):
    clean(tracked.workplace_words(repository))


def test_folders_are_those_that_hold_files(plant):
    root = plant({"README.md": "", "src/fake/mask/a.py": "", ".gitignore": "build/\n"}, git=True)
    (root / "build").mkdir()
    (root / "build" / "made.txt").write_text("")
    (root / "new").mkdir()
    (root / "new" / "untracked.txt").write_text("")
    assert tracked.folders(root) == ["new/", "src/fake/mask/"]


def test_a_layout_that_differs_is_found(plant):
    root = plant({"src/fake/mask/a.py": "", "tests/test_a.py": ""}, git=True)
    assert tracked.undrawn(root) == ["there is no LAYOUT.md"]
    (root / "LAYOUT.md").write_text("`src/` `src/fake/mask/` `gone/` and tests/ in prose, `x/y`\n")
    assert tracked.undrawn(root) == [
        "LAYOUT.md does not name `tests/`",
        "LAYOUT.md names `gone/`, which is no folder",
    ]


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
    found = tracked.workplace_words(root)
    assert [line.split(":")[0] for line in found] == sorted([*wrong, "new.txt"])
