"""Reading needs no torch; importing regard, or asking for help, needs nothing heavy."""

from __future__ import annotations

from house.checks import spine

HEAVY = ("numpy", "torch", "transformers", "triton")


def test_the_reading_spine_imports_without_torch(package, clean):
    clean(spine.needs_torch(package))


def test_import_regard_is_light(package, clean):
    clean(spine.loads(package, "import regard", heavy=(*HEAVY, "typer", "rich")))


def test_help_is_light(package, clean):
    statement = "import regard.cli; regard.cli.main()"
    clean(spine.loads(package, statement, ("regard", "--help"), heavy=HEAVY))


def test_a_reading_module_that_needs_torch_is_found(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/study/__init__.py": "def late():\n    import torch\n",
            "fake/study/heads.py": "from torch import nn\n",
            "fake/nn/__init__.py": "import torch\n",
        }
    )
    (wrong,) = spine.needs_torch(root / "fake")
    assert wrong.startswith("fake.study.heads does not import without torch: ImportError")


def test_a_heavy_import_is_found(plant):
    root = plant(
        {
            "fake/__init__.py": "import json.tool\n",
            "fake/cli.py": "import sys\ndef main():\n    import colorsys\n    sys.exit(0)\n",
        }
    )
    heavy = ("json.tool", "colorsys")
    assert spine.loads(root / "fake", "import fake", heavy=heavy) == [
        "`import fake` imports json.tool"
    ]
    statement = "import fake.cli; fake.cli.main()"
    assert len(spine.loads(root / "fake", statement, ("fake", "--help"), heavy=heavy)) == 2
