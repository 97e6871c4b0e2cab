"""What a page carries of a recording: how much, how exactly, packed how, and what it says of it."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.colour import TIMES_UNIFORM
from regard.errors import InputError
from regard.study import make_report
from regard.viewer import answers
from regard.viewer.carried import carried_recording, chosen_labels
from regard.viewer.carried_tracks import STEPS, pack_tracks
from regard.viewer.opened import Opened
from regard.viewer.packing import Packed, deflated
from regard.views.profiles import Track
from regard.views.uniform import HIDDEN, encode_times
from support.recordings import WORDS, in_memory
from viewer.served import make_empty
from viewer.shell import facts_of

LONG = [f"w{n % 90}" for n in range(900)]


@pytest.fixture(scope="module")
def small():
    return in_memory(exact=(0, 1), prompts=2)[0]


@pytest.fixture(scope="module")
def long():
    return in_memory(LONG, exact=(0,))[0]


def test_a_small_recording_is_carried_whole_and_exactly(small):
    data, blobs = carried_recording(small)
    facts = facts_of(blobs)
    assert data["carries"]["form"] == "exact"
    assert data["carries"]["heads"] == small.labels() == list(facts["heads"])
    assert len(blobs) == 1 + len(small.labels())
    assert facts["tokens"]["tokens"]["tokens"] == WORDS
    assert "every head" in data["carries"]["words"][0]


def test_what_the_server_answers_is_in_it(small):
    facts = facts_of(carried_recording(small)[1])
    want = answers.overview(Opened(small))
    assert facts["overview"]["statistics"] == want["statistics"]
    found = facts["overview"]["stacks"][0]["grids"]["entropy"]
    np.testing.assert_allclose(found, want["stacks"][0]["grids"]["entropy"], rtol=1e-8)
    head, wanted = facts["heads"]["L1H2"], answers.head_facts(Opened(small), 0, "L1H2")
    wanted |= {name: list(wanted[name]) for name in ("shape", "recorded")}  # as JSON has them
    same = ("shape", "recorded", "kind", "streams", "statistics", "exact")
    assert {k: head[k] for k in same} == {k: pytest.approx(wanted[k]) if k == "statistics"
                                          else wanted[k] for k in same}  # fmt: skip


def test_one_prompt_is_number_0_of_its_file(small):
    data, blobs = carried_recording(small, prompt=-1, heads="L0H1")
    facts = facts_of(blobs)
    assert [one["title"] for one in facts["overview"]["prompts"]] == ["text 1"]
    assert (facts["overview"]["prompt"], facts["listing"]["prompts"]) == (0, 1)
    assert data["carries"]["words"][0].endswith("prompt 1 of its 2.")


def test_layers_and_heads_are_chosen_by_label(small):
    view = small.prompts[0]
    assert chosen_labels(view, "all") == view.labels() == chosen_labels(view, None)
    assert chosen_labels(view, ["l1", "L0H3"]) == ["L0H3", "L1H0", "L1H1", "L1H2", "L1H3"]
    for wrong in ("L9", "L0H9", "x", ""):
        with pytest.raises(InputError):
            chosen_labels(view, wrong)
    with pytest.raises(InputError, match="no head was named"):
        chosen_labels(view, [])


def test_findings_are_those_of_the_carried_heads(small):
    report = make_report(small)
    facts = facts_of(carried_recording(small, heads=["L0"], report=report)[1])
    assert {one["label"] for one in facts["findings"]["heads"]} == set(chosen_labels(
        small.prompts[0], "L0"))  # fmt: skip
    assert all(one["layer"] == 0 for one in facts["findings"]["findings"])
    assert facts["findings"]["counts"] == report.counts()


def test_less_room_means_coarser_weights_then_maps_within_the_limit(long):
    every = []
    for limit in (8_000_000, 3_000_000, 1_500_000, 400_000, 200_000, 60_000):
        data, blobs = carried_recording(long, heads="L0", limit=limit)
        assert sum(len(base64.b64encode(blob)) for blob in blobs) <= limit
        every.append(data["carries"])
    assert [each["form"] for each in every] == ["exact", "rounded", "rounded", *["pooled"] * 3]
    assert 0 == every[0]["step"] < every[1]["step"] < every[2]["step"]
    assert every[2]["words"][1].startswith("Weights are rounded to 0.0")


def test_a_map_in_place_of_weights_says_so(long):
    data, blobs = carried_recording(long, heads="L0", limit=200_000)
    facts = facts_of(blobs)
    head = facts["heads"]["L0H0"]
    assert head["exact"] is False
    assert "the recording has every weight" in head["why_not"]
    assert head["levels"]["mean"] == head["levels"]["max"] != []
    assert [one["exact"] for one in facts["overview"]["heads"]] == [False] * 4
    assert "too many for every weight" in data["carries"]["words"][1]


def test_the_rows_that_findings_name_come_first(long):
    report = make_report(long)
    named = {one.head.label: one.row for one in report.found if one.row is not None}
    label = next((one for one in named if one.startswith("L0")), "L0H0")
    facts = facts_of(carried_recording(long, heads="L0", limit=200_000, report=report)[1])
    sight = facts["sights"][facts["heads"][label]["carried"]["sight"]]
    assert named.get(label, 899) in sight["rows"]


def test_heads_without_q_and_k_are_carried_as_they_were_stored(long):
    facts = facts_of(carried_recording(long, heads="L1")[1])
    head = facts["heads"]["L1H0"]
    assert (head["exact"], head["levels"]["max"], head["carried"]["sight"]) == (False, [], None)
    assert head["why_not"] == long["L1H0"].why_not


def test_a_page_without_room_is_refused(long):
    with pytest.raises(InputError, match="do not fit"):
        carried_recording(long, heads="all", limit=2_000)
    with pytest.raises(InputError):
        carried_recording(make_empty().recording)


def _track(count: int) -> Track:
    values = np.random.default_rng(1).random(count)
    return Track.of("words", np.arange(count + 1), values)


def test_fewer_points_keep_the_mean_and_the_largest():
    track = _track(1000)
    found = track.coarser(100)
    assert found.mean.size == 100
    np.testing.assert_allclose(found.mean[:3], track.mean[:30].reshape(3, 10).mean(1))
    np.testing.assert_allclose(found.largest[:3], track.mean[:30].reshape(3, 10).max(1))
    assert (found.edges[0], found.edges[-1]) == (0, 1000)


def test_few_points_stay_as_they_are():
    track = _track(64)
    assert track.coarser(64) is track


def test_the_largest_is_packed_only_where_it_differs():
    packed = Packed()
    told = pack_tracks(packed, {"a": _track(64), "b": _track(640).coarser(64), "c": None},
                       exact=False)  # fmt: skip
    assert [one["name"] for one in packed.parts] == ["a/mean", "b/mean", "b/largest"]
    assert told["a"] == {"words": "words", "span": [0, 64], "edges": None}
    assert told["b"]["edges"][:3] == [0, 10, 20]
    assert told["c"] is None
    assert packed.parts[0]["step"] * STEPS == _track(64).mean.max()


def test_an_exact_curve_keeps_its_digits():
    packed = Packed()
    pack_tracks(packed, {"a": _track(8)}, exact=True)
    assert packed.parts == [{"name": "a/mean", "form": "exact", "count": 8}]


FLOATS = arrays.arrays(np.float32, arrays.array_shapes(max_dims=2, min_side=0, max_side=8))


# ── packed numbers ───────────────────────────────────────────────────────────────────────────


def unpacked(packed: Packed) -> dict[str, np.ndarray]:
    """As the page reads it: by the list of parts alone."""
    content, found, at = zlib.decompress(packed.content()), {}, 0
    for part in packed.parts:
        count, width = part["count"], {"exact": 4, "rounded": 3, "codes": 1}[part["form"]]
        raw = np.frombuffer(content[at : at + width * count], np.uint8).reshape(width, count)
        at += width * count
        if part["form"] == "exact":
            numbers = np.ascontiguousarray(raw.T).view("<f4").ravel()
        elif part["form"] == "rounded":
            codes = raw.T.astype(np.int64) @ [1, 256, 65536]
            numbers = np.where(codes == 2**24 - 1, np.nan, codes * part["step"])
        else:
            numbers = raw.ravel().reshape(part["size"])
        found[part["name"]] = numbers
    assert at == len(content)
    return found


@given(st.lists(FLOATS, max_size=4), arrays.arrays(np.uint8, (3, 5)))
def test_any_parts_come_back_in_order(given: list[np.ndarray], codes: np.ndarray) -> None:
    packed = Packed()
    for number, values in enumerate(given):
        packed.exact(f"w{number}", values)
    packed.codes("map", codes)
    assert packed.parts[-1] == {"name": "map", "form": "codes", "count": 15, "size": [3, 5]}
    found = unpacked(packed)
    assert list(found) == [*(f"w{n}" for n in range(len(given))), "map"]
    for number, values in enumerate(given):
        assert found[f"w{number}"].tobytes() == values.astype("<f4").tobytes()
    np.testing.assert_array_equal(found["map"], codes)


@given(
    arrays.arrays(np.float64, 9, elements=st.floats(0, 1) | st.just(np.nan)),
    st.sampled_from([2.0**-8, 2.0**-14, 2.0**-20]),
)
def test_rounding_costs_half_a_step_and_keeps_nan(values: np.ndarray, step: float) -> None:
    packed = Packed()
    packed.rounded("w", values, step)
    found = unpacked(packed)["w"]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
    some = ~np.isnan(values)
    assert (np.abs(found - values)[some] <= step / 2 * (1 + 1e-9)).all()


# ── codes ────────────────────────────────────────────────────────────────────────────────────


@given(
    arrays.arrays(np.float64, (4, 5), elements=st.floats(0) | st.just(np.nan)),
    arrays.arrays(bool, (4, 5)),
)
def test_only_the_hidden_and_the_broken_are_drawn_as_nothing(
    times: np.ndarray, hidden: np.ndarray
) -> None:
    found = encode_times(times, hidden)
    broken = np.isnan(times) & ~hidden
    np.testing.assert_array_equal(found.codes == HIDDEN, hidden | broken)
    assert found.nan == broken.sum()
    flat = ~(hidden | broken)
    order = np.argsort(times[flat], kind="stable")
    assert (np.diff(found.codes[flat][order].astype(int)) >= 0).all()
    ends = (times[flat] >= TIMES_UNIFORM.high) == (found.codes[flat] == 255)
    near = np.abs(np.log(np.maximum(times[flat], 1e-300) / TIMES_UNIFORM.high)) < 0.05
    assert (ends | near).all()


def test_text_is_deflated():
    assert zlib.decompress(deflated(b"a" * 1000)) == b"a" * 1000
