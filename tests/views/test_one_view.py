"""One view of a recording: the terminal, the report, the page and a page that is one file tell the
same heads in the same order with the same sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import regard
from regard.cli.main import app
from regard.viewer.opened import Opened
from regard.views.findings import STAND_OUT
from support.recordings import Chunk, write_recording
from support.recordings.planted import KINDS, mixed, record_planted, targets, text
from viewer.served import client_of
from viewer.shell import Elements


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A head of each kind, and of the same with half of their mass on a sink, recorded."""
    path = tmp_path_factory.mktemp("one") / "run.regard"
    ids = text(160, seed=4)
    aims = targets(ids, seed=4)
    layers = [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(KINDS)]
              for sink in (0.0, 0.5)]  # fmt: skip
    record_planted(np.array(layers), ids, path)
    return path


def said(*arguments) -> str:
    found = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "100"})
    assert found.exit_code == 0, found.output
    return found.stdout


def of_findings(findings) -> list[tuple[str, str]]:
    return [(one["label"], one["sentence"]) for one in findings]


def served(file) -> dict:
    with regard.open(file) as recording:
        opened = Opened(recording)
        client = client_of(opened)
        names = ("overview", "findings", "head", "row")
        asked = {"head": {"head": "L0H0"}, "row": {"head": "L0H0", "row": 20, "top": 8}}
        return {name: client.get(f"/api/0/{name}", params=asked.get(name)).json() for name in names}


def in_one_file(file, folder) -> dict:
    import base64
    import zlib

    page = folder / "page.html"
    said("report", file, "-o", page, "--overwrite")
    text = Elements(page.read_text(encoding="utf-8")).text("script", id="regard-blob-0")
    return json.loads(zlib.decompress(base64.b64decode(text)))


def in_order(text: str, sentences) -> bool:
    """Whether all of them stand in the text, one behind the other, however lines are broken."""
    joined, at = " ".join(text.split()), 0
    for one in sentences:
        at = joined.find(" ".join(one.split()), at)
        if at < 0:
            return False
    return True


def test_all_four_tell_the_same(file, tmp_path):
    report = json.loads(said("report", file, "--json", "--top", 99))
    truth = of_findings(report["findings"])
    assert len(truth) > STAND_OUT // 2, "a recording that has something to tell"
    first = truth[:STAND_OUT]
    shown = json.loads(said("show", file, "--json"))
    assert of_findings(shown["stands_out"]) == first
    assert in_order(said("show", file), [sentence for _, sentence in first])
    assert in_order(said("report", file, "--top", 99), [sentence for _, sentence in truth])
    page = served(file)
    assert of_findings(page["findings"]["findings"]) == truth
    assert page["findings"]["stand_out"] == report["stand_out"] == STAND_OUT
    carried = in_one_file(file, tmp_path)
    assert of_findings(carried["findings"]["findings"])[: len(first)] == first
    caveats = {one["caveat"] for one in (report, shown, page["overview"], carried["overview"])}
    assert len(caveats) == 1


def test_the_terminals_json_is_the_servers(file):
    page = served(file)
    shown = json.loads(said("show", file, "--json"))
    own = {"stands_out", "training"}  # which the page asks for by themselves
    assert shown.keys() == page["overview"].keys()
    assert {k: v for k, v in shown.items() if k not in own} == {
        key: value for key, value in page["overview"].items() if key not in own
    }
    head = json.loads(said("show", file, "L0H0", "--json"))
    assert {k: v for k, v in head.items() if k != "looked_at"} == page["head"]
    assert json.loads(said("show", file, "L0H0", "--row", 20, "--json")) == page["row"]


def test_all_four_say_why_a_number_is_not_known(tmp_path):
    file, _ = write_recording(
        tmp_path / "coarse.regard", chunks=[Chunk((0, 80), (0, 80), regard.Causal())],
        key_bin=64, top_every=64, row_bin=64,
    )  # fmt: skip
    why = served(file)["overview"]["why_unknown"]
    assert why.keys() == {"sink", "non_sink"} and "too many keys share a bin" in why["sink"]
    assert json.loads(said("show", file, "--json"))["why_unknown"] == why
    assert in_one_file(file, tmp_path)["overview"]["why_unknown"] == why
    assert in_order(said("show", file, "--stat", "sink"), [why["sink"]])
    assert not in_order(said("show", file, "--stat", "peak"), [why["sink"]])


@pytest.mark.parametrize("tokens", [12, 40])
def test_all_four_say_why_no_head_stands_out(tmp_path, tokens):
    chunk = Chunk((0, tokens), (0, tokens), regard.Causal())
    file, _ = write_recording(tmp_path / "short.regard", chunks=[chunk], heads=1, key_heads=1)
    why = served(file)["findings"]["why_nobody"]
    assert why.startswith("12 tokens show no pattern" if tokens == 12 else "no head shows")
    assert in_order(said("show", file), [why])
    assert json.loads(said("report", file, "--json"))["why_nobody"] == why
    assert in_one_file(file, tmp_path)["findings"]["why_nobody"] == why


def test_where_heads_stand_out_nothing_is_excused(file):
    assert served(file)["findings"]["why_nobody"] == ""
    assert json.loads(said("report", file, "--json", "--top", 0))["why_nobody"] == ""
