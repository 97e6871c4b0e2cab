"""What a label needs and what takes it away: mass outside sinks, enough independent rows, more than
chance and repeats explain, and a head that leaves its chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.axes import Grid
from regard.errors import InputError
from regard.recording import Recording
from regard.score import ScoreRule
from regard.study.heads import WITHHELD
from regard.study.pattern.connected import largest_piece
from regard.views.findings import report_answer
from study.conftest import (
    even,
    head_of,
    head_of_patches,
    heads_of,
    on_first,
    planted_head,
    record,
)
from study.patternless import Random, labels_given
from support.recordings import Chunk, write_recording
from support.recordings.planted import Planted, Words, causal, mixed, targets, text

N = 200


def repeating(count: int, phrase: int, at: int) -> np.ndarray:
    """Distinct tokens, of which `phrase` come again, once."""
    ids = np.random.default_rng(phrase).permutation(np.arange(2, 4 * count))[:count]
    ids[0] = 0
    ids[at : at + phrase] = ids[30 : 30 + phrase]
    return ids


def parked(target: np.ndarray, strength: float = 0.95, sink: float = 0.97) -> np.ndarray:
    """(N, N): rows that have a target look at it, all others park on key 0."""
    sees = causal(len(target))
    weights = (1 - sink) * even(len(target))
    weights[:, 0] += sink
    rows = (target & sees).any(-1)
    aimed = (target & sees)[rows]
    weights[rows] = strength * aimed / aimed.sum(-1, keepdims=True)
    weights[rows] += (1 - strength) * even(len(target))[rows]
    return weights


def at(offset: int, n: int) -> np.ndarray:
    return np.eye(n, k=-offset, dtype=bool)


# ── rows and chance ──────────────────────────────────────────────────────────────────────────


def test_two_rows_are_no_evidence_and_neither_is_one_token():
    ids = np.arange(64)
    ids[40:42] = ids[10:12]
    finding = planted_head("prefix-matching", ids)["prefix-matching"]
    assert finding.score > 0.9 and finding.n_rows == 2
    assert finding.why_not == "2 rows could have done otherwise; 8 needed"
    ids = np.arange(N) + 5
    ids[100:200:2] = 3  # one word, fifty times
    head = planted_head("duplicate-token", ids, 0.2)
    assert head["duplicate-token"].n_rows == 49 and head["duplicate-token"].score > 0.7
    assert "duplicate-token" not in head.labels
    ids = repeating(N, 10, 150)  # mass of one row of ten
    weights = on_first(N)
    weights[155] = mixed(targets(ids)["duplicate-token"])[155]
    head = head_of(weights, ids)
    assert head["duplicate-token"].n_rows == 10 and head.labels == ("sink",)


def test_a_short_text_shows_nothing_but_what_the_mask_forces():
    report = study.make_report(record(mixed(targets(text(12))["previous"]), text(12)))
    assert report.doubts == ["12 tokens: labels need 16, fewer show nothing"]
    assert report.counts() == {"unclear": 1}
    assert report.heads[0]["previous"].why_not == "a text of 12 tokens; 16 needed"
    for length, mask, wanted in (
        (6, regard.Window(left=0), {"self"}), (6, regard.Window(left=1), set()),
        (1, regard.Causal(), set()),  # one row is no pattern
    ):  # fmt: skip
        (_, given), *_ = labels_given(length, mask, 1, (0,))
        assert given == wanted


def test_where_masks_do_not_say_half_of_a_row_is_chance():
    """As of a table, of which nobody knows which distances a row sees."""
    ids = text(100)
    weights = np.stack([mixed(targets(ids)["previous"], strength=s) for s in (0.95, 0.55)])
    sees = torch.ones(100, 100, dtype=torch.bool).tril()
    model = Planted(weights[None])
    model.mask = regard.mask.Table(sees)
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as made:
        model(torch.tensor(ids)[None])
    strong, weak = study.patterns(made, evidence="none")
    assert strong.labels == ("previous",) and math.isnan(strong["previous"].chance)
    assert "chance gives as much" in weak["previous"].why_not


def test_labels_are_withheld_where_no_head_leaves_its_chance():
    """In one sentence, and until a head does."""
    model, ids = Random(regard.Causal(), 4, 16, 0), torch.tensor(text(120))[None]
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
        model(ids)
    report = study.make_report(recording)
    assert report.counts() == {"unclear": 4} and report.withheld == WITHHELD
    assert report.heads[0]["uniform"].why_not == WITHHELD
    assert report.heads[0]["uniform"].score > 0.95  # the statistics stay
    assert f"None.\n\nN{WITHHELD[1:]}." in study.report_markdown(report)
    assert report_answer(report)["why_nobody"] == WITHHELD
    ids = text(N)
    kinds = [mixed(targets(ids)[kind], 0.0, 0.97, 0.2) for kind in ("uniform", "previous")]
    assert head_of(kinds[0], ids).labels == ()
    assert [head.labels for head in heads_of(kinds, ids)] == [("uniform",), ("previous",)]


# ── sinks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [20, 60, 400])
def test_a_pure_sink_is_neither_sharp_nor_an_offset(n):
    """Every row has the first token at a distance of its own; the last distances have one row."""
    head = head_of(on_first(n), text(n, words=4000))
    assert head.labels == ("sink",) and head["sharp"].score == 1
    assert "0 without sinks" in head["sharp"].why_not and math.isnan(head["sharp"].conditional)
    assert head["offset"].score < 0.2 or n < 40


def test_a_sink_may_be_any_key_and_a_full_stop_that_is_one_is_no_delimiter_pattern():
    ids = text(300, words=200)
    stop = int(np.flatnonzero(ids == 1)[2])
    weights = even(300)
    weights[stop:] *= 0.3
    weights[stop:, stop] += 0.7
    head = head_of(weights, ids)
    assert head.labels == ("sink",)
    assert head["sink"].detail["keys"] == [stop] and head["sink"].detail["tokens"] == ["."]
    assert head["delimiter"].score > 0.6 and "without sinks" in head["delimiter"].why_not


@pytest.mark.parametrize("window", [80, 200])
def test_a_sliding_head_rests_on_the_first_token_while_it_sees_it(window):
    """Most rows do not: the mean over all of them would hide it."""
    ids, near = text(900), np.tril(np.triu(np.ones((900, 900)), 1 - window))
    weights = near / near.sum(-1, keepdims=True)
    weights[:window] *= 0.1
    weights[:window, 0] += 0.9
    model = Planted(weights[None, None])
    model.mask = regard.Window(window - 1)
    with torch.no_grad(), regard.record(model) as made:
        model(torch.tensor(ids)[None])
    (head,) = study.patterns(made)
    assert "sink" in head.labels and head["sink"].detail["keys"] == [0]
    assert head["sink"].score == pytest.approx(0.9, abs=0.02) and head.sink < 0.3
    assert head["sink"].n_rows <= window


# ── copies ───────────────────────────────────────────────────────────────────────────────────

COPIES = pytest.mark.parametrize("kind", ["prefix-matching", "duplicate-token"])


@pytest.mark.parametrize("budget", [None, "60kB", "30kB"])
@COPIES
def test_a_head_that_parks_elsewhere_is_known_by_the_rows_it_acts_in(kind, budget):
    """And one that parks in these very rows is not."""
    ids = repeating(512, 20, 400)
    head = head_of(parked(targets(ids)[kind]), ids, budget=budget)
    assert head.non_sink < 0.1  # of all rows
    assert head.labels == ("sink", kind)
    assert head[kind].n_rows == 20 and head[kind].score == pytest.approx(0.95, abs=0.01)
    ids = text(300, words=100)
    head = head_of(mixed(targets(ids)[kind], 0.961), ids, budget=budget)
    assert head.labels == ("sink",) and head[kind].score < 0.05


def test_the_share_of_the_rest_is_that_of_the_same_rows():
    ids = text(240, words=100)
    aim = targets(ids)["duplicate-token"]
    weights = mixed(aim, 0.3)
    without = ~aim.any(-1)
    weights[without] = on_first(240)[without]
    head = head_of(weights, ids)
    assert head["duplicate-token"].score == pytest.approx(0.7, abs=0.01)
    assert head["duplicate-token"].conditional == pytest.approx(1, abs=0.01)
    assert head.non_sink < 0.6 and set(head.labels) == {"sink", "duplicate-token"}


def test_sinks_and_chance_explain_copies():
    ids = np.where(np.arange(N) % 2, np.arange(N) + 10, 5)  # every second token is the first
    head = head_of(0.8 * on_first(N) + 0.2 * even(N), ids)
    finding = head["duplicate-token"]
    assert head.labels == ("sink",) and finding.score > 0.8
    assert "without sinks" in finding.why_not and finding.conditional < 0.6
    head = planted_head("uniform", np.full(80, 7))  # a text of one word
    assert head["duplicate-token"].chance > 0.9 and head.labels == ("uniform",)


# ── delimiters ───────────────────────────────────────────────────────────────────────────────


def test_delimiters_are_judged_against_their_share():
    ids = text(250)
    stops, weights = ids == 1, mixed(targets(ids)["delimiter"], 0.4, 0.9)
    head = head_of(weights, ids)
    finding = head["delimiter"]
    assert finding.score == pytest.approx(weights[:, stops].sum(-1).mean(), abs=1e-4)
    assert finding.conditional == pytest.approx(finding.score / 0.6, abs=0.03)
    assert set(head.labels) == {"sink", "delimiter"}
    for seen in finding.rows:
        assert ids[seen.key] == 1 and seen.key_token == "."
    assert finding.counter.row >= np.flatnonzero(stops)[0]  # rows before it see none
    head = planted_head("uniform", ids)
    assert head["delimiter"].score == pytest.approx(head["delimiter"].chance, abs=1e-4)
    head = planted_head("self", np.append(0, np.full(89, 1)), strength=0.9)
    assert head["delimiter"].score > 0.9 and head.labels == ("self",)  # punctuation alone
    why = "this text has no punctuation and no line break"
    assert planted_head("self", np.arange(80) + 5)["delimiter"].why_not == why


# ── distances ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("budget", [None, "60kB"])
@pytest.mark.parametrize(("count", "start"), [(512, 400), (400, 320), (256, 150)])
def test_a_repeated_passage_is_no_offset(count, start, budget):
    ids = repeating(count, 80, start)
    head = head_of(parked(targets(ids)["prefix-matching"]), ids, budget=budget)
    assert head.labels == ("sink", "prefix-matching")
    assert budget or head["offset"].score > 0.3


def test_a_repeated_text_explains_its_own_offset_and_no_other():
    """BOS + r + r: what follows a copy stands at one distance throughout."""
    r = np.random.default_rng(0).permutation(np.arange(2, 500))[:80]
    ids = np.concatenate([[0], r, r])
    head = planted_head("prefix-matching", ids, strength=0.95)
    assert head.labels == ("prefix-matching",)
    assert head["offset"].detail == {"offset": 79} and head["offset"].score > 0.9
    assert "repeats itself every 79 tokens" in head["offset"].why_not
    for distance, own in ((12, ids), (5, repeating(300, 80, 200)), (12, np.arange(200) + 2)):
        head = head_of(mixed(at(distance, own.size), strength=0.9), own)
        assert head.labels == ("offset",) and head["offset"].detail == {"offset": distance}
    assert "no token of this text comes twice" in head["duplicate-token"].why_not


def test_a_previous_token_head_in_a_text_of_pairs():
    """Every other token is the same: half of the rows could look for copies as well."""
    ids = repeating(N, 0, 0)
    ids[2::2] = 7
    head = planted_head("previous", ids, strength=0.95)
    assert "previous" in head.labels and head["previous"].n_rows < 110


def test_of_equal_distances_the_nearest_is_told_and_one_ahead_as_such():
    ids = text(120, words=4000)
    both = (mixed(at(7, 120)) + mixed(at(30, 120))) / 2
    both[:30] = (mixed(at(7, 120))[:30] + mixed(at(0, 120))[:30]) / 2
    head = head_of(both, ids)
    assert head["offset"].detail["offset"] in (7, 30) and "offset" in head.labels
    ahead = torch.full((4, 90, 90), -30.0)
    ahead[:, np.arange(87), np.arange(87) + 3] = 0  # as an encoder may
    store, _ = write_recording(
        chunks=[Chunk((0, 90), (0, 90), None, ScoreRule(1.0))],
        query=ahead, key=torch.eye(90).expand(2, 90, 90), dim=90,
    )  # fmt: skip
    head = study.patterns(Recording(store))[0]
    assert "offset" in head.labels and head["offset"].detail == {"offset": -3}
    assert head["offset"].chance == pytest.approx(1 / 90)
    assert "looks 3 tokens ahead" in study.sentence(head, head["offset"])
    assert head["offset"].rows[0].key == head["offset"].rows[0].row + 3


def test_distances_that_share_bins():
    """On so small a budget that those beyond 64 do; near ones never."""
    n, ids = 400, text(400)
    weights = [mixed(at(100, n), strength=0.9), on_first(n), mixed(at(1, n)), mixed(at(0, n))]
    coarse = record(weights, ids, budget="480kB")
    place = coarse["L0H0"].place
    assert 1 < place.key_bin <= 8 and np.diff(coarse["L0H0"].stored["offsets"].edges).max() > 1
    far, sink, previous, oneself = study.patterns(coarse)
    detail = far["offset"].detail
    assert "offset" in far.labels and detail["offset"] <= 100 <= detail.get("to", 100)
    assert far["offset"].score == pytest.approx(0.9, abs=0.03)
    words = study.sentence(far, far["offset"])
    assert f"looks {detail['offset']}" in words and "tokens back" in words
    assert sink["offset"].score < 0.1 and "offset" not in sink.labels
    assert "previous" in previous.labels and previous["previous"].detail == {"offset": 1}
    assert "self" in oneself.labels


@pytest.mark.parametrize("count", [128, 160, 200, 320])
@pytest.mark.parametrize("strength", [1.0, 0.9])
def test_a_neighbourhood_of_64_is_seen_in_texts_not_much_longer(count, strength):
    head = planted_head("local-64", text(count), strength=strength)
    assert head.labels == ("local-64",) and head["local-64"].n_rows == count - 64
    head = planted_head("uniform", text(count))
    assert head.labels == ("uniform",)
    assert "of what chance leaves over" in head["local-64"].why_not


def test_a_neighbourhood_is_none_where_chance_or_one_distance_explains_it():
    assert "local-64" not in planted_head("local-64", text(120), strength=0.95).labels
    store, _ = write_recording(chunks=[Chunk((0, 90), (0, 90), regard.Window(7))])
    for head in study.patterns(Recording(store)):  # no row sees more than 8 tokens
        assert head["local-8"].score == pytest.approx(1, abs=1e-5)
        assert head["local-8"].chance == pytest.approx(1)
        assert "local-8" not in head.labels and "local-64" not in head.labels
    ids = text(300)
    previous, oneself, near = (mixed(targets(ids)[k]) for k in ("previous", "self", "local-8"))
    two = head_of((previous + oneself) / 2, ids)
    assert two.labels == ("previous", "self")
    assert two["local-8"].why_not == "a sharper label says it"
    assert head_of(0.25 * previous + 0.75 * near, ids).labels == ("previous", "local-8")


# ── the shape of rows ────────────────────────────────────────────────────────────────────────


def test_sharp_rows_on_a_sink_and_elsewhere():
    """Two rows of three park; the others look at one key each."""
    ids = text(N)
    weights = mixed(targets(ids)["sharp"])
    rests = np.arange(N) % 3 > 0
    weights[rests] = on_first(N)[rests]
    head = head_of(weights, ids)
    assert head.labels == ("sink",)  # a third of the rows look at one key that is none
    assert "without sinks" in head["sharp"].why_not
    assert head["sharp"].score == pytest.approx(1, abs=0.01)
    assert head["saturated"].score == pytest.approx(1 / 3, abs=0.03)  # rows on a sink are in health
    assert head["saturated"].conditional == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("share", "is_labelled"), [(0.4, False), (0.6, True)])
def test_the_share_of_sharp_rows(share, is_labelled):
    ids, weights = text(N), even(N)
    some = np.random.default_rng(0).random(N) < share
    weights[some] = mixed(targets(ids)["sharp"])[some]
    head = head_of(weights, ids)
    assert ("sharp" in head.labels) == is_labelled
    assert head["sharp"].score == pytest.approx(share, abs=0.08)


def test_saturated_needs_scores_that_are_a_hazard():
    ids = text(160)
    weights = mixed(targets(ids)["sharp"])
    head = head_of(weights, ids)
    assert head.labels == ("sharp",)
    assert "is 0, below 100" in head["saturated"].why_not and head["saturated"].score > 0.9
    head = head_of(weights, ids, raised=150.0)
    assert head.labels == ("sharp", "saturated")
    assert head["saturated"].detail["max_score"] == pytest.approx(150, abs=1)


def test_a_head_that_writes_nothing_is_inactive():
    """Beside the others of its layer."""
    ids, weights = text(100), np.stack([[even(100)] * 4] * 2)
    values = np.array([[1, 1, 0.001, 1.0], [1.0, 1, 1, 0.3]])
    heads = heads_of(weights, ids, values=values)
    labels_of = [head.labels for head in heads]
    assert labels_of == [("uniform", "inactive") if n == 2 else ("uniform",) for n in range(8)]
    assert np.mean([head["inactive"].score for head in heads[:4]]) == pytest.approx(1, abs=1e-5)
    assert heads[2]["inactive"].rows[0].value <= heads[2]["inactive"].counter.value
    words = study.sentence(heads[2], heads[2]["inactive"])
    assert "writes next to nothing" in words and "of its layer's mean norm" in words
    assert "no other head" in head_of(even(100), ids)["inactive"].why_not


def test_rows_in_bins_that_do_not_say_it_are_named():
    """A head that writes nothing and one that is stuck, where a bin holds all of the rows."""
    ids = text(N)
    weights, quiet = np.stack([mixed(targets(ids)["sharp"])] * 4), np.array([[1, 1, 0.001, 1.0]])
    made = record(weights, ids, budget="24kB", values=quiet, raised=150.0)
    row_bin = made["L0H0"].place.row_bin
    assert row_bin > N
    heads = study.patterns(made, evidence="none")
    words = f"rows are binned by {row_bin} in this recording"
    assert [head.not_known.get("inactive") for head in heads] == [None, None, words, None]
    assert all("one row in" in head.not_known["saturated"] for head in heads)


# ── pictures ─────────────────────────────────────────────────────────────────────────────────

GRID = Grid(12, 12, prefix=1)


def on_patches(cells: list[tuple[int, int]], strength: float = 0.9) -> study.HeadStudy:
    """A head all of whose rows look at these patches."""
    aim = np.zeros((GRID.count, GRID.count), bool)
    aim[:, [GRID.at(0, *cell) for cell in cells]] = True
    sees = np.ones((GRID.count, GRID.count), bool)
    return head_of_patches(mixed(aim, 0.0, strength, 0.1, sees=sees), GRID)


def test_patches_alone_are_sinks_and_those_that_hang_together_an_object():
    for cells in ([(5, 7)], [(5, 7), (0, 0), (8, 2)], [(5, 7), (5, 8)]):
        head = on_patches(cells)
        assert head.labels == ("sink-patch",)
        assert head["sink-patch"].detail["keys"] == sorted(GRID.at(0, *cell) for cell in cells)
        assert head["sink-patch"].score == pytest.approx(0.9, abs=0.03)
    words = study.sentence(head, head["sink-patch"])
    assert "parks on patches, keys 68 '(5, 7)', 69 '(5, 8)'" in words
    head = on_patches([(row, column) for row in (4, 5, 6) for column in (3, 4, 5)])
    assert head["sink-patch"].detail["keys"] == [] and "object" in head.labels
    assert on_patches([(5, 7), (9, 9)], 0.08).labels != ("sink-patch",)  # little more than even
    corner = on_patches([(0, 0)])  # a sink takes its mass from the border
    assert corner["border"].score > 0.9 and not corner["border"].holds
    small = head_of_patches(mixed(np.eye(40), 0, 0.9, sees=np.ones((40, 40), bool)), Grid(2, 20))
    assert small["border"].score == pytest.approx(1) and not small["border"].holds  # all border


def test_an_object_of_each_row_s_own_and_patches_strewn_about():
    """Half of the rows look at one thing, half at another; then at as many patches anywhere; then
    at one patch each."""
    grid, n = Grid(12, 12), 144
    row, column = np.divmod(np.arange(n), 12)
    bump, other = (
        np.exp(-(((row - y) / 2) ** 2) - ((column - x) / 2) ** 2) for y, x in ((3, 3), (8, 7))
    )
    aim = np.where((row < 6)[:, None], bump, other)
    strewn = np.stack([np.random.default_rng(n).permutation(own) for n, own in enumerate(aim)])
    single = np.eye(n)[np.random.default_rng(0).permutation(n)]
    sees = np.ones((n, n), bool)
    whole, apart, few = (
        head_of_patches(mixed(own, 0, strength, 0.1, sees=sees), grid)
        for own, strength in ((aim, 0.9), (strewn, 0.9), (single, 0.99))
    )
    assert "object" in whole.labels and whole["object"].score > 0.9
    assert whole["object"].n_rows == 64 and whole["object"].rows[0].value == 1
    assert not apart.labels and apart["object"].score < 2 * apart["object"].chance
    assert not few["object"].holds and few["object"].n_rows == 0


def test_pieces_are_joined_by_sides():
    def by_walking(marks: np.ndarray) -> int:
        left, best = {tuple(cell) for cell in np.argwhere(marks)}, 0
        while left:
            waiting, size = [left.pop()], 0
            while waiting:
                y, x = waiting.pop()
                size += 1
                beside = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & left
                left -= beside
                waiting += beside
            best = max(best, size)
        return best

    dice = np.random.default_rng(0)
    marks = dice.random((60, 9, 13)) < dice.random((60, 1, 1))
    assert largest_piece(marks).tolist() == [by_walking(own) for own in marks]
    assert largest_piece(np.eye(5, dtype=bool)[None]).tolist() == [1]  # corners do not join


# ── needles ──────────────────────────────────────────────────────────────────────────────────

WROTE = 10


def needle_case(copied: int, length: int, needle: range) -> tuple[np.ndarray, np.ndarray]:
    """A head that, while the needle's tokens are written, looks at the first `copied` of them; and
    one that looks at a token of the needle which is not the one written."""
    ids = text(length, words=5000)
    ids[needle.start : needle.stop] = np.arange(6000, 6000 + len(needle))
    ids[-WROTE:] = ids[needle.start : needle.start + WROTE]
    right, wrong = even(length), even(length)
    for n, row in enumerate(range(length - WROTE - 1, length - 1)):  # the row before writes it
        for weights, key in ((right, needle.start + n if n < copied else 7),
                             (wrong, needle.start + (n + 1) % len(needle))):  # fmt: skip
            weights[row] *= 0.1
            weights[row, key] += 0.9
    return np.stack([right, wrong]), ids


def test_retrieval_is_the_share_of_needle_tokens_that_were_copied():
    recording = record(*needle_case(7, 120, range(40, 50)))
    right, wrong = study.patterns(recording, needle=range(40, 50), generated=WROTE)
    assert right["retrieval"].score == pytest.approx(0.7) and "retrieval" in right.labels
    assert wrong["retrieval"].score == 0 and "retrieval" not in wrong.labels
    assert right["retrieval"].detail == {"needle": [40, 50], "rows": WROTE}
    best, ids = right["retrieval"].rows[0], recording.prompts[0].ids
    assert best.row >= 120 - WROTE - 1 and ids[best.key] == ids[best.row + 1]
    assert "copies the needle" in study.sentence(right, right["retrieval"])
    other = record(*needle_case(4, 160, range(90, 100)))
    cases = [(recording, 0, range(40, 50)), (other, 0, range(90, 100))]
    means = study.mean_retrieval(cases, generated=WROTE)
    assert means == {"L0H0": pytest.approx(0.55), "L0H1": 0.0}


def test_retrieval_by_q_and_k_where_the_heaviest_keys_were_not_kept():
    chunk = Chunk((0, 100), (0, 100), regard.Causal())
    scores = []
    for every in (1, 8):
        store, _ = write_recording(chunks=[chunk], spread=4.0, top_every=every, row_bin=every)
        heads = study.patterns(Recording(store), needle=range(60), generated=30)
        scores.append([head["retrieval"].score for head in heads])
    assert scores[0] == scores[1] and sum(scores[0]) > 0
    store, _ = write_recording(chunks=[chunk], top_every=8, row_bin=8, exact=False)
    (head, *_) = study.patterns(Recording(store), needle=range(60), generated=30)
    assert "were not kept" in head["retrieval"].why_not


def test_what_is_wrong_with_a_needle(planted):
    for needle, why in ((None, "no needle was given"),
                        (range(3, 9), "the recording has no generated tokens")):  # fmt: skip
        (head, *_) = study.patterns(planted, needle=needle)
        assert head["retrieval"].why_not == why
    for needle, generated, words in (
        (range(0), 5, "give the needle's tokens"), (range(9, 3, -1), 5, "give the needle's tokens"),
        (range(150, 158), 10, "reaches beyond the 150 tokens"),
        (range(3, 9), 999, "999 generated tokens of 160"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            study.patterns(planted, needle=needle, generated=generated)
