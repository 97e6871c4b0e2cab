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
_PLAIN = r"[0-9]+(?:\.[0-9]+)?"
_TERM = rf"(?:{_PLAIN})?√{_PLAIN}|{_PLAIN}"
_EXACT = re.compile(rf"[+-]?(?:({_TERM})/({_TERM})|((?:{_PLAIN})?√{_PLAIN}))")
_NUMBER = re.compile(rf"[+-]?(?:{_POINT}|{_COMMA})%?|{_EXACT.pattern}")
_ABOUT = re.compile(
    r"^(?:[≈~≃≅]|(?:about|approximately|approx|circa|ca|etwa|ungefähr|rund)\b\.?|大约|大概|约)\s*",
    re.IGNORECASE,
)
_HIDDEN = re.compile(r"-(?:∞|inf(?:inity|ty)?)", re.IGNORECASE)
_BLANK = re.compile(r"[\s?_\-–—.…]*")
_SUPERSCRIPT = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_VULGAR = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}


def result_of(text: str) -> str:
    """What a cell comes to: what stands behind its last = or ≈, without "about" before it.

    "2.718/11.756 = 0.2312" is 0.2312, "about 0.14" and "≈ 0.14" are 0.14. A sign with nothing
    behind it is no result, and the text stays as it is.
    """
    return without_about(re.split("[=≈]", text)[-1].strip() or text)


def without_about(text: str) -> str:
    """Without "about", "ca.", "etwa", "约", ≈ or ~ in front."""
    return _ABOUT.sub("", text).strip() or text


def is_number(text: str) -> bool:
    """Whether a tidy text is a decimal, a percentage, a fraction, a root, or −∞."""
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
    """Numbers in one spelling: "– .5" stays, "–.5" is -.5, "4·10⁻²" 4e-2, "1 / 2" 1/2, "5 %" 5%,
    "2 / sqrt(3)" 2/√3."""
    text = re.sub(r"(?<![\w.,)\]])[−–‒﹣－](?=[0-9.,∞])", "-", text)
    text = re.sub(r"(?<![0-9])[½⅓⅔¼¾⅛]", lambda found: _VULGAR[found[0]], text).replace("⁄", "/")
    text = re.sub(
        r"(?<=[0-9]) ?[·×x*] ?10(?:\^(\{ ?[+-]?[0-9]+ ?\}|[+-]?[0-9]+)|([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))",
        lambda found: "e" + (found[1] or found[2]).strip("{ }").translate(_SUPERSCRIPT),
        text,
    )
    text = re.sub(
        r"(?:\bsqrt|√) ?(?:\(([0-9.]+)\)|\{([0-9.]+)\}|([0-9.]+))",
        lambda found: "√" + (found[1] or found[2] or found[3]),
        text,
    )
    text = re.sub(r"(?<=[0-9]) ?/ ?(?=[0-9√])", "/", text)
    return re.sub(r"(?<=[0-9]) ?\\?%", "%", text)


def read_number(text: str) -> tuple[float, float]:
    """The value and its unit: NaN for a whole number, 0 for a fraction or a root; a blank is
    (NaN, 0).

    4223/10000 is a fraction in form only: its unit is that of 0.4223. That of 2.83/√4 is half a
    unit of 2.83.
    """
    text = tidy(result_of(bare(text)))
    if is_blank(text):
        return math.nan, 0.0
    if _HIDDEN.fullmatch(text):
        return -math.inf, 0.0
    value, unit = math.inf, 0.0
    if exact := _EXACT.fullmatch(text):
        value, unit = _quotient(exact[1] or exact[3], exact[2] or "1")
        value = -value if text.startswith("-") else value
    elif _NUMBER.fullmatch(text):
        plain = text.replace(",", ".")
        value, unit = float(plain.rstrip("%")) / (100 if text.endswith("%") else 1), _unit(plain)
    if not math.isfinite(value):
        raise InputError(f"{quoted(text)} is not a number; write 0.42, 3 or 1/2, or ? for a blank")
    return value, unit


def _quotient(top: str, bottom: str) -> tuple[float, float]:
    """A value and its unit, which is what the last places of its decimals are worth."""
    above, below = _term(top), _term(bottom)
    value = above / below if below else math.inf
    if re.fullmatch("10+", bottom) and "√" not in top:
        return value, 1 / below
    decimals = [one for one in re.split("[√/]", f"{top}/{bottom}") if "." in one]
    shares = (10.0 ** -len(one.partition(".")[2]) / (float(one) or math.nan) for one in decimals)
    return value, abs(value) * sum(shares)


def _term(text: str) -> float:
    """2, √3 or 2√3."""
    factor, is_root, root = text.partition("√")
    return float(factor or 1) * (math.sqrt(float(root)) if is_root else 1)


def _unit(text: str) -> float:
    mantissa, _, exponent = text.rstrip("%").lower().partition("e")
    percent = 2 if text.endswith("%") else 0
    decimals = len(mantissa.partition(".")[2])
    if not decimals and not exponent and not percent:
        return math.nan  # whole, also as numpy prints it: 2.
    power = float(exponent or 0) - decimals - percent
    return 10.0 ** min(max(power, -300.0), 300.0)
