"""The mistakes that have a name, in the order of the steps."""

from __future__ import annotations

from typing import Final

from regard.learn.programs.after import AFTER
from regard.learn.programs.before import BEFORE
from regard.learn.programs.masked import MASKED
from regard.learn.programs.scored import SCORED
from regard.learn.programs.summed import SUMMED

MISTAKES: Final = (*BEFORE, *SCORED, *MASKED, *SUMMED, *AFTER)
