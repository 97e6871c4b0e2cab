"""What fresh interpreters import, and where public names lead."""

from __future__ import annotations

import pytest

import regard
from house.checks import fresh
from house.checks.source import Sources

HEAVY = ("numpy", "torch", "transformers", "triton")
HELP = "import {}.cli; {}.cli.main()"

LAZY = """
__all__ = ["attend", "gone", "mask", "score"]
def __dir__():
    return ["nowhere", "attend", "mask", "score"]
def __getattr__(name):
    import importlib
    if name in ("attend", "secret", "score"):
        return len
    if name in ("mask", "nn"):
        return importlib.import_module("fake." + name)
    raise AttributeError(f"no {name}")
"""


def test_reading_imports_without_torch(repository, sources, clean):
    clean(fresh.needs_torch(repository, sources))


def test_import_regard_is_light(repository, clean):
    clean(fresh.loads(repository, "import regard", heavy=(*HEAVY, "typer", "rich")))


def test_help_is_light(repository, clean):
    statement = HELP.format("regard", "regard")
    clean(fresh.loads(repository, statement, ("regard", "--help"), heavy=HEAVY))


def test_the_public_names_resolve_and_are_all_there_is(repository, clean):
    clean(fresh.unreached(repository))


def test_what_a_person_types_is_little_and_all_else_is_reached_by_its_name():
    assert len(regard.__all__) <= 20
    assert set(regard.__all__) < set(dir(regard))
    for name in ("ALiBi", "Entropy", "Prefix", "attend_partial", "axes", "divergence", "merge"):
        assert name in dir(regard) and name not in regard.__all__
    for name in ("absent", "__wrapped__", "__main__", "a.b", "errors.absent", ""):
        with pytest.raises(AttributeError, match="module 'regard' has no attribute"):
            getattr(regard, name)


def test_a_reading_module_that_needs_torch_is_found(plant):
    files = {
        "src/regard/__init__.py": "",
        "src/regard/study/__init__.py": "def late():\n    import torch\n",
        "src/regard/study/heads.py": "from torch import nn\n",
        "src/regard/nn/__init__.py": "import torch\n",
    }
    (wrong,) = fresh.needs_torch(plant(files), Sources.of(files))
    assert wrong.startswith("regard.study.heads does not import without torch: ModuleNotFoundError")


def test_a_heavy_import_is_found(plant):
    main = "import sys\ndef main():\n    import colorsys\n    sys.exit(0)\n"
    root = plant({"src/fake/__init__.py": "import json.tool\n", "src/fake/cli.py": main})
    heavy = ("json.tool", "colorsys")
    assert fresh.loads(root, "import fake", heavy=heavy) == ["`import fake` imports json.tool"]
    statement = HELP.format("fake", "fake")
    assert len(fresh.loads(root, statement, ("fake", "--help"), heavy=heavy)) == 2


def test_names_that_lead_nowhere_or_elsewhere_are_found(plant):
    parts = ("mask", "nn", "score", "hidden")
    files = {f"src/fake/{part}/__init__.py": "" for part in parts}
    assert fresh.unreached(plant(files | {"src/fake/__init__.py": LAZY}), "fake") == [
        "fake.gone does not resolve: no gone",
        "fake.nowhere does not resolve: no nowhere",
        "fake.score is both a public name and a submodule",
        "dir(fake) leaves out gone",
        "dir(fake) leaves out nn, which is reachable",
        "dir(fake) leaves out secret, which is reachable",
        "fake.hidden is not reached",
    ]


def test_a_package_without_a_list_is_found(plant):
    root = plant({"src/fake/__init__.py": ""})
    assert fresh.unreached(root, "fake") == ["fake lists no public names"]
