"""The report: every label with its number, the rows that show it and what the recording leaves in
doubt, most surprising first; as sentences, as a page and as JSON; at the cost of what it reads."""

from __future__ import annotations

import json
import math
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
import regard.recording
from bench.long_recording import write_large
from regard import study
from regard.errors import InputError
from regard.mask import Causal
from regard.recording import STATISTICS, Recording, Writer
from regard.study import Finding, HeadStudy, Outlier, Ranked, SeenAt, outliers
from regard.study.outliers import _TELLING
from regard.study.pattern import every_pattern
from regard.study.surprise import deviations
from regard.study.words import CAVEAT, KNOCK_OUT, in_figures, knock_out_sentence, what_it_does
from study.conftest import head_of, heads_of, record
from support.recordings import Chunk, tear, write_recording
from support.recordings.planted import KINDS, mixed, targets, text

NAN = math.nan
ROW = SeenAt(412, 412, " moon", 0.98, True, 411, " the", 0.98)


def finding(pattern: str = "previous", score: float = 0.83, **fields: Any) -> Finding:
    facts = {"chance": 0.01, "threshold": 0.3, "conditional": 0.83, "why_not": ""}
    return Finding(pattern, score, **(facts | fields))


def head(*findings: Finding, sink: float = 0.0) -> HeadStudy:
    return HeadStudy("L5H1", "", 5, 1, sink, 1 - sink, findings)


def words_of(sink: float = 0.0, **fields: Any) -> str:
    own = finding(**fields)
    return study.sentence(head(own, sink=sink), own)


# ── in order ─────────────────────────────────────────────────────────────────────────────────


def test_labels_in_order_of_surprise(planted):
    report = study.make_report(planted, top=5)
    away = [ranked.surprise for ranked in report.found]
    assert away == sorted(away, reverse=True) and len(report.told) == 5
    labels = {(one.label, label) for one in report.heads for label in one.labels}
    assert {(ranked.head.label, ranked.finding.name) for ranked in report.found} == labels
    for ranked in report.found:
        assert ranked.row is not None and f"{ranked.finding.score:.2f}" in ranked.sentence
    with pytest.raises(InputError, match="top=-1; give how many"):
        study.make_report(planted, top=-1)


def test_counts_and_the_strongest(planted):
    report = study.make_report(planted)
    counts = report.counts()
    assert counts["sink"] == len(KINDS) and counts["previous"] == 2
    assert counts.get("unclear", 0) == sum(not one.labels for one in report.heads)
    (first, score), (second, lower) = report.strongest("previous")
    assert (first, second) == ("L0H0", "L1H0") and score > lower
    assert report.unknown() == {"retrieval": "no needle was given"}


def test_json_says_all_of_it(planted):
    report = study.make_report(planted, top=3)
    back = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert len(back["findings"]) == 3 and len(back["heads"]) == len(planted.labels())
    assert back["labels"] == len(report.found) and back["tokens"] == 160
    assert back["file"] == planted.recording.name and back["model"] == "Planted"
    assert "not why" in back["caveat"] and "knock" in back["causal_check"]
    for one in back["findings"]:
        assert {
            "label", "layer", "head", "row", "pattern", "score", "chance", "threshold",
            "conditional", "non_sink", "surprise", "rows", "counter",
        } <= set(one)  # fmt: skip
        assert one["sentence"].startswith(one["label"])
        assert one["n_rows"] > 0 and one["p_value"] <= 0.0005 and "over rows" in one["test"]
        assert f"{one['n_rows']} rows, p " in one["sentence"]
    blank = finding(score=NAN, chance=NAN, rows=(replace(ROW, weight=NAN),))
    own = json.loads(json.dumps(blank.as_dict() | head(blank).as_dict(), allow_nan=False))
    assert own["score"] is None and own["rows"][0]["weight"] is None and own["counter"] is None


