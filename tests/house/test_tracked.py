"""No file names the machine it was written on."""

from __future__ import annotations

from house.checks import tracked


def test_no_workplace_words(repository, clean):
    clean(tracked.workplace_words(repository))


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
