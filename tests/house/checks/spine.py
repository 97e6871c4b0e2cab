"""What is imported when: the reading spine without torch, the package without anything heavy."""

from __future__ import annotations

from pathlib import Path

from house.checks.child import ask
from house.checks.layers import NUMPY
from house.checks.source import modules

WITHOUT_TORCH = (*sorted(NUMPY), "cli")

BLOCKED = """
import importlib, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in given['blocked']:
            raise ImportError(f'{name} is blocked')
sys.meta_path.insert(0, Blocker())
answer = []
for name in given['modules']:
    try:
        importlib.import_module(name)
    except BaseException as error:
        answer.append(f'{name} does not import without torch: {type(error).__name__}: {error}')
"""

LOADED = """
import contextlib, sys
sys.argv = given['argv']
with contextlib.suppress(SystemExit):
    exec(given['statement'])
answer = [name for name in given['heavy'] if name in sys.modules]
"""


def needs_torch(package: Path, units: tuple[str, ...] = WITHOUT_TORCH) -> list[str]:
    """Modules of the reading side, and of the command line, that cannot be imported alone."""
    names = [module.name for module in modules(package) if module.unit in units]
    given = {"modules": names, "blocked": ["torch", "triton", "transformers"]}
    return ask(BLOCKED, given, package.parent)


def loads(
    package: Path, statement: str, argv: tuple[str, ...] = (), heavy: tuple[str, ...] = ()
) -> list[str]:
    """Which of the heavy modules a statement brings in."""
    given = {"statement": statement, "argv": list(argv), "heavy": list(heavy)}
    return [f"`{statement}` imports {name}" for name in ask(LOADED, given, package.parent)]