def test_surprise_is_how_far_a_head_lies_from_its_layer(planted):
    """In robust deviations; of layers of one head, from the stack."""
    numbers = np.array([0.1, 0.2, 0.3, 0.9])
    away, middle = deviations(numbers)
    np.testing.assert_allclose(away, np.abs(numbers - 0.25) / (1.4826 * 0.1 + 0.02))
    assert middle == 0.25 and (deviations(np.full(4, 0.5))[0] == 0).all()
    away, middle = deviations(np.full(3, NAN))
    assert np.isnan(away).all() and np.isnan(middle)
    assert np.isfinite(deviations(np.array([0.0, 0.2, 0.1, np.inf]))[0][:3]).all()

    def heads(*numbers: float, layer: int | None = None) -> list[HeadStudy]:
        places = [(layer, n) if layer is not None else (n, 0) for n in range(len(numbers))]
        return [
            HeadStudy(f"L{at}H{n}", "", at, n, 0.0, 1.0, (finding(score=0.0, compared=number),))
            for (at, n), number in zip(places, numbers, strict=True)
        ]

    layer = study.surprises(heads(*[0.1] * 7, 0.9, layer=0))
    assert layer["L0H7", "previous"] == pytest.approx(0.8 / 0.02) and layer["L0H0", "previous"] == 0
    apart = heads(0.1, 0.1, 0.1, NAN, layer=0) + heads(*[0.8] * 4, layer=1)
    assert set(study.surprises(apart).values()) == {0.0}
    assert ("L0H3", "previous") not in study.surprises(apart)
    single = study.surprises(heads(0.1, 0.1, 0.1, 0.1, 0.1, 0.9))
    assert single["L5H0", "previous"] > 30 and single["L0H0", "previous"] == 0
    away_of = study.surprises(study.patterns(planted))
    grid = np.stack([deviations(row)[0] for row in planted.recording.grid("previous")])
    mine = [away_of[label, "previous"] for label in planted.labels()]
    np.testing.assert_allclose(np.reshape(mine, grid.shape), grid, rtol=1e-6)


def test_a_key_that_just_becomes_a_sink_is_no_news():
    """The mass on sinks jumps where a key passes 0.3; what is compared does not."""
    ids = text(150)
    aim = targets(ids)["uniform"]
    heads = heads_of([mixed(aim, share, 1.0, 0.1, 1) for share in (0.26, 0.27, 0.28, 0.3)], ids)
    assert [one.sink > 0 for one in heads] == [False, False, True, True]  # 0.03 comes by chance
    assert max(study.surprises(heads)[one.label, "sink"] for one in heads) < 2


# ── rows ─────────────────────────────────────────────────────────────────────────────────────

MASSES = ("previous", "offset", "self", "local-8", "duplicate-token", "prefix-matching",
          "delimiter")  # fmt: skip


def test_rows_show_what_is_said_of_them(planted, words):
    """Their numbers are the head's weights, and rows that could not do otherwise show nothing."""
    aims = targets(words, seed=4)
    for kind, one in zip(KINDS, study.patterns(planted), strict=False):
        p, own = np.asarray(planted[one.label], np.float64), one[kind]
        if kind not in MASSES:
            continue
        mass = (p * aims[kind]).sum(-1)
        assert len(own.rows) == 3 and own.counter is not None
        for seen in (*own.rows, own.counter):
            assert seen.row == seen.last >= 2 and seen.known
            assert seen.value == pytest.approx(mass[seen.row], abs=1e-5)
            assert seen.token == planted.tokens[seen.row]
        for seen in own.rows:
            assert aims[kind][seen.row, seen.key]
            assert seen.weight == pytest.approx(p[seen.row, seen.key], abs=1e-6)
            assert seen.key_token == planted.tokens[seen.key]
        assert min(seen.value for seen in own.rows) > own.counter.value


def test_a_counter_example_says_what_it_looks_at_instead():
    ids = text(120)
    weights = mixed(targets(ids)["previous"], strength=0.9)
    weights[70] = np.eye(120)[33]
    one = head_of(weights, ids)
    counter = one["previous"].counter
    assert (counter.row, counter.key) == (70, 33) and counter.weight == pytest.approx(1)
    sentence = study.sentence(one, one["previous"])
    assert f"not at row 70 ' w{ids[70]}'" in sentence and "which looks at key 33" in sentence
    uniform = mixed(targets(ids)["uniform"], noise=0.1)
    uniform[90] = np.eye(120)[8]
    own = head_of(uniform, ids, evidence="all")["uniform"]
    assert (own.counter.row, own.counter.key) == (90, 8) and math.isnan(own.chance)
    assert own.rows[0].value > 0.98 and own.rows[0].row >= 15  # rows that see few keys show nothing


def test_without_q_and_k_a_sum_is_the_least_it_is_and_bins_are_bins(kept, planted):
    n = list(KINDS).index("local-8")
    stored, exact = (study.patterns(rec)[n]["local-8"].rows for rec in (kept, planted))
    for seen, other in zip(stored, exact, strict=True):
        assert seen.row == other.row and seen.value <= other.value + 1e-6
    chunk = Chunk((0, 200), (0, 200), regard.Causal())
    for exact in (True, False):
        store, made = write_recording(chunks=[chunk], spread=3.0, row_bin=8, exact=exact)
        ids = Recording(store).prompts[0].ids
        for n, one in enumerate(study.patterns(Recording(store), evidence="all")):
            assert one["duplicate-token"].rows
            for seen in one["duplicate-token"].rows:
                assert (seen.last == seen.row) == exact
                same = ids[: seen.row] == ids[seen.row]
                mass = made.truth.weights()[n][seen.row, : seen.row][same].sum()
                assert not exact or seen.value == pytest.approx(mass, abs=1e-5)


