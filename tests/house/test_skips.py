"""The ledger of skips is complete, gives conditions, and lists nothing that is gone."""

from __future__ import annotations

from house.checks import skips

LEDGER = """
| test | skipped until |
|---|---|
| `tests/test_a.py::test_known` | torch 3 is out |
| `tests/test_b.py` | |
| `tests/test_gone.py` | never |
"""


def test_every_skip_is_on_the_ledger(repository, clean):
    clean(skips.unlisted(repository / "tests"))


def test_differences_are_found(plant):
    root = plant(
        {
            "tests/SKIPS.md": LEDGER,
            "tests/test_a.py": "import pytest\n"
            "@pytest.mark.skipif(True, reason='x')\ndef test_known(): ...\n"
            "@pytest.mark.parametrize('x', [1])\ndef test_new(x):\n    pytest.skip('y')\n"
            "class TestGroup:\n    @pytest.mark.xfail\n    def test_in(self): ...\n"
            "def test_free():\n    text = 'pytest.skip'\n    iterator.skip(3)\n",
            "tests/test_b.py": "import pytest\ntorch = pytest.importorskip('torch')\n",
            "tests/deep/test_c.py": "from pytest import skip\n",
        }
    )
    assert skips.unlisted(root / "tests") == [
        "tests/deep/test_c.py is not in SKIPS.md",
        "tests/test_a.py::test_new is not in SKIPS.md",
        "tests/test_a.py::TestGroup is not in SKIPS.md",
        "SKIPS.md: tests/test_b.py says no condition",
        "SKIPS.md: tests/test_gone.py skips nothing",
    ]


def test_without_a_ledger_nothing_may_be_skipped(plant):
    root = plant({"tests/test_a.py": "import pytest\npytest.skip(allow_module_level=True)\n"})
    assert skips.unlisted(root / "tests") == ["tests/test_a.py is not in SKIPS.md"]
