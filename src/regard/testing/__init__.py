"""Oracles that ship: cases, error budgets, poisoned memory, laws.

Whoever writes another implementation, or wants to know whether this one is right on their
machine, compares it with the definition over the same cases and by the same measure.
"""

from __future__ import annotations

from regard.testing.budget import Budget, Yardstick
from regard.testing.cases import CASES, Case, Inputs
from regard.testing.poison import poisoned_memory

__all__ = ["CASES", "Budget", "Case", "Inputs", "Yardstick", "poisoned_memory"]