def test_rows_are_shown_for_labels_for_all_or_for_none(planted):
    for evidence, wanted in (("labels", {True}), ("none", set()), ("all", {True, False})):
        heads = study.patterns(planted, evidence=evidence)
        assert {own.holds for one in heads for own in one if own.rows} == wanted


def test_rows_do_not_depend_on_how_many_are_listed(planted):
    heads = study.patterns(planted, evidence="labels")
    every = {(one.label, own.pattern): (own.rows, own.counter)
             for one in heads for own in one if own.holds}  # fmt: skip
    names = [(r.head.label, r.finding.pattern) for r in study.make_report(planted, top=99).found]
    for top in (0, 1, 10_000):
        ranked = study.make_report(planted, top=top).found
        assert [(one.head.label, one.finding.pattern) for one in ranked] == names
        rows = {(one.head.label, one.finding.pattern): (one.finding.rows, one.finding.counter)
                for one in ranked}  # fmt: skip
        assert rows == every and ranked[-1] == ranked[len(ranked) - 1] == list(ranked)[-1]
    with pytest.raises(IndexError):
        ranked[len(ranked)]


def test_what_is_listed_outlives_the_file(tmp_path):
    ids = text(120, seed=3)
    aims = targets(ids, seed=3)
    record([mixed(aims[kind], 0.0, 0.9, 0.2) for kind in KINDS], ids, tmp_path / "a.regard")
    with regard.open(tmp_path / "a.regard") as recording:
        report = study.make_report(recording, top=3)
    assert len(report.told) == 3 and all(ranked.finding.rows for ranked in report.told)


# ── doubts ───────────────────────────────────────────────────────────────────────────────────


