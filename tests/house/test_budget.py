"""Files, functions and lines stay small; tests stay at least as long as what they test."""

from __future__ import annotations

import ast

import pytest

from house.checks import budget


def test_files_are_small(package, clean):
    clean(budget.large_files(package))


def test_functions_are_short(package, clean):
    clean(budget.large_functions(package))


def test_lines_fit_the_columns(repository, package, clean):
    clean(budget.wide_lines(package, *(repository / name for name in ("bench", "tests", "tools"))))


def test_there_is_as_much_test_as_source(repository, package, clean):
    clean(budget.too_few_tests(package, repository / "tests"))


def test_long_files_are_found(plant):
    root = plant({"fake/a.py": "x = 1\n" * 601, "fake/b.py": "x = 1\n" * 149})
    assert budget.large_files(root / "fake") == [
        "fake/a.py has 601 lines; at most 600",
        "the median file has 375 lines; at most 150",
    ]


def _function(lines: int, name: str = "f", decorator: str = "") -> str:
    return f"{decorator}def {name}():\n" + "    x = 1\n" * (lines - 1)


def test_long_functions_are_found(plant):
    root = plant({"fake/a.py": "".join(_function(46, f"f{n}") for n in range(4))})
    median, p90 = budget.large_functions(root / "fake")
    assert median == "the median function has 46 lines; at most 10"
    assert p90.startswith("p90 is 46 lines; at most 45. The longest: fake.a.f0 (46)")


def test_one_long_function_in_twenty_is_no_matter(plant):
    root = plant({"fake/a.py": "".join(_function(5) for _ in range(19)) + _function(90)})
    assert budget.large_functions(root / "fake") == []


def test_kernels_have_a_budget_of_their_own(plant):
    root = plant(
        {
            "fake/engine/backends/gpu/forward.py": _function(160) + _function(161, "g"),
            "fake/engine/backends/tiled.py": _function(162, "k", "@triton.jit\n"),
        }
    )
    assert budget.large_functions(root / "fake") == [
        "kernel fake.engine.backends.gpu.forward.g has 161 lines",
        "kernel fake.engine.backends.tiled.k has 162 lines",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f(): ...", 1),
        ("def f():\n    return 1", 2),
        ('def f():\n    """One."""\n    return 1', 2),
        ('def f(\n    a,\n):\n    """One.\n\n    Two.\n    """\n    # reason\n    return 1', 4),
        ('def f():\n    """Only words.\n    """', 3),
        ('def f():\n    """W."""\n    @d\n    def g(): ...\n    return g', 4),
    ],
)
def test_docstrings_do_not_make_a_function_long(text, lines):
    assert budget.function_length(ast.parse(text).body[0]) == lines


def test_wide_lines_are_found(plant):
    root = plant(
        {"fake/a.py": "x" * 100 + "\n" + "é" * 101, "fake/b.c": "y" * 101, "fake/c.md": ""}
    )
    assert budget.wide_lines(root / "fake") == [
        "fake/a.py:2 has 101 columns",
        "fake/b.c:1 has 101 columns",
    ]


def test_too_few_tests_are_found(plant):
    root = plant({"fake/a.py": "x = 1\n" * 3, "tests/test_a.py": "x = 1\n" * 2})
    assert budget.too_few_tests(root / "fake", root / "tests") == [
        "2 lines of tests for 3 lines of source; at least as many"
    ]
    assert budget.too_few_tests(root / "tests", root / "fake") == []
