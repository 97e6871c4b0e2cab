"""What only a fresh interpreter can answer: what an import brings in, and what a name leads to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import warm
from house.checks.layers import NUMPY
from house.checks.source import Sources

WITHOUT_TORCH = (*sorted(NUMPY), "cli")

# What the program prints comes before the answer.
FRAME = """
import json, sys
sys.path.insert(0, sys.argv[1])
given = json.loads(sys.argv[2])
{program}
print(json.dumps(answer))
"""

BLOCKED = """
import importlib
sys.modules |= dict.fromkeys(given['blocked'])  # which makes importing them an error
answer = []
for name in given['modules']:
    try:
        importlib.import_module(name)
    except BaseException as error:
        answer.append(f'{name} does not import without torch: {type(error).__name__}: {error}')
"""

LOADED = """
import contextlib
sys.argv = given['argv']
with contextlib.suppress(SystemExit):
    exec(given['statement'])
answer = [name for name in given['heavy'] if name in sys.modules]
"""

# Once a submodule is imported, the attribute of that name is the submodule. So a public name may
# equal a submodule's only if it means the submodule, seen before anything else is imported.
# Other words are tried on the package's own __getattr__, because an attribute that a submodule's
# import left behind is not a promise.
REACHED = """
import importlib, pkgutil, types
package = importlib.import_module(given['package'])
top, listed = given['package'], list(getattr(package, '__all__', ()))
answer = [] if listed else [f"{top} lists no public names"]
parts = [part.name for part in pkgutil.iter_modules(package.__path__) if part.name[0] != '_']
for name in sorted({*dir(package), *listed}):
    try:
        value = getattr(package, name)
    except Exception as error:
        answer.append(f"{top}.{name} does not resolve: {error}")
        continue
    is_part = isinstance(value, types.ModuleType) and value.__name__ == f"{top}.{name}"
    if name in parts and not is_part:
        answer.append(f"{top}.{name} is both a public name and a submodule")
answer += [f"dir({top}) leaves out {name}" for name in listed if name not in dir(package)]
serve = getattr(package, '__getattr__', None)
for name in given['words'] if serve else ():
    try:
        serve(name)
    except (AttributeError, ImportError):
        continue
    if name not in dir(package):
        answer.append(f"dir({top}) leaves out {name}, which is reachable")
answer += [f"{top}.{name} is not reached" for name in parts if not hasattr(package, name)]
"""


def needs_torch(root: Path, sources: Sources, units: tuple[str, ...] = WITHOUT_TORCH) -> list[str]:
    """Modules of the reading side, and of the command line, that cannot be imported alone."""
    names = [source.name for source in sources.package if source.unit in units]
    given = {"modules": names, "blocked": ["torch", "triton", "transformers"]}
    return _ask(BLOCKED, given, root / "src")


def loads(
    root: Path, statement: str, argv: tuple[str, ...] = (), heavy: tuple[str, ...] = ()
) -> list[str]:
    """Which of the heavy modules a statement brings in."""
    given = {"statement": statement, "argv": list(argv), "heavy": list(heavy)}
    return [f"`{statement}` imports {name}" for name in _ask(LOADED, given, root / "src")]


def unreached(root: Path, package: str = "regard") -> list[str]:
    """Names of `__all__` and dir() that do not resolve or hide a submodule; what dir() leaves out,
    of the words of the package's file too; submodules that are not reached by their name."""
    text = (root / "src" / package / "__init__.py").read_text(encoding="utf-8")
    words = sorted(set(re.findall(r"\b[A-Za-z]\w+", text)))
    given = json.dumps({"package": package, "words": words})
    program = FRAME.format(program=REACHED)
    return _answer(warm.run(program, str(root / "src"), given, package=False, timeout=120))


def _ask(program: str, given: Any, path: Path) -> Any:
    """Run a program with `given` as a value; what it leaves in `answer` comes back, as JSON."""
    command = [sys.executable, "-c", FRAME.format(program=program), str(path), json.dumps(given)]
    return _answer(subprocess.run(command, capture_output=True, text=True, timeout=120))


def _answer(done: subprocess.CompletedProcess[str]) -> Any:
    if done.returncode != 0:
        raise RuntimeError(f"the child failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