def test_a_live_recording_and_a_torn_one_say_so(tmp_path):
    store, _ = write_recording(chunks=[Chunk((0, 90), (0, 90), Causal())])
    live = study.make_report(Recording(store))
    assert "still being written" in live.doubts[0]
    page = study.report_markdown(live)
    assert "**still being written: this is about what there is so far**" in page
    store.close()
    assert not study.make_report(Recording(store)).doubts
    path = tmp_path / "a.regard"
    write_recording(path, chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    tear(path, 0.9)
    with regard.open(path) as rec:
        report = study.make_report(rec)
    assert any(doubt.startswith("damaged at byte ") for doubt in report.doubts)
    assert all(f"**{doubt[:16]}" in study.report_markdown(report) for doubt in report.doubts)


# ── as a page ────────────────────────────────────────────────────────────────────────────────


def test_the_page(planted):
    page = study.report_markdown(study.make_report(planted, top=4))
    assert page.startswith("# What the heads do: ") and page.endswith("\n")
    assert "> Weights show where a head looks" in page and "knock the head out" in page
    assert "| previous | 2 | L0H0 0.9" in page
    assert "(4 of " in page and re.search(r"^4\. \*\*", page, re.MULTILINE)
    assert not re.search(r"^5\. ", page, re.MULTILINE)
    assert "- retrieval: no needle was given" in page
    report = study.make_report(planted, top=100)
    labels = re.findall(r"^\d+\. \*\*.*$", study.report_markdown(report), re.MULTILINE)
    assert labels and all(re.search(r"\(\d\.\d\d? ?.*of ", label) for label in labels)
    assert "None asked for." in study.report_markdown(study.make_report(planted, top=0))
    assert "\nNone.\n" in study.report_markdown(replace(report, found=[]))


def test_nothing_in_a_token_becomes_markup(planted):
    report = study.make_report(planted, top=1)
    (ranked,) = report.told
    evil = replace(ranked.finding.rows[0], token="|<b>`*x*\n# [a](http://b)")
    own = replace(ranked.finding, rows=(evil,), counter=None)
    listed = [Ranked(ranked.head, own, 1.0)]
    page = study.report_markdown(replace(report, found=listed, title="</p>\n# T"))
    assert r"\|\<b\>\`\*x\*" in page and "<b>" not in page.replace(r"\<b\>", "")
    assert "\n# T" not in page and r"\</p\> \# T" in page


CHANGES = {"delta_logit": -0.5, "typical_delta_logit": 0.02, "kl": 0.125, "typical_kl": 0.001,
           "delta_logprob": -0.33, "typical_delta_logprob": 0.03}  # fmt: skip


def test_knock_outs_stand_beside_what_they_are_about(planted):
    evidence = {"text": CHANGES, "copying": CHANGES | {"delta_logit": -1.25}}
    first = study.make_report(planted).told[0].head.label
    report = study.make_report(planted, knocked={first: evidence})
    assert f"   {knock_out_sentence(evidence)}." in study.report_markdown(report)
    assert json.loads(json.dumps(report.as_dict()))["knocked"] == {first: evidence}
    for number in ("-0.50", "+0.02", "0.125", "0.001", "-1.25", "-0.33"):
        assert number in knock_out_sentence(evidence)


# ── words ────────────────────────────────────────────────────────────────────────────────────


def test_a_sentence_has_the_label_its_numbers_and_rows():
    assert words_of(rows=(ROW,)) == (
        "L5H1 looks at the token before (0.83 of its mass; chance 0.01); "
        "best seen at row 412 ' moon' (0.98)"
    )
    assert words_of(0.5, score=0.4, conditional=0.8).endswith(
        "(0.40 of its mass; chance 0.01; 0.80 of what is not on sinks)"
    )
    unknown = words_of(0.4, chance=NAN, conditional=NAN)
    assert "chance" not in unknown and "nan" not in unknown
    low = SeenAt(17, 17, "\n", 0.02, True, 3, "\x1b[2J", 0.7)
    assert words_of(rows=(ROW,), counter=low).endswith(
        r"; not at row 17 '\n' (0.02), which looks at key 3 '\x1b[2J' (0.70)"
    )
    assert "which looks" not in words_of(counter=replace(low, key=None, weight=None))
    bins = SeenAt(17, 19, "a", 0.5, False)
    assert words_of(counter=bins).endswith("; least at rows 17–19 'a' (at least 0.50)")
    assert len(words_of(rows=(replace(ROW, token="x" * 500),))) < 160


@pytest.mark.parametrize(
    ("pattern", "detail", "words"),
    [
        ("offset", {"offset": 5}, "looks 5 tokens back"),
        ("offset", {"offset": -1}, "looks 1 token ahead"),
        ("offset", {"offset": 65, "to": 67}, "looks 65–67 tokens back"),
        ("offset", {"offset": -4, "to": -3}, "looks 3–4 tokens ahead"),
        ("sink", {"keys": [0], "tokens": ["<s>"]}, "parks on key 0 '<s>'"),
        ("sink", {"keys": [0, 7], "tokens": ["<s>", "."]}, "parks on keys 0 '<s>', 7 '.'"),
        ("sink", {"keys": [0]}, "parks on key 0"),
        ("sink", {"keys": [1, 2, 3, 4, 5]}, "parks on keys 1, 2, 3 and 2 more"),
        ("sink", {"keys": [], "learned": 0.9}, "parks on a learned sink"),
        ("sink", {"keys": [0], "learned": 0.4}, "parks on key 0 and a learned sink"),
    ],
)
def test_where_a_head_looks_in_words(pattern, detail, words):
    assert what_it_does(finding(pattern, detail=detail))[0] == words


def test_every_pattern_has_words():
    for pattern in every_pattern():
        detail = {"offset": 3, "keys": [0], "max_score": 120.0}
        words = words_of(
            pattern=pattern.name, score=0.5, chance=NAN, conditional=NAN, detail=detail
        )
        assert words.startswith("L5H1 ") and "0.50 of " in words
    assert "not why the model answers" in CAVEAT and "knock the head out" in KNOCK_OUT


@given(st.floats(0, 1))
def test_figures_are_short_and_near(number: float) -> None:
    words = in_figures(number)
    assert len(words) <= 7
    if words == "<0.001":
        assert 0 < number < 0.0005
    else:
        assert float(words) == pytest.approx(number, rel=0.06, abs=0.005 if number > 0.09 else 1e-9)


def test_labels_are_findings_that_hold():
    both = head(finding(), finding("sharp", why_not="0.1 is below the threshold of 0.5"))
    assert both.labels == ("previous",) and str(both) == "L5H1: previous 0.83"
    assert both["previous"].holds and not both["sharp"].holds
    nothing = head(finding(why_not="too little"))
    assert nothing.labels == () and str(nothing) == "L5H1: unclear"
    assert nothing.as_dict()["labels"] == ["unclear"]
    with pytest.raises(InputError, match="no pattern 'grammar'; there are previous, sharp"):
        both["grammar"]


@pytest.mark.parametrize(
    ("causal", "why_not", "name"),
    [(None, "", "prefix-matching"), (0.05, "", "prefix-matching"), (-3.0, "", "prefix-matching"),
     (0.1, "", "induction"), (5.0, "below", "prefix-matching")],
)  # fmt: skip
def test_induction_needs_causal_evidence(causal, why_not, name):
    own = finding("prefix-matching", causal=causal, why_not=why_not)
    assert own.name == name and own.as_dict()["pattern"] == name
    assert head(own)["prefix-matching"] is own  # by either name
    words = study.sentence(head(own), own)
    assert ("and writes it" in words) == ("its knock-out lowers" in words) == (name == "induction")
    assert finding("previous", causal=9.0).name == "previous"


# ── over many documents ──────────────────────────────────────────────────────────────────────


class Grids:
    """Merged numbers that are nothing but their grids."""

    def __init__(self, keys: int = 100, /, **grids: np.ndarray) -> None:
        self._grids, self.keys = grids, keys
        (shape,) = {grid.shape for grid in grids.values()}
        self._unknown = np.full(shape, NAN)
        self.stacks = {"": shape}
        self.tokens, self.documents = 1000, 10

    def grid(self, name: str, stack: str | None = None) -> np.ndarray:
        return self._grids.get(name, self._unknown)


def outlying(keys: int = 100, **grids: np.ndarray) -> list[tuple[str, str]]:
    return [(one.label, one.statistic) for one in outliers(Grids(keys, **grids))]


def test_noise_in_a_layer_of_equals_is_no_news():
    grid = np.full((3, 8), 0.25) + np.random.default_rng(0).normal(0, 1e-4, (3, 8))
    assert outlying(previous=grid) == []
    grid[1, 5] = 0.9
    (one,) = outliers(Grids(previous=grid))
    assert (one.label, one.statistic, one.value) == ("L1H5", "previous", 0.9)
    assert one.deviations > 20 and one.median == pytest.approx(0.25, abs=1e-3)
    unknown = np.array([[0.1, 0.1, NAN, 0.1, 0.8], [NAN] * 5])
    assert outlying(previous=unknown) == [("L0H4", "previous")]


def test_a_head_is_named_once_and_the_oddest_come_first():
    before, own = np.full((2, 6), 0.1), np.full((2, 6), 0.1)
    before[0, 2], own[0, 2], own[1, 4], own[1, 1] = 0.9, 0.5, 0.7, 0.3
    names = [(one.label, one.statistic) for one in outliers(Grids(previous=before, self=own), n=2)]
    assert names == [("L0H2", "previous"), ("L1H4", "self")]
    assert len(outliers(Grids(previous=before, self=own), n=9)) == 3


def test_numbers_are_held_against_their_range():
    """A nat and a half is far from the others among 3 keys, and little among a million."""
    entropy = np.array([[2.0, 2.0, 3.5, 2.0, 2.0, 2.0]])
    near, far = (outliers(Grids(n, entropy=entropy))[0] for n in (3, 1_000_000))
    assert near.deviations == pytest.approx(far.deviations * np.log(1e6) / np.log(3))
    scores = np.array([[10.0, 10.0, 10.0, 10.5], [500.0, 500.0, 500.0, 10.0]])
    assert outlying(max_score=scores) == [("L1H3", "max_score")]


def test_the_first_token_and_documents_of_a_few_tokens_are_no_discovery():
    """Neither mass on it, nor that a head which parks there looks at one key."""
    first, sharp = np.full((2, 6), 0.1), np.full((2, 6), 0.1)
    first[0, 2] = sharp[0, 2] = sharp[1, 4] = 0.95
    assert outlying(first=first, sharp=sharp) == [("L1H4", "sharp")]
    few = Grids(first=first, sharp=sharp)
    few.tokens, few.documents = 5000, 1000
    assert outliers(few) == []


@pytest.mark.parametrize("statistic", _TELLING)
def test_every_outlier_is_a_sentence(statistic):
    assert statistic in STATISTICS
    own = Outlier("L0H1", statistic, 0.62, 0.13, 9.0, (0, 1))
    assert own.sentence.startswith("L0H1 ") and "0.62" in own.sentence
    assert own.sentence.endswith("its layer's median is 0.13")
    assert own.as_dict()["sentence"] == own.sentence


def test_sixteen_thousand_tokens(tmp_path: Path) -> None:
    with Writer(tmp_path / "long.regard") as writer:
        write_large(writer, 16_384, layers=3, heads=5, exact_layer=1)
    with regard.recording.open(tmp_path / "long.regard") as recording:
        tracemalloc.start()
        report = study.make_report(recording, top=100)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert report.counts()["previous"] == 3
    assert peak < 200e6  # a matrix of one head would take 1 GB
