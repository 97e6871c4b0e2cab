"""A training run on a terminal: each statistic from the first to the last step, and the alarms."""

from __future__ import annotations

from typing import Final

from regard.draw.finish import wrapped
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import number
from regard.draw.table import Column, aligned
from regard.recording import Alarm, Training
from regard.views.run import training_answer
from regard.views.schema import (
    ExtremeAnswer,
    Known,
    LimitAnswer,
    LossAnswer,
    LossAtAnswer,
    TrainedStatisticAnswer,
)
from regard.views.text import count

_ALARMS: Final = 12  # listed
_NOTE: Final = "first and last: the median of all heads, at the first and the last step"


def run_lines(run: Training, paper: Paper) -> list[StyledLine]:
    """A run that was monitored; nothing where none was."""
    told = training_answer(run)
    if told["steps"] is None:
        return []
    first, last = told["steps"]
    words = f"training: {count(told['samples'], 'sampled step')}, {first:,}{paper.dash}{last:,}, "
    lines = wrapped(words + count(len(told["places"]), "layer"), paper, "bold")
    lines += _loss_lines(told["loss"], paper)
    lines += [*aligned(_columns(told["statistics"]), paper), *wrapped(_NOTE, paper, "dim")]
    return [*lines, [], *_alarm_lines(run.alarms, paper), *_map_lines(told["maps"], paper)]


def _loss_lines(loss: LossAnswer | None, paper: Paper) -> list[StyledLine]:
    """'loss 4.16 at step 0, 2.31 at step 29, least 2.3 at step 27'."""
    if loss is None:
        return []
    ends = [_loss_at(loss["first"]), _loss_at(loss["last"])]
    ends += [] if loss["least"] is None else [f"least {_loss_at(loss['least'])}"]
    lines = wrapped("loss " + ", ".join(ends), paper)
    if loss["first_not_finite"] is None:
        return lines
    words = f"the loss is NaN or infinite in {count(loss['not_finite'], 'sampled step')}, the first"
    return [*lines, *wrapped(f"{words} of them {loss['first_not_finite']:,}", paper, "bold")]


def _loss_at(one: LossAtAnswer) -> str:
    value = "NaN or infinite" if one["value"] is None else number(one["value"])
    return f"{value} at step {one['step']:,}"


def _columns(every: dict[str, TrainedStatisticAnswer]) -> list[Column]:
    courses = every.values()
    return [
        Column("statistic", list(every)),
        Column("limit", [_limit(one["limit"]) for one in courses]),
        Column("first", [_figure(one["median_first"]) for one in courses], True),
        Column("last", [_figure(one["median_last"]) for one in courses], True),
        Column("least", [_extreme(one["least"]) for one in courses]),
        Column("largest", [_extreme(one["largest"]) for one in courses]),
    ]


def _figure(value: Known) -> str:
    return number(float("nan") if value is None else value)


def _extreme(one: ExtremeAnswer) -> str:
    """'0.012 L5H1'."""
    return f"{_figure(one['value'])} {one['head']}" if one["head"] else ""


def _limit(one: LimitAnswer | None) -> str:
    """'< 0.05', or nothing where the run says none."""
    if one is None or one["customary"]:
        return ""
    return f"{'>' if one['side'] == 'above' else '<'} {one['value']:g}"


def _alarm_lines(alarms: tuple[Alarm, ...], paper: Paper) -> list[StyledLine]:
    if not alarms:
        return wrapped("no alarm: no head stayed over a limit", paper)
    lines: list[StyledLine] = [[(count(len(alarms), "alarm"), "bold")]]
    for one in alarms[:_ALARMS]:
        lines += wrapped(str(one), paper, indent=2)
    rest = len(alarms) - _ALARMS
    return [*lines, *([[(f"and {rest:,} more", "dim")]] if rest > 0 else [])]


def _map_lines(maps: dict[str, list[int]], paper: Paper) -> list[StyledLine]:
    if not maps:
        return []
    kept = sum(map(len, maps.values()))
    words = f"{count(kept, 'map')} of {count(len(maps), 'head')} stored; regard view FILE"
    return wrapped(f"{words} shows them", paper, "dim")
