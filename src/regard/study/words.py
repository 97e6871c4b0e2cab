"""Findings as sentences. No label without its number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from regard.study.chance import spelt_p
from regard.study.finding import Finding, HeadStudy, SeenAt

CAVEAT: Final = "weights show where a head looks, not why the model answers"
KNOCK_OUT: Final = (
    "The causal check is to knock the head out (set its output to zero before w_o): what attends "
    "and what matters when it is removed are two different orders. What it changes is a mean over "
    "rows without the last one, which no token follows; induction is judged by the copied token's "
    "log-probability."
)

_MASS: Final = "of its mass"
_WHERE_ANY: Final = "of its mass where there are any"
# What it does, and what its number is a share of.
_PHRASES: Final[dict[str, tuple[str, str]]] = {
    "previous": ("looks at the token before", _MASS),
    "self": ("looks at the token itself", _MASS),
    "local-8": ("stays within 8 tokens", _MASS),
    "local-64": ("stays within 64 tokens", _MASS),
    "duplicate-token": ("looks at earlier copies of the token", _WHERE_ANY),
    "prefix-matching": ("looks at what followed earlier copies of the token", _WHERE_ANY),
    "induction": ("looks at what followed earlier copies of the token, and writes it", _WHERE_ANY),
    "delimiter": ("looks at punctuation and line breaks", _MASS),
    "retrieval": ("copies the needle while the model writes", "of the needle's tokens"),
    "near-1": ("looks at the patches beside its own", _MASS),
    "near-2": ("stays within 2 patches of its own", _MASS),
    "same-row": ("looks along the row of its patch", _MASS),
    "same-column": ("looks along the column of its patch", _MASS),
    "previous-frame": ("looks at the same place in the frame before", _WHERE_ANY),
    "next-frame": ("looks at the same place in the frame after", _WHERE_ANY),
    "border": ("looks at the border of the picture", _MASS),
    "register": ("looks at class and register tokens", _MASS),
    "object": ("looks at patches that hang together", "of the heaviest are in one piece"),
    "uniform": ("spreads evenly over what it sees", "of the largest entropy"),
    "sharp": ("looks at one key alone", "of its rows have a weight above 0.99"),
    "saturated": ("is stuck on single keys", "of its rows"),
    "inactive": ("writes next to nothing", "of its layer's mean norm"),
}
_MOST_KEYS: Final = 3
_MOST_LETTERS: Final = 40


def in_figures(value: float) -> str:
    """0.83, 0.012, <0.001."""
    if math.isnan(value):
        return "not known"
    if 0 < value < 0.0005:
        return "<0.001"
    return f"{value:.2f}" if abs(value) >= 0.095 or value == 0 else f"{value:.2g}"


def sentence(head: HeadStudy, finding: Finding, spell: Callable[[str], str] = repr) -> str:
    """What the head does, how much, and where to see it; `spell` writes a token down."""
    doing, unit = what_it_does(finding, spell)
    words = f"{head.label} {doing} ({_numbers(head, finding, unit)})"
    if finding.rows:
        words += f"; best seen at {_row(finding.rows[0], spell)}"
    if finding.counter is not None:
        words += f"; {_against(finding, finding.counter, spell)}"
    return words + (f"; over {_rows_and_p(finding)}" if finding.n_rows else "")


def what_it_does(finding: Finding, spell: Callable[[str], str] = repr) -> tuple[str, str]:
    """A verb, and what its number is a share of."""
    if finding.pattern == "sink-patch":
        return f"parks on patches, {_sinks(finding, spell)}", _MASS
    if finding.pattern == "sink":
        return f"parks on {_sinks(finding, spell)}", _MASS
    if finding.pattern == "offset":
        return f"looks {_offset(finding)}", _MASS
    return _PHRASES[finding.name]


def _sinks(finding: Finding, spell: Callable[[str], str]) -> str:
    detail = finding.detail
    keys = detail.get("keys", [])
    texts = [*detail.get("tokens", []), *[None] * len(keys)]
    shown = [
        f"{key}{_spelt(text, spell)}" for key, text in zip(keys[:_MOST_KEYS], texts, strict=False)
    ]
    more = f" and {len(keys) - _MOST_KEYS} more" if len(keys) > _MOST_KEYS else ""
    word = "key" if len(keys) == 1 else "keys"
    named = [f"{word} {', '.join(shown)}{more}"] if keys else []
    learned = ["a learned sink"] if "learned" in detail else []
    return " and ".join(named + learned) or "nothing"


def _offset(finding: Finding) -> str:
    first, last = finding.detail["offset"], finding.detail.get("to", finding.detail["offset"])
    way = "back" if last > 0 else "ahead"
    near, far = sorted((abs(first), abs(last)))
    count = str(near) if near == far else f"{near}–{far}"
    return f"{count} token{'' if count == '1' else 's'} {way}"


def _numbers(head: HeadStudy, finding: Finding, unit: str) -> str:
    parts = [f"{in_figures(finding.score)} {unit}"]
    if not math.isnan(finding.chance):
        parts.append(f"chance {in_figures(finding.chance)}")
    parts += [finding.detail["forced"]] if "forced" in finding.detail else []
    if head.sink > 0 and not math.isnan(finding.conditional):
        parts.append(f"{in_figures(finding.conditional)} of what is not on sinks")
    if "max_score" in finding.detail:
        parts.append(f"largest score {finding.detail['max_score']:.3g}")
    if finding.name == "induction" and finding.causal is not None:
        lost = f"{finding.causal:.2g}"
        parts.append(f"its knock-out lowers the copied token's log-probability by {lost}")
    return "; ".join(parts)


def _rows_and_p(finding: Finding) -> str:
    """42 rows, p 2e-5."""
    return f"{finding.n_rows} rows, p {spelt_p(finding.p_value)}"


def _row(one: SeenAt, spell: Callable[[str], str]) -> str:
    where = f"row {one.row}" if one.last == one.row else f"rows {one.row}–{one.last}"
    value = f"{'' if one.known else 'at least '}{in_figures(one.value)}"
    return f"{where}{_spelt(one.token, spell)} ({value})"


def _against(finding: Finding, one: SeenAt, spell: Callable[[str], str]) -> str:
    """A row that does not show it; or, where all do, the one that shows it least."""
    if finding.pattern == "inactive" or one.value >= finding.threshold:
        return f"least at {_row(one, spell)}"
    return f"not at {_row(one, spell)}{_instead(one, spell)}"


def _instead(one: SeenAt, spell: Callable[[str], str]) -> str:
    if one.key is None or one.weight is None:
        return ""
    return (
        f", which looks at key {one.key}{_spelt(one.key_token, spell)} ({in_figures(one.weight)})"
    )


def _spelt(token: str | None, spell: Callable[[str], str]) -> str:
    if token is None:
        return ""
    return f" {spell(token if len(token) <= _MOST_LETTERS else token[:_MOST_LETTERS] + '…')}"


def knock_out_sentence(found: Mapping[str, Any]) -> str:
    """What a head's knock-out does, beside the median of heads drawn by lot."""
    text, copied = found["text"], found["copying"]
    return (
        f"knocked out: next token's logit {text['delta_logit']:+.2f} (typically "
        f"{text['typical_delta_logit']:+.2f}), KL {text['kl']:.3f} ({text['typical_kl']:.3f}), "
        f"log-probability {_changed(text)}; copied token's logit {copied['delta_logit']:+.2f} "
        f"({copied['typical_delta_logit']:+.2f}), log-probability {_changed(copied)}; means "
        "without the last row"
    )


def _changed(part: Mapping[str, Any]) -> str:
    return f"{part['delta_logprob']:+.2f} ({part['typical_delta_logprob']:+.2f})"
