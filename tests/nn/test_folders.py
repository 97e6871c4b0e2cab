"""Models as folders: any configuration comes back, a broken save costs nothing, a lie is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from nn.small import SIZES, ids, language_model
from regard.errors import FileError, InputError, RegardError
from regard.nn import LanguageModel, LanguageModelConfig, LongScaling
from regard.nn.families import family_of

CONFIGS = st.fixed_dictionaries(
    {
        "heads": st.sampled_from([1, 2, 4]),
        "kv_heads": st.sampled_from([None, 1]),
        "head_dim": st.sampled_from([None, 6]),
        "hidden": st.sampled_from([None, 10]),
        "feed_forward": st.sampled_from(["mlp", "swiglu"]),
        "activation": st.sampled_from(["gelu", "relu", "silu", "gelu_tanh"]),
        "norm": st.sampled_from(["rms", "layer"]),
        "norm_first": st.booleans(),
        "qk_norm": st.booleans(),
        "attention_bias": st.booleans(),
        "feed_forward_bias": st.booleans(),
        "positions": st.sampled_from(["rotary", "learned", "sinusoidal", "alibi", "none"]),
        "window": st.sampled_from([None, 1, 3]),
        "tied": st.booleans(),
        "embedding_norm": st.booleans(),
        "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    }
)


@settings(max_examples=25, deadline=None)
@given(CONFIGS)
def test_any_configuration_comes_back(tmp_path_factory: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**SIZES | options)).eval()
    where = regard.nn.save(model, tmp_path_factory.mktemp("model") / "made")
    found = regard.nn.load(where).model
    assert found.config == model.config
    text = ids(2, 6)
    with torch.no_grad():
        assert torch.equal(found(text), model(text))
        cache = found.new_cache()
        parts = [found(part, cache=cache) for part in text.split([4, 1, 1], dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), model(text), atol=1e-5, rtol=1e-4)


def test_a_broken_save_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = language_model()
    regard.nn.save(before, tmp_path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    torch.manual_seed(1)
    with pytest.raises(FileError, match="the model cannot be written"):
        regard.nn.save(LanguageModel(before.config), tmp_path)
    monkeypatch.undo()
    found = regard.nn.load(tmp_path, dtype=torch.float64).model
    assert torch.equal(found(ids(1, 5)), before(ids(1, 5)))


@pytest.mark.parametrize(
    "changes",
    [{"heads": 3}, {"heads": 0}, {"window": 2.5}, {"window": "3"}, {"layers": "two"},
     {"positions": "grid"}, {"rotary_scaling": {"kind": "Unheard"}}, {"vocabulary": -1},
     {"regard_model": "Oracle"}, {"depth": 4}],
)  # fmt: skip
def test_a_configuration_that_lies_is_a_file_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    regard.nn.save(language_model(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(FileError, match=r"config\.json|regard_model"):
        regard.nn.load(tmp_path)


@pytest.mark.parametrize("text", ["", "[", "[]", "3", "null", "\ufeff{", '{"regard_model": []}'])
def test_a_configuration_that_is_none(tmp_path: Path, text: str) -> None:
    regard.nn.save(language_model(), tmp_path)
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(RegardError):
        regard.nn.load(tmp_path)


# ── published configurations ─────────────────────────────────────────────────────────────────

LLAMA = {
    "model_type": "llama", "vocab_size": 30, "num_hidden_layers": 1, "hidden_size": 16,
    "num_attention_heads": 4, "intermediate_size": 8,
}  # fmt: skip


def test_windows_slide_in_all_layers_or_in_none() -> None:
    def window(**facts: Any) -> int | None:
        given = LLAMA | facts
        return family_of(given).configure(given).window

    assert window() is None and window(sliding_window=7) == 7
    assert window(sliding_window=7, use_sliding_window=False) is None
    assert window(sliding_window=7, layer_types=["full_attention"]) is None
    assert window(sliding_window=7, layer_types=["sliding_attention"]) == 7
    both = ["sliding_attention", "full_attention"]
    with pytest.raises(RegardError, match="some layers slide"):
        window(sliding_window=7, layer_types=both)
    with pytest.raises(RegardError, match="some layers slide"):
        window(sliding_window=7, max_window_layers=2)


def test_long_scaling_without_a_factor_is_as_large_as_before() -> None:
    plain = LongScaling((1.0, 1.0), (2.0, 2.0), 8)
    assert plain.magnitude == 1.0
    assert LongScaling((1.0,), (1.0,), 8, 4.0).magnitude > 1
    assert LongScaling((1.0,), (1.0,), 8, 4.0, 0.7).magnitude == 0.7
    near, far = (plain.frequencies(4, 10000.0, tokens) for tokens in (8, 9))
    assert torch.equal(near, 2 * far)


@pytest.mark.parametrize("number", [0, -1, 2.5, "4", None])
def test_counts_are_whole_numbers(number: Any) -> None:
    with pytest.raises(InputError, match=r"layers=.*; give a whole number of at least 1"):
        LanguageModelConfig(**SIZES | {"layers": number})
