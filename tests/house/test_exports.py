"""`__all__` equals reality: statically for each package, and by trying for the lazy one."""

from __future__ import annotations

from house.checks import exports

LAZY = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from fake.engine import hidden
__all__ = ["__version__", "attend", "gone"]
__version__ = "1"
HOMES = {}
_HOMES = {"attend": "fake.engine", "secret": "fake.engine"}
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
    assert "fake.secret is reachable but not in __all__" in wrong
    assert "fake.hidden is reachable but not in __all__" in wrong
    assert exports.unlisted(root / "fake") == ["fake: HOMES is public but not in __all__"]
