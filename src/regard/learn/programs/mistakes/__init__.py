"""The mistakes that have a name, in the order of the steps."""

from __future__ import annotations

from typing import Final

from regard.learn.programs.mistakes.after import AFTER
from regard.learn.programs.mistakes.before import BEFORE
from regard.learn.programs.mistakes.masked import MASKED
from regard.learn.programs.mistakes.naming import STEPS, Mistake
from regard.learn.programs.mistakes.scored import SCORED
from regard.learn.programs.mistakes.summed import SUMMED

MISTAKES: Final = (*BEFORE, *SCORED, *MASKED, *SUMMED, *AFTER)

__all__ = ["MISTAKES", "STEPS", "Mistake"]
