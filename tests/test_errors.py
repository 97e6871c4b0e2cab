"""The error family: drawn, listed, catchable the Python way, one exit status each."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard import errors

FAMILY = [
    (name, member)
    for name, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, errors.RegardError)
]

PARENTS = {
    "InputError": ValueError,
    "ShapeError": ValueError,
    "DTypeError": TypeError,
    "DeviceError": ValueError,
    "UnavailableError": RuntimeError,
    "MissingExtraError": ImportError,
    "StaleError": RuntimeError,
    "GradientError": RuntimeError,
    "TooLargeError": MemoryError,
    "FileError": OSError,
}


def test_every_error_is_of_the_family_and_listed():
    assert {name for name, _ in FAMILY} == {*PARENTS, "RegardError"}
    defined = {name for name, one in vars(errors).items() if isinstance(one, type)}
    assert {*PARENTS, "RegardError", "RegardWarning"} == defined


@pytest.mark.parametrize(("name", "parent"), PARENTS.items())
def test_errors_are_caught_by_pythons_own_names(name, parent):
    assert issubclass(getattr(errors, name), parent)


def test_exit_statuses():
    """2 for a request that cannot be served, 3 for a bad file, 1 for the rest."""
    statuses = {name: member.exit_code for name, member in FAMILY}
    two = {"InputError", "ShapeError", "DTypeError", "DeviceError"}
    two |= {"UnavailableError", "MissingExtraError"}
    assert {name for name, status in statuses.items() if status == 2} == two
    assert {name for name, status in statuses.items() if status == 3} == {"FileError"}
    assert set(statuses.values()) == {1, 2, 3}


def test_unavailable_prints_every_reason():
    reasons = {"gpu": ["no GPU", "no triton"], "cpu": ["no compiler"]}
    error = errors.UnavailableError("nothing can serve this:", reasons)
    assert str(error) == "nothing can serve this:\n  gpu: no GPU; no triton\n  cpu: no compiler"
    assert error.reasons == reasons
    assert errors.UnavailableError("just so").reasons == {}
    assert str(errors.UnavailableError("just so")) == "just so"


def test_a_missing_extra_says_how_to_install_it():
    error = errors.MissingExtraError("regard.attend", "torch", "torch")
    assert str(error) == (
        "regard.attend needs the package 'torch', which is not installed; "
        "install it with: pip install 'regard[torch]'"
    )


def test_what_a_missing_extra_says_needs_no_index_for_regard_itself():
    """pip keeps the regard that is installed, from a clone or from an index, and takes the extra's
    packages alone; here they are installed as well, so that nothing at all is asked of an index."""
    (named,) = re.findall(
        "pip install '(.*)'", str(errors.MissingExtraError("x", "torch", "torch"))
    )
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", named]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


@pytest.mark.parametrize(
    "error",
    [
        *(member("words") for name, member in FAMILY if name != "MissingExtraError"),
        errors.UnavailableError("nothing:", {"gpu": ["no GPU"]}),
        errors.MissingExtraError("x", "torch", "torch"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error):
    """Data loaders and pools hand errors over by pickling them."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


_PRIVATE = re.compile(r"(?<![\w.*])_[a-z]\w*")


def _private_names(source: str) -> list[str]:
    """Names that begin with one underscore, in sentences of the code: texts with a space that are
    no docstrings, and names of private functions that an f-string asks for."""
    tree, names = ast.parse(source), []
    plain = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            names += [] if id(node) in plain else _PRIVATE.findall(node.value)
        if isinstance(node, ast.FormattedValue):
            for asked in ast.walk(node):
                if isinstance(asked, ast.Attribute) and asked.attr in ("__name__", "__qualname__"):
                    names += _PRIVATE.findall(ast.unparse(asked.value).partition("(")[0])
    return names


def test_no_sentence_names_what_is_private():
    root = Path(errors.__file__).parent
    wrong = {path.name: _private_names(path.read_text()) for path in root.rglob("*.py")}
    assert {name: names for name, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        'raise InputError(f"it cannot be _read_first: {text}")',
        'warnings.warn("see _parsed")',
        'raise InputError(f"{_parsed.__name__} failed")',
    ],
)
def test_a_private_name_is_seen(line):
    assert _private_names(f'def f():\n    "_fine here"\n    {line}\n') != []
