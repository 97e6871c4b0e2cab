"""The public name of the statistics: what is documented, and the same values by every path."""

from __future__ import annotations

import re
from pathlib import Path

import regard
import regard.statistics
from regard import summary
from regard.summary import Summary

PAGE = Path(__file__).parents[1] / "docs" / "api" / "statistics.md"
PUBLIC = {name for name in vars(regard.statistics) if name[0].isupper()}


def test_every_statistic_there_is_has_the_public_name():
    classes = {name: getattr(summary, name) for name in summary.__all__}
    kinds = {n for n, c in classes.items() if isinstance(c, type) and issubclass(c, Summary)}
    assert kinds == PUBLIC


def test_each_is_in_the_reference_and_in_the_table_of_the_module():
    listed = set(re.findall(r"autoclass:: regard\.statistics\.(\w+)", PAGE.read_text("utf-8")))
    assert listed == PUBLIC - {"Summary"}
    for name in listed:
        assert re.search(rf"\b{name}\b", regard.statistics.__doc__)
