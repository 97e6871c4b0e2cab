"""One cell of a hand calculation: text → a number and one unit in its last printed place.

The page reads cells by the same rules, in web/src/maths/cells.ts.
"""

from __future__ import annotations

import math
import re

from regard.errors import InputError
from regard.learn.text import quoted

# A comma before three digits may separate thousands: 1,000 is no number, 0,125 and 1,25 are.
_POINT = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_COMMA = r"(?:0,[0-9]+|[0-9]+,(?:[0-9]{1,2}|[0-9]{4,}))(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"[+-]?(?:{_POINT}|{_COMMA})%?|[+-]?[0-9]+/[0-9]+")
_HIDDEN = re.compile(r"-(?:∞|inf(?:inity|ty)?)", re.IGNORECASE)
_BLANK = re.compile(r"[\s?_\-–—.…]*")
_SUPERSCRIPT = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_VULGAR = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}


def is_number(text: str) -> bool:
    """Whether a tidy text is a decimal, a percentage, a fraction, or −∞."""
    return bool(_NUMBER.fullmatch(text) or _HIDDEN.fullmatch(text))


def is_blank(text: str) -> bool:
    """Whether a cell was left open: nothing, `?`, `__`, `…`, or a dash."""
    return _BLANK.fullmatch(text) is not None


def bare(text: str) -> str:
    """Without emphasis, code and mathematics marks; a minus becomes a hyphen."""
    return (
        re.sub(r"\*+(?! ?10[\^⁻⁰-⁹])|[`$]|__(?=\w)|(?<=\w)__", "", text).replace("−", "-").strip()
    )


def tidy(text: str) -> str:
    """Numbers in one spelling: "– .5" stays, "–.5" is -.5, "4·10⁻²" 4e-2, "1 / 2" 1/2, "5 %" 5%."""
    text = re.sub(r"(?<![\w.,)\]])[−–‒﹣－](?=[0-9.,∞])", "-", text)
    text = re.sub(r"(?<![0-9])[½⅓⅔¼¾⅛]", lambda found: _VULGAR[found[0]], text).replace("⁄", "/")
    text = re.sub(
        r"(?<=[0-9]) ?[·×x*] ?10(?:\^(\{ ?[+-]?[0-9]+ ?\}|[+-]?[0-9]+)|([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))",
        lambda found: "e" + (found[1] or found[2]).strip("{ }").translate(_SUPERSCRIPT),
        text,
    )
    text = re.sub(r"(?<=[0-9]) ?/ ?(?=[0-9])", "/", text)
    return re.sub(r"(?<=[0-9]) ?\\?%", "%", text)


def read_number(text: str) -> tuple[float, float]:
    """The value and its unit: NaN for a whole number, 0 for a fraction; a blank is (NaN, 0).

    4223/10000 is a fraction in form only: its unit is that of 0.4223.
    """
    text = tidy(bare(text).lstrip("≈~ "))
    if is_blank(text):
        return math.nan, 0.0
    if _HIDDEN.fullmatch(text):
        return -math.inf, 0.0
    value = math.inf
    if _NUMBER.fullmatch(text):
        top, _, bottom = text.rstrip("%").replace(",", ".").partition("/")
        percent = 100 if text.endswith("%") else 1
        value = float(top) / percent / (float(bottom or 1) or math.nan)
    if not math.isfinite(value):
        raise InputError(f"{quoted(text)} is not a number; write 0.42, 3 or 1/2, or ? for a blank")
    _, _, below = text.partition("/")
    if below:
        return value, 1 / float(below) if re.fullmatch("10+", below) else 0.0
    return value, _unit(text.replace(",", "."))


def _unit(text: str) -> float:
    mantissa, _, exponent = text.rstrip("%").lower().partition("e")
    percent = 2 if text.endswith("%") else 0
    decimals = len(mantissa.partition(".")[2])
    if not decimals and not exponent and not percent:
        return math.nan  # whole, also as numpy prints it: 2.
    power = float(exponent or 0) - decimals - percent
    return 10.0 ** min(max(power, -300.0), 300.0)
