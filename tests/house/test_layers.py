"""Imports go inwards, without circles, and the engine's implementations stay apart."""

from __future__ import annotations

import re

from house.checks import layers


def test_every_module_has_its_place(package, clean):
    clean(layers.misplaced(package))


def test_imports_go_inwards(package, clean):
    clean(layers.outward_imports(package))


def test_only_plan_knows_the_implementations(package, clean):
    clean(layers.implementation_leaks(package))


def test_no_import_cycles(package, clean):
    clean(layers.cycles(package))


def test_the_rings_say_what_the_design_says():
    may = layers.may_import()
    core, engine, models, showing, door = ({*numpy, *torch} for numpy, torch in layers.RINGS)
    assert may["attention"] == core & layers.NUMPY and may["state"] == core
    assert may["engine"] == core | engine >= {"nn"}
    assert may["recorder"] == core | engine | models >= {"recording"}
    assert may["check"] == {"check", "errors", "display"}
    for reading in ("learn", "recording", "study", "viewer"):
        assert may[reading] <= layers.NUMPY
    assert may["cli"] == core | engine | models | showing | door


def test_the_first_lines_of_the_layout_name_the_rings(repository):
    first = (repository / "LAYOUT.md").read_text(encoding="utf-8").splitlines()[:10]
    named = [line for line in first if re.match(r"\d\. ", line)]
    assert len(named) == len(layers.RINGS)
    for line, (numpy, torch) in zip(named, layers.RINGS, strict=True):
        units = {name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", line)}
        assert units, line
        assert units <= {*numpy, *torch, "regard"}, line


def test_an_unknown_module_must_be_placed(plant):
    root = plant({"fake/__init__.py": "", "fake/drawer/things.py": "", "fake/errors.py": ""})
    (wrong,) = layers.misplaced(root / "fake")
    assert "fake.drawer.things" in wrong and "place it" in wrong


def test_an_outward_import_is_found_even_inside_a_function_or_for_types(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/mask/__init__.py": "",
            "fake/mask/tile.py": "def f():\n    from fake.engine import api\n",
            "fake/score.py": "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import fake.nn\n",
            "fake/nn.py": "",
            "fake/state.py": "from . import errors\nfrom .mask import tile\n",
            "fake/errors.py": "",
            "fake/engine/__init__.py": "",
            "fake/engine/api.py": "from fake.state import thing\n",
        }
    )
    assert layers.outward_imports(root / "fake") == [
        "fake.mask.tile:2: mask may not import engine",
        "fake.score:3: score may not import nn",
    ]


def test_reading_must_not_import_making(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/recording/__init__.py": "",
            "fake/recorder/__init__.py": "import fake.recording\n",
            "fake/study/__init__.py": "import fake.recording\nimport fake.engine\n",
            "fake/engine/__init__.py": "",
        }
    )
    assert layers.outward_imports(root / "fake") == ["fake.study:2: study may not import engine"]


def test_whoever_draws_imports_nobody_else_who_does(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/viewer/__init__.py": "import fake.draw\nimport fake.views\n",
            "fake/draw/__init__.py": "",
            "fake/views/__init__.py": "",
        }
    )
    assert layers.outward_imports(root / "fake") == ["fake.viewer:1: viewer may not import draw"]


def test_the_package_itself_is_above_its_parts(plant):
    root = plant({"fake/__init__.py": "x = 1\n", "fake/errors.py": "from fake import x\n"})
    assert layers.outward_imports(root / "fake") == [
        "fake.errors:1: errors may not import __init__"
    ]


def test_leaks_of_implementations_are_found(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/engine/__init__.py": "",
            "fake/engine/api.py": "from fake.engine.plan import pick\n",
            "fake/engine/plan.py": "import fake.engine.backends.dense\n"
            "def pick():\n    from fake.engine import gpu\n",
            "fake/engine/backends/dense.py": "from fake.engine.backends.tiled import loop\n",
            "fake/engine/backends/tiled.py": "def f():\n    import fake.engine.api\n",
            "fake/engine/backends/gpu/__init__.py": "",
            "fake/engine/backends/gpu/forward.py": "from fake.engine.backends.gpu import shared\n",
            "fake/engine/backends/gpu/shared.py": "",
            "fake/nn/__init__.py": "from fake.engine.backends.gpu.forward import kernel\n",
            "fake/testing/__init__.py": "from fake.engine.backends.dense import steps\n",
        }
    )
    assert layers.implementation_leaks(root / "fake") == [
        "fake.engine.backends.dense:1: only engine/plan.py knows engine.backends.tiled",
        "fake.engine.backends.tiled:2: an implementation may not import api",
        "fake.engine.plan:1: import engine.backends.dense inside a function",
        "fake.nn:1: only engine/plan.py knows engine.backends.gpu",
    ]


def test_cycles_are_found_and_type_imports_are_not_cycles(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/mask/__init__.py": "from fake.mask.a import x\n",
            "fake/mask/a.py": "from fake.mask.b import y\n",
            "fake/mask/b.py": "from fake.mask import a\n",
            "fake/score.py": "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import fake.shapes\n",
            "fake/shapes.py": "import fake.score\n",
        }
    )
    assert layers.cycles(root / "fake") == ["import cycle: fake.mask.a → fake.mask.b → fake.mask.a"]


def test_a_part_that_asks_its_own_package_for_a_name_is_a_cycle(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/mask/__init__.py": "from fake.mask.a import x\n",
            "fake/mask/a.py": "from fake.mask import x\n",
        }
    )
    assert layers.cycles(root / "fake") == ["import cycle: fake.mask → fake.mask.a → fake.mask"]


def test_lazy_imports_may_not_hide_a_circle_of_units(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/nn/__init__.py": "def f():\n    import fake.models\n",
            "fake/models.py": "import fake.nn\n",
        }
    )
    assert layers.cycles(root / "fake") == ["import cycle: models → nn → models"]


def test_within_a_ring_what_runs_on_numpy_alone_imports_only_its_like(plant):
    root = plant(
        {
            "fake/__init__.py": "",
            "fake/score.py": "def f():\n    import fake.state\n",
            "fake/state.py": "import fake.score\n",
        }
    )
    wrong = layers.outward_imports(root / "fake")
    assert wrong == ["fake.score:2: score may not import state"]
