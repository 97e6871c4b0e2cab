"""Recordings over pictures: axes of patches and words, the pictures themselves, and layers whose
heads look near their own patch, at one kind of patch, or anywhere."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.axes import Axis, Frames, Grid, Tokens
from regard.mask import Mask
from regard.recording import Memory, Recording
from regard.recording.pictures import (
    PICTURE,
    PICTURES_NOTE,
    SPECTROGRAM,
    Picture,
    write_pictures,
)
from regard.recording.positions import AXES_NOTE, Positions
from regard.recording.schema import CONTENTS, PROMPT_NOTE, Prompt, tensor_name
from support.recordings.synthetic import Chunk, WrittenPlace, write_prompt


def scene(high: int = 96, wide: int = 96, seed: int = 0) -> NDArray[np.uint8]:
    """(high, wide, 3): two balls on a ground."""
    y, x = np.mgrid[0:high, 0:wide] / max(high, wide)
    sky = np.stack([0.55 + 0.3 * y, 0.7 + 0.2 * y, 0.95 - 0.1 * y], -1)
    sky[y > 0.7 * high / max(high, wide)] = (0.35, 0.5, 0.25)
    for n, colour in enumerate(((0.85, 0.25, 0.2), (0.2, 0.3, 0.75))):
        dice = np.random.default_rng(seed * 2 + n)
        top, left = (0.25 + 0.4 * dice.random(2)) * (high, wide) / max(high, wide)
        radius = 0.12 + 0.06 * dice.random()
        away = np.hypot(y - top, x - left) / radius
        sky[away < 1] = np.array(colour) * (1.2 - 0.5 * away[away < 1, None])
    return (sky.clip(0, 1) * 255).astype(np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """(high, wide, 3) as PNG, without any package."""
    high, wide = pixels.shape[:2]
    lines = np.concatenate([np.zeros((high, 1), np.uint8), pixels.reshape(high, wide * 3)], 1)

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in parts)


def looking(axis: Axis, heads: int, dim: int, seed: int) -> tuple[Any, Any]:
    """q, k (heads, positions, dim): even heads look near the query's own patch (waves over row and
    column, whose product is largest at distance 0), odd ones at random."""
    dice = np.random.default_rng(seed)
    q, k = dice.normal(size=(2, heads, len(axis), dim))
    for start, grid in axis.grids():
        first = start + grid.prefix
        places = grid.places[:, 1:] / max(grid.height, grid.width)
        waves = places @ dice.normal(size=(2, dim // 2)) * 6
        near = np.concatenate([np.cos(waves), np.sin(waves)], 1) * 3
        q[::2, first : first + grid.patches] = k[::2, first : first + grid.patches] = near
    return torch.tensor(q, dtype=torch.float32), torch.tensor(k, dtype=torch.float32)


def write_sighted(
    store: Any,
    axis: Axis,
    *,
    layers: int = 2,
    heads: int = 4,
    dim: int = 16,
    mask: Mask | None = None,
    tokens: Sequence[str] | None = None,
    pictures: Sequence[bytes] | None = None,
    side: int = 96,
    seconds: Sequence[float] = (),
    **options: Any,
) -> dict[int, WrittenPlace]:
    """Self-attention over an axis; the truth by layer. Without `pictures` there is a scene for each
    that the axis lies on; `seconds` are those at which they are seen, as frames of a film."""
    count, made = len(axis), {}
    stream = "" if tokens is None else "tokens"
    texts: dict[str, Any] = {"query_tokens": stream, "key_tokens": stream}
    store.note({"contents": CONTENTS, "model": json.dumps({"name": "sighted", "layers": layers})})
    for layer in range(layers):
        q, k = looking(axis, heads, dim, layer)
        made[layer] = write_prompt(
            store, [Chunk((0, count), (0, count), mask)], layer=layer, heads=heads,
            key_heads=heads, dim=dim, query=q, key=k, tokens=False, note=False, **texts, **options,
        )  # fmt: skip
    if pictures is None:
        pictures = [png(scene(side, side, n)) for n in range(_pictures(axis))]
    for n, data in enumerate(pictures):
        store.add(tensor_name(0, PICTURE, "bytes", n), np.frombuffer(data, np.uint8))
    if tokens is not None:
        text = np.frombuffer(json.dumps(list(tokens)).encode(), np.uint8)
        store.add(tensor_name(0, "tokens", "ids", 0), np.arange(count, dtype=np.int32))
        store.add(tensor_name(0, "tokens", "text", 0), text)
    times = dict(enumerate(seconds))
    noted = [
        Picture(side, side, "image/png", f"scene {n}", times.get(n)) for n in range(len(pictures))
    ]
    positions = Positions({one.place.label: (axis, axis) for one in made.values()})
    said = Prompt(count, streams=(stream,) if stream else (), title="a scene", finished=True)
    store.note({
        f"{PROMPT_NOTE}0": said.to_json(), f"{AXES_NOTE}0": positions.to_json(),
        f"{PICTURES_NOTE}0": write_pictures(noted),
    })  # fmt: skip
    return made


def write_heard(
    store: Any, tokens: Sequence[str], sound: Frames, seconds: float, *, heads: int = 4
) -> WrittenPlace:
    """Cross-attention of a text over a sound of which the first `seconds` are no silence, with a
    spectrogram of those."""
    count, stream = len(tokens), "tokens"
    store.note({"contents": CONTENTS, "model": json.dumps({"name": "heard", "layers": 1})})
    made = write_prompt(
        store, [Chunk((0, count), (0, sound.count))], heads=heads, stack="cross", kind="cross",
        tokens=False, note=False, query_tokens=stream, key_tokens="", spread=3.0,
    )  # fmt: skip
    drawn = png(scene(32, 96))
    text = np.frombuffer(json.dumps(list(tokens)).encode(), np.uint8)
    store.add(tensor_name(0, PICTURE, "bytes", 0), np.frombuffer(drawn, np.uint8))
    store.add(tensor_name(0, stream, "ids", 0), np.arange(count, dtype=np.int32))
    store.add(tensor_name(0, stream, "text", 0), text)
    axes = Axis((Tokens(count),)), Axis((sound,))
    facts = {"sound": {"start": sound.start, "seconds": seconds}}
    said = Prompt(count, streams=(stream,), title="a sound", finished=True, facts=facts)
    store.note({
        f"{PROMPT_NOTE}0": said.to_json(),
        f"{AXES_NOTE}0": Positions({made.place.label: axes}).to_json(),
        f"{PICTURES_NOTE}0": write_pictures([Picture(96, 32, "image/png", SPECTROGRAM)]),
    })  # fmt: skip
    return made


def _pictures(axis: Axis) -> int:
    def last(grid: Grid) -> int:
        return grid.picture + (grid.windows[0] * grid.windows[1] if grid.apart else grid.frames)

    return max((last(grid) for _, grid in axis.grids()), default=0)


def sighted(axis: Axis, **options: Any) -> tuple[Recording, dict[int, WrittenPlace]]:
    """The same without a file."""
    store = Memory()
    made = write_sighted(store, axis, **options)
    store.close()
    return Recording(store), made
