"""`__all__` equals reality: statically for each package, and by trying for the lazy one."""

from __future__ import annotations

import pytest

from house.checks import child, exports

LAZY = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from fake.engine import hidden
__all__ = ["__version__", "attend", "gone"]
__version__ = "1"
HOMES = {}
_HOMES = {"attend": "fake.engine", "secret": "fake.engine"}
def __dir__():
    return ["nowhere"]
def __getattr__(name):
    import importlib
    if name in ("attend", "secret", "hidden"):
        return getattr(importlib.import_module("fake.engine"), name)
    raise AttributeError(f"no {name}")
"""


def test_every_module_lists_what_it_defines(repository, package, clean):
    clean(exports.unlisted(package) + exports.unlisted(repository / "bench"))


def test_the_public_names_resolve_and_are_all_there_is(package, clean):
    clean(exports.unresolved(package))


def test_a_difference_is_found(plant):
    root = plant(
        {
            "fake/__init__.py": "from fake.good import Thing\nfrom typing import Any\n__all__ = []",
            "fake/good.py": '__all__ = ["Thing"]\nclass Thing:\n    def inner(self): ...\n',
            "fake/bare.py": "def f():\n    pass\n",
            "fake/inner/__init__.py": "__all__ = ['a', 'a', 'c']\nfrom typing import Any\na = 1\n"
            "try:\n    d = 1\nexcept ValueError:\n    e = 2\n",
            "fake/other/__init__.py": "def f():\n    pass\n",
        }
    )
    assert exports.unlisted(root / "fake") == [
        "fake: Thing is public but not in __all__",
        "fake.good has an __all__, which is for packages",
        "fake.inner: __all__ lists a name twice",
        "fake.inner: __all__ lists c, which is not defined there",
        "fake.inner: d is public but not in __all__",
        "fake.inner: e is public but not in __all__",
        "fake.other has no __all__ but defines f",
    ]


def test_a_package_without_a_list_is_found(plant):
    root = plant({"fake/__init__.py": ""})
    assert exports.unresolved(root / "fake") == ["fake lists no public names"]


def test_lazy_names_are_tried(plant):
    root = plant(
        {
            "fake/__init__.py": LAZY,
            "fake/engine.py": "attend = secret = hidden = len\n",
        }
    )
    wrong = exports.unresolved(root / "fake")
    assert "fake.gone does not resolve: no gone" in wrong
    assert "dir(fake) leaves out attend" in wrong
    assert "dir(fake) leaves out secret, which is reachable" in wrong
    assert "dir(fake) leaves out hidden, which is reachable" in wrong
    assert "fake.nowhere is in dir() and does not resolve: no nowhere" in wrong
    assert exports.unlisted(root / "fake") == ["fake: HOMES is public but not in __all__"]


PARTS = """
import importlib, pkgutil
package = importlib.import_module(given['package'])
names = [part.name for part in pkgutil.iter_modules(package.__path__) if part.name[0] != "_"]
answer = [name for name in names if not hasattr(package, name)]
"""


def test_what_a_person_types_is_little_and_all_else_is_reached_by_its_name(package):
    import regard

    assert len(regard.__all__) <= 20
    assert child.ask(PARTS, {"package": package.name}, package.parent) == []
    assert set(regard.__all__) < set(dir(regard))
    for name in ("ALiBi", "Entropy", "Prefix", "attend_partial", "axes", "divergence", "merge"):
        assert name in dir(regard) and name not in regard.__all__
    for name in ("absent", "__wrapped__", "__main__", "a.b", "errors.absent", ""):
        with pytest.raises(AttributeError, match="module 'regard' has no attribute"):
            getattr(regard, name)
