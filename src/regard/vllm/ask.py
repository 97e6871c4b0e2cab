"""What a request asks for: the JSON text of `vllm_xargs: {"regard": …}`.

    {"secret": "at least 16 characters", "layers": "0,5-10", "heads": [0, 3], "top": 8,
     "statistics": ["entropy", "top"], "exact": false, "prefix_cache": false}

A request says which layers and heads, and never where anything is written.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from regard.errors import InputError
from regard.recorder.plan import TOP, Choice
from regard.recording.measures import ROW_NUMBERS

KEY = "regard"  # of SamplingParams.extra_args
STATISTICS = (*ROW_NUMBERS, "top", "received")
_SECRET = re.compile(r"[!-~][ -~]{14,254}[!-~]")  # a header carries it
NO_SECRET = (
    "vllm_xargs.regard has no secret by which a recording could be fetched, so nothing was "
    "recorded; give a JSON object as text, with a secret of 16 to 256 printable ASCII characters"
)
_MOST_TOP = 64
_MOST_TEXT = 16_384  # characters of the whole


@dataclass(frozen=True)
class Ask:
    """A request's wishes, checked."""

    secret: str  # whoever has it may fetch the result
    layers: Any = None  # as `regard.record` takes them
    heads: Any = None
    top: int = TOP  # heaviest keys a row
    statistics: tuple[str, ...] = ("entropy", "peak", "first", "top", "received")
    exact: bool = True  # q and k too, within the budget
    prefix_cache: bool = False  # rows of a cached prefix may be missing

    @classmethod
    def of(cls, text: Any) -> Ask:
        """From a request; InputError where it has no meaning."""
        if not isinstance(text, str) or len(text) > _MOST_TEXT:
            raise InputError(
                f"regard={text!r:.60}; give a JSON text of at most {_MOST_TEXT} characters"
            )
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            raise InputError(f"regard={text!r:.60} is no JSON; give an object as text") from None
        if not isinstance(given, dict):
            raise InputError(f"regard={text!r:.60}; give a JSON object")
        known = [one.name for one in fields(cls)]
        wrong = sorted(set(given) - set(known))
        if wrong:
            raise InputError(f"regard.{wrong[0]!s:.40} is unknown; there are {', '.join(known)}")
        given.setdefault("secret", "")
        return cls(**given)._checked()

    def _checked(self) -> Ask:
        secret = self.secret
        if not isinstance(secret, str) or not _SECRET.fullmatch(secret):
            raise InputError(
                "regard.secret: give a text of 16 to 256 characters, printable ASCII without a "
                "space at either end, as a header carries it"
            )
        if type(self.top) is not int or not 1 <= self.top <= _MOST_TOP:
            raise InputError(f"regard.top={self.top!r:.40}; give a number from 1 to {_MOST_TOP}")
        for name in ("exact", "prefix_cache"):
            if type(getattr(self, name)) is not bool:
                raise InputError(f"regard.{name}={getattr(self, name)!r:.40}; give true or false")
        for name in ("layers", "heads"):
            if not isinstance(getattr(self, name), list | str | int | None):
                raise InputError(
                    f"regard.{name}; give a list of numbers, or a text such as '0,5-10'"
                )
        asked = self.statistics
        if not isinstance(asked, list | tuple) or not all(one in STATISTICS for one in asked):
            raise InputError(f"regard.statistics={asked!r:.80}; choose of {', '.join(STATISTICS)}")
        _ = self.choice  # numbers that are none
        object.__setattr__(self, "statistics", tuple(asked))
        return self

    @property
    def choice(self) -> Choice:
        """Which layers and heads are recorded."""
        return Choice.of(self.layers, self.heads, None)

    def to_text(self) -> str:
        """As a request gives it."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)})


def secret_in(text: Any) -> str:
    """The secret of a request whose other wishes may be wrong; "" where there is none."""
    try:
        given = json.loads(text) if isinstance(text, str) and len(text) <= _MOST_TEXT else None
    except (ValueError, RecursionError):
        return ""
    secret = given.get("secret") if isinstance(given, dict) else None
    return secret if isinstance(secret, str) and _SECRET.fullmatch(secret) else ""


def asked_in(params: Any) -> Any:
    """What SamplingParams hold for us; None where the request does not ask."""
    extra = getattr(params, "extra_args", None)
    return extra.get(KEY) if extra else None
