"""What the converters share."""

from __future__ import annotations

import pytest

from real_models import minilm, smollm2, whisper
from regard.errors import FileError
from regard.models import check
from regard.models.convert import convert, dispatch
from regard.models.table import find


def test_a_full_disk_while_weights_are_written_is_one_line(toy, tmp_path, monkeypatch):
    from safetensors import SafetensorError

    def full(parts, made):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setitem(dispatch._CONVERTERS, "toy", full)
    with pytest.raises(FileError, match=r"cannot be written .*No space left"):
        convert("toy", tmp_path, tmp_path)


@pytest.mark.parametrize("load", [smollm2, minilm, whisper])
def test_the_folder_holds_what_the_table_says(load):
    loaded = load()
    model = check(loaded.name)
    assert model.is_cached and str(model.folder) == loaded.source
    there = {path.name: path.stat().st_size for path in model.folder.iterdir()}
    assert set(find(loaded.name).files) <= set(there)
    assert sum(there.values()) == pytest.approx(model.size, rel=0.02)
    assert not loaded.model.training
