"""Bytes in, bytes out: what is packed is unpacked, what is kept is bounded, what is not ours is
refused."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.colour import TIMES_UNIFORM
from regard.viewer.guard import HEADERS, Guard
from regard.viewer.packing import Packed
from regard.views.cache import Cache
from regard.views.uniform import HIDDEN, encode_times

FLOATS = arrays.arrays(np.float32, arrays.array_shapes(max_dims=2, min_side=0, max_side=8))
PORT, TOKEN = 4321, "b" * 32


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


# ── what is kept ─────────────────────────────────────────────────────────────────────────────


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=40),
)
@example(limit=10, asked=[(0, 6), (1, 6), (0, 6)])
def test_no_more_is_kept_than_fits(limit: int, asked: list[tuple[int, int]]) -> None:
    cache, sizes = Cache(limit), {}
    for key, size in asked:
        value = cache.get(key, lambda size=size: size, lambda made: made)
        assert value == sizes.get(key, size) or value == size
        sizes[key] = value
        assert 0 <= cache.used <= limit
        if value <= limit:  # what was asked for last is there still
            assert cache.get(key, lambda: pytest.fail("made again"), lambda made: made) == value
    assert len(cache) <= len(sizes)


# ── who may ask ──────────────────────────────────────────────────────────────────────────────


async def _yes(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"secret"})


def ask(headers: list[tuple[bytes, bytes]], method: str, path: str) -> tuple[int, bytes, dict]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(Guard(_yes, TOKEN, PORT)(scope, None, send))
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


NAMES = st.sampled_from([b"host", b"Host", b"origin", b"sec-fetch-site", b"x-regard-token",
                         b"x-forwarded-host", b"cookie"])  # fmt: skip
VALUES = st.sampled_from([b"127.0.0.1:4321", b"localhost:4321", b"evil.example:4321", b"127.0.0.1",
                          b"http://127.0.0.1:4321", b"http://evil.example", b"null", b"",
                          b"same-origin", b"cross-site", TOKEN.encode(), b"\xff\xfe"])  # fmt: skip


@given(
    st.sampled_from([[], [(b"host", b"127.0.0.1:4321"), (b"x-regard-token", TOKEN.encode())]]),
    st.lists(st.tuples(NAMES, VALUES), max_size=3),
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"]),
    st.sampled_from(["/", "/api/recordings", "/api/", "/API/x", "//api/x"]),
)
def test_no_headers_in_any_company_get_at_an_answer(
    right: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]], method: str, path: str
) -> None:
    """A right request, or nothing at all, with any headers behind it."""
    headers = right + more
    status, body, said = ask(headers, method, path)
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value)
    hosts = by_name.get(b"host", [])
    ours = hosts in ([b"127.0.0.1:4321"], [b"localhost:4321"])
    origins = all(o == b"http://" + hosts[0] for o in by_name.get(b"origin", [])) if ours else False
    sites = set(by_name.get(b"sec-fetch-site", [])) <= {b"same-origin", b"none"}
    token = by_name.get(b"x-regard-token") == [TOKEN.encode()] or not path.startswith("/api/")
    allowed = ours and origins and sites and method in ("GET", "HEAD") and token
    assert (status == 200) == allowed
    if not allowed:
        assert b"secret" not in body
        assert method == "HEAD" or set(json.loads(body)) == {"error"}
    for name, text in HEADERS.items():
        assert said[name.encode()] == text.encode()


def test_a_server_that_starts_and_stops_is_let_through() -> None:
    heard = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(scope["type"])

    asyncio.run(Guard(app, TOKEN, PORT)({"type": "lifespan"}, None, None))
    assert heard == ["lifespan"]
