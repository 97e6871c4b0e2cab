"""The files of a folder decide what reads for its model."""

from __future__ import annotations

import pytest

from real_models import minilm, whisper
from regard.models.reader import _kind, read_reader
from regard.models.source import Source


@pytest.fixture
def holding(tmp_path):
    """A source whose folder holds these files."""

    def write(**files: str) -> Source:
        for name, text in files.items():
            (tmp_path / f"{name}.json").write_text(text)
        return Source("it", str(tmp_path), {"local_files_only": True})

    return write


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, None),
        ({"tokenizer": "{}"}, "AutoTokenizer"),
        ({"vocab": "{}"}, "AutoTokenizer"),
        ({"preprocessor_config": '{"image_mean": [0.5]}'}, "AutoImageProcessor"),
        ({"preprocessor_config": '{"sampling_rate": 16000}'}, "AutoFeatureExtractor"),
        ({"preprocessor_config": "{}", "tokenizer": "{}"}, "AutoProcessor"),
        ({"processor_config": "{}", "tokenizer_config": "{}"}, "AutoProcessor"),
    ],
)
def test_kinds(holding, files, kind):
    assert _kind(holding(**files)) == kind


def test_a_folder_without_any(holding):
    assert read_reader(holding(config="{}")) is None


def test_no_tokenizer_is_made_up_for_speech(holding, tmp_path):
    """Left to itself, transformers gives such a folder a tokenizer of one token."""
    from transformers import WhisperFeatureExtractor

    source = holding(config='{"model_type": "whisper"}')
    WhisperFeatureExtractor(feature_size=4).save_pretrained(tmp_path)
    assert type(read_reader(source)).__name__ == "WhisperFeatureExtractor"


def test_real_ones():
    assert (minilm().processor, type(minilm().tokenizer).__name__) == (None, "BertTokenizer")
    assert whisper().processor.tokenizer is whisper().tokenizer
    assert whisper().processor.feature_extractor.sampling_rate == 16_000
