"""The first look at a recording: what it is about, and every head with its numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError, InputError
from regard.recording import Head, PromptView, Recording, Statistic
from regard.views.defaults import farthest_head, telling_grid
from regard.views.encoding import as_json
from regard.views.findings import findings_answer, stands_out
from regard.views.glossary import GLOSSARY
from regard.views.run import training_answer
from regard.views.schema import (
    HeadsAnswer,
    HeadShortAnswer,
    ListingAnswer,
    OverviewAnswer,
    PromptFactsAnswer,
    StandingAnswer,
    TokensAnswer,
)
from regard.views.text import CAVEAT, facts_for_json, why_unknown
from regard.views.uniform import scale_answer

MOST_TOKENS: Final = 8192  # in one answer
_NOTHING: Final[HeadsAnswer] = {"stacks": [], "heads": [], "problems": [], "why_unknown": {}}


class Who(NamedTuple):
    """How a recording is called by whoever shows it."""

    name: str
    number: int = 0  # among those that are served
    revision: int = 0  # so often something new was found in it


def listing(recording: Recording, who: Who) -> ListingAnswer:
    """Which recording this is, and how it is."""
    return {**_standing(recording, who), "prompts": len(recording.prompts)}


def _standing(recording: Recording, who: Who) -> StandingAnswer:
    return {
        "recording": who.number,
        "name": who.name,
        "revision": who.revision,
        "live": recording.is_live,
        "damage": [{"offset": one.offset, "reason": one.reason} for one in recording.damage],
        "model": facts_for_json(recording.model),
    }


def make_overview(
    recording: Recording, prompt: int, who: Who, heads: HeadsAnswer | None = None
) -> OverviewAnswer:
    """Everything the first page needs. `heads` where the caller has them; without a prompt there
    are none."""
    if heads is None:
        heads = heads_of(recording.prompts[prompt]) if recording.prompts else _NOTHING
    return {
        **_standing(recording, who),
        **heads,
        "made": facts_for_json(recording.made),
        "plan": facts_for_json(recording.plan),
        "check": facts_for_json(recording.check),
        "prompts": [_prompt_answer(one) for one in recording.prompts],
        "prompt": prompt,
        "statistics": {
            name: {"title": one.title, "words": one.words, "span": one.span}
            for name, one in recording.statistic_kinds.items()
        },
        **_defaults(heads),  # type: ignore[typeddict-item]  # … both of them
        "glossary": GLOSSARY,
        "scale": scale_answer(max((one["shape"][1] for one in heads["heads"]), default=0)),
        "caveat": CAVEAT,
        "stands_out": None,
        "training": None,
    }


def _defaults(heads: HeadsAnswer) -> dict[str, str | None]:
    stacks = heads["stacks"]
    names = {name for one in stacks for name in one["grids"]}
    statistic = telling_grid({name: [one["grids"].get(name) for one in stacks] for name in names})
    known = {one["name"]: one["grids"].get(statistic) for one in stacks}
    far = farthest_head({k: np.array(v, np.float64) for k, v in known.items() if v})
    own = [one["label"] for one in heads["heads"]
           if (one["stack"], one["layer"], one["head"]) == far]  # fmt: skip
    return {"statistic": statistic, "opens_on": own[0] if own else None}


def whole_overview(recording: Recording, prompt: int = 0) -> OverviewAnswer:
    """… with what a page asks for later: the heads that stand out, and the training run."""
    run, told = recording.training, make_overview(recording, prompt, who_is(recording))
    found = tried(told["problems"], stands_out, recording, prompt)
    told["stands_out"] = None if found is None else findings_answer(found)
    told["training"] = training_answer(run) if len(run) else None
    return told


def first_head(recording: Recording, prompt: int = 0) -> str:
    """The head to look at first: that of the first finding, else the farthest from its layer."""
    found = tried([], stands_out, recording, prompt)
    if found:
        return str(found[0].head.label)
    labels = recording.prompts[prompt].labels() if recording.prompts else []
    heads = heads_of(recording.prompts[prompt]) if labels else _NOTHING
    return _defaults(heads)["opens_on"] or (labels[0] if labels else "L0H0")


def who_is(recording: Recording) -> Who:
    """By the name of its file, without the folder it lies in."""
    return Who(PurePath(recording.name).name or recording.name)


def _prompt_answer(prompt: PromptView) -> PromptFactsAnswer:
    streams = {name: tried([], len, stream) for name, stream in prompt.streams.items()}
    return {
        "title": prompt.title,
        "tokens": prompt.note.tokens,
        "generated": prompt.generated,
        "finished": prompt.finished,
        "next": [{"token": text, "probability": as_json(share)} for text, share in prompt.next],
        "streams": streams,
    }


def heads_of(prompt: PromptView) -> HeadsAnswer:
    """Grids of every statistic; what cannot be read is left out, and named."""
    found: HeadsAnswer = {"stacks": [], "heads": [], "problems": [], "why_unknown": {}}
    problems: list[str] = []
    for name, (layers, heads) in prompt.stacks.items():
        grids = {
            statistic: tried(problems, lambda *which: as_json(prompt.grid(*which)), statistic, name)
            for statistic in prompt.statistic_kinds
        }
        found["stacks"].append({"name": name, "layers": layers, "heads": heads, "grids": grids})
    for label in prompt.labels():
        facts = tried(problems, lambda one: short_answer(prompt[one]), label)
        found["heads"] += [facts] if facts else []
    dark = {name: tried(problems, why_unknown, prompt, name) for name in prompt.statistic_kinds}
    found["why_unknown"] = {name: why for name, why in dark.items() if why}
    found["problems"] = list(dict.fromkeys(problems))
    return found


def tried(problems: list[str], make: Callable[..., Any], *given: Any) -> Any:
    """make(*given); None where the file is damaged just there, which is added to the problems."""
    try:
        return make(*given)
    except FileError as error:
        problems.append(str(error))
        return None


def short_answer(head: Head) -> HeadShortAnswer:
    """A head in a list of them."""
    return {
        "label": head.label,
        "stack": head.stack,
        "layer": head.layer,
        "head": head.head,
        "shape": head.shape,
        "kind": head.place.kind,
        "recorded": (head.recorded.start, head.recorded.stop),
        "exact": head.exact,
    }


def is_share(kind: Statistic, values: NDArray[np.float64]) -> bool:
    """Whether a statistic lies between 0 and 1. A norm that is compared with its layer's is called
    a share as well, and ranges beyond."""
    return kind.span == "one" and not bool(np.any(values > 1.001))


def tokens_of(
    prompt: PromptView, stream: str = "", start: int = 0, count: int = 1024
) -> TokensAnswer:
    """A page of a stream's tokens; without a name, of the first stream."""
    if not 0 < count <= MOST_TOKENS:
        raise InputError(f"count={count}; give 1 to {MOST_TOKENS}")
    name = stream or next(iter(prompt.streams), "")
    if name not in prompt.streams:
        have = ", ".join(prompt.streams) or "none"
        raise InputError(f"there is no stream {stream!r}; this prompt has {have}")
    one = prompt.streams[name]
    total = len(one)
    if not 0 <= start <= total:
        raise InputError(f"token {start} does not exist; there are {total}")
    part = slice(start, start + count)
    return {
        "stream": name, "start": start, "total": total, "tokens": one.tokens[part],
        "ids": one.ids[part].tolist(), "flags": one.flags[part].tolist(),
    }  # fmt: skip
