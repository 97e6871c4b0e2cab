"""No public name hides a submodule; no folder hides a module; no class has another's name."""

from __future__ import annotations

from house.checks import names

LAZY = """
__all__ = ["attend", "nn", "score"]
def __getattr__(name):
    import importlib
    if name == "nn":
        return importlib.import_module("fake.nn")
    return len
"""


def test_no_public_name_hides_a_submodule(package, clean):
    clean(names.collisions(package))


def test_no_folder_shadows_a_module(repository, package, clean):
    clean(names.shadows(package, (repository / "tests",)))


def test_no_class_has_the_name_of_another(package, clean):
    clean(names.twice(package))


def test_a_function_called_like_a_submodule_is_found(plant):
    root = plant(
        {
            "fake/__init__.py": LAZY,
            "fake/attend/__init__.py": "",
            "fake/nn/__init__.py": "",
            "fake/score.py": "",
        }
    )
    assert names.collisions(root / "fake") == [
        "fake.attend is both a public name and a submodule",
        "fake.score is both a public name and a submodule",
    ]


def test_shadowing_folders_are_found(plant):
    root = plant(
        {
            "fake/__init__.py": "import triton\nimport fake.mask\n",
            "fake/engine/triton/__init__.py": "",
            "fake/inspect/__init__.py": "",
            "fake/mask/__init__.py": "",
            "tests/json/test_x.py": "",
            "tests/fake/test_x.py": "",
        }
    )
    assert names.shadows(root / "fake", (root / "tests",)) == [
        "fake/engine/triton shadows the module triton",
        "fake/inspect shadows the module inspect",
        "tests/json shadows the module json",
    ]


def test_two_classes_of_one_name_are_found(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/engine/plan.py": "class Plan:\n    class Step: ...\n",
            "fake/nn/block.py": "def f():\n    class _Plan: ...\n",
            "fake/mask.py": "class Mask: ...\n",
            "fake/viewer/plan.py": "class Plan: ...\nclass Mask: ...\n",  # the reading side
        }
    )
    assert names.twice(root / "fake") == [
        "Plan names 2 classes: fake.engine.plan:1, fake.nn.block:2"
    ]
