"""Every answer is what the schema says, whoever gives it; the page's types are written from it."""

from __future__ import annotations

import json
import runpy
import types
import typing
from pathlib import Path

import pytest

from regard.recording import open
from regard.study import make_report
from regard.viewer import answers
from regard.viewer.carried import carried_recording
from regard.viewer.opened import Opened
from regard.views import schema
from regard.views.findings import report_answer
from regard.views.head import HeadView, head_answer
from regard.views.overview import whole_overview
from regard.views.region import make_region
from regard.views.row import make_row
from regard.views.uniform import Look
from support.recordings import STATES, make_state, on_disk
from viewer.shell import facts_of

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "answers_types.py"))


def wrong(value, kind, where="") -> list[str]:
    """Where a value, as JSON has it, is not of its kind."""
    if typing.is_typeddict(kind):
        if not isinstance(value, dict):
            return [f"{where}: {value!r:.60} is no object"]
        hints = typing.get_type_hints(kind, include_extras=True)
        needed = {key for key in hints if typing.get_origin(hints[key]) is not typing.NotRequired}
        missing = [f"{where}.{key} is missing" for key in needed - value.keys()]
        more = [f"{where}.{key} is not in the schema" for key in value.keys() - hints.keys()]
        both = [key for key in value if key in hints]
        inner = [wrong(value[key], hints[key], f"{where}.{key}") for key in both]
        return [*missing, *more, *(line for lines in inner for line in lines)]
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.NotRequired:
        return wrong(value, given[0], where)
    if origin in (typing.Union, types.UnionType):
        tried = [wrong(value, one, where) for one in given]
        return [] if [] in tried else min(tried, key=len)
    if origin is typing.Literal:
        return [] if value in given else [f"{where}: {value!r}"]
    if origin in (list, tuple):
        if not isinstance(value, list) or (origin is tuple and len(value) != len(given)):
            return [f"{where}: {value!r:.60} is no list of that size"]
        kinds = given if origin is tuple else given * len(value)
        return [
            line for n, one in enumerate(value) for line in wrong(one, kinds[n], f"{where}[{n}]")
        ]
    if origin is not None:  # dict, Mapping
        if not isinstance(value, dict):
            return [f"{where}: {value!r:.60} is no object"]
        inner = [wrong(one, given[1], f"{where}.{key}") for key, one in value.items()]
        return [line for lines in inner for line in lines]
    if kind is typing.Any:
        return []
    if kind is type(None):
        return [] if value is None else [f"{where}: {value!r:.60} is not null"]
    fine = isinstance(value, (int, float) if kind is float else kind)
    is_flag = isinstance(value, bool) and kind is not bool
    return [] if fine and not is_flag else [f"{where}: {value!r:.60} is no {kind.__name__}"]


def check(answer, kind) -> None:
    """As it is sent."""
    sent = json.loads(json.dumps(answer, allow_nan=False))
    assert wrong(sent, kind, kind.__name__) == []


def test_the_checker_sees_what_is_wrong():
    fine = {"offset": 3, "reason": "x"}
    assert wrong(fine, schema.DamageAnswer) == []
    more = ({"more": 1}, {"offset": None}, {"offset": True})
    for bad in ({"offset": 3}, *(fine | change for change in more)):
        assert len(wrong(bad, schema.DamageAnswer)) == 1
    assert wrong([1, "2"], list[int], "n") == ["n[1]: '2' is no int"]


@pytest.fixture(scope="module", params=list(STATES))
def opened(request, tmp_path_factory):
    """A recording of every kind there is."""
    path = make_state(tmp_path_factory.mktemp("schema") / "run.regard", request.param)
    one = Opened(open(path))
    yield one
    one.close()


def test_a_recording(opened):
    check(answers.listing(opened), schema.ListingAnswer)
    check(answers.overview(opened), schema.OverviewAnswer)
    check(whole_overview(opened.recording), schema.OverviewAnswer)
    check(answers.training(opened), schema.TrainingFactsAnswer)
    if opened.recording.prompts:
        check(report_answer(make_report(opened.recording)), schema.ReportAnswer)
        check(opened.report(0), schema.ReportAnswer)
    for prompt in range(len(opened.recording.prompts)):
        for stream in opened.prompt(prompt).streams:
            check(answers.tokens(opened, prompt, stream), schema.TokensAnswer)


def test_its_heads_and_rows(opened):
    for label in answers.overview(opened)["heads"][:3]:
        name = label["label"]
        check(answers.head_facts(opened, 0, name), schema.HeadFactsAnswer)
        head = opened.head(0, name)
        if head.exact and head.recorded:
            row = answers.row_facts(opened, 0, name, head.recorded[-1], 4)
            check(row, schema.RowFactsAnswer)


def test_what_a_terminal_asks_for(tmp_path):
    with open(on_disk(tmp_path / "run.regard")) as rec:
        prompt, head = rec.prompts[0], rec["L0H1"]
        view = HeadView(prompt, head)
        told = head_answer(view)
        cells, _ = view.cells(4, Look())
        told["map"], told["looked_at"] = cells.as_answer(), view.looked_at(3)
        check(told, schema.HeadFactsAnswer)
        check(make_row(prompt, head, -1, top=3).as_answer(), schema.RowFactsAnswer)
        region = make_region(prompt, head, rows=range(3, 6), keys=range(4))
        check(region.as_answer(), schema.RegionAnswer)


def test_one_file_says_it_alike(tmp_path):
    with open(on_disk(tmp_path / "run.regard")) as rec:
        facts = facts_of(carried_recording(rec)[1])
    check(facts["listing"], schema.ListingAnswer)
    check(facts["overview"], schema.OverviewAnswer)
    check(facts["findings"], schema.ReportAnswer)
    for one in facts["tokens"].values():
        check(one, schema.TokensAnswer)


def test_the_page_types_are_written_from_it():
    kinds = TOOL["types"](*(one.read_text(encoding="utf-8") for one in TOOL["SCHEMAS"]))
    answers = TOOL["answers"](TOOL["QUESTIONS"].read_text(encoding="utf-8"))
    assert TOOL["WRITTEN"].read_text(encoding="utf-8") == kinds + answers, (
        "run python tools/answers_types.py"
    )
