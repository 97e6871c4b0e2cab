"""Whoever looks for the tests of a folder finds them under the same name."""

from __future__ import annotations

from house.checks import mirror


def test_every_folder_and_module_has_its_tests(repository, package, clean):
    clean(mirror.unmirrored(package, repository / "tests"))


def test_missing_tests_are_found(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/errors.py": "",
            "fake/score.py": "",
            "fake/mask/tile.py": "",
            "fake/engine/api.py": "",
            "fake/engine/cpu/rows.py": "",
            "fake/engine/gpu/rows.py": "",
            "fake/nn/block.py": "",
            "tests/test_errors.py": "",
            "tests/test_mask.py": "",
            "tests/engine/test_api.py": "",
            "tests/engine/test_cpu_rows.py": "",
            "tests/nn/helpers.py": "",
        }
    )
    assert mirror.unmirrored(root / "fake", root / "tests") == [
        "fake/engine/gpu has no tests in tests/engine/gpu",
        "fake/mask has no tests in tests/mask",
        "fake/nn has no tests in tests/nn",
        "fake/score.py has no tests/test_score.py",
    ]
