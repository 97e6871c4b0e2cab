"""Numbers in, bytes out: what is packed is unpacked, and what is drawn can be told apart."""

from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.colour import TIMES_UNIFORM
from regard.viewer.packing import Packed, deflated
from regard.views.uniform import HIDDEN, encode_times

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
