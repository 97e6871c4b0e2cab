"""What is wrong must be called wrong: attention that is planted badly is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transformers import AttentionInterface

import regard
from regard.huggingface import register
from regard.huggingface.attention import regard_attention
from support.families import checks
from support.families.examination import examine


@pytest.fixture
def planted() -> Iterator[type[AttentionInterface]]:
    """The interface, in which another function may be registered under our name."""
    yield AttentionInterface
    register()


def slightly_off(*given, **options):
    output, aux = regard_attention(*given, **options)
    return output * 1.01, aux


def uncausal(module, query, key, value, mask, **options):
    return regard_attention(module, query, key, value, None, **options | {"is_causal": False})


def raising(*given, **options):
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize("function", [slightly_off, uncausal])
def test_another_output_is_wrong(planted, function):
    planted.register("regard", function)
    found = examine("llama")
    assert found.kind == "wrong"
    assert found.said.startswith("built, unpadded: logits is off by ")
    assert found.checks["built"] in found.said


def test_an_exception_is_a_crash(planted):
    planted.register("regard", raising)
    found = examine("llama")
    assert found.kind == "crashed"
    assert "built: ZeroDivisionError: planted (test_examination.py:" in found.said


def test_a_family_that_does_not_dispatch_is_refused_with_its_sentence():
    found = examine("bloom")
    assert found.kind == "refused"
    assert found.said.startswith("bloom does not dispatch its attention")
    assert found.checks["using"] == found.said


def test_what_cannot_be_built_says_why(monkeypatch):
    def large(name: str) -> None:
        raise MemoryError("planted")

    monkeypatch.setattr("support.families.examination.build", large)
    found = examine("llama")
    assert (found.kind, found.said) == ("not built", "MemoryError: planted")


def test_the_worst_check_names_the_outcome(monkeypatch):
    said = {"one": [], "two": ["unpadded: off"], "three": []}
    monkeypatch.setattr(
        "support.families.examination.CHECKS",
        {name: lambda subject, name=name: said[name] for name in said},
    )
    found = examine("vit")
    assert (found.kind, found.said) == ("wrong", "two, unpadded: off")
    assert found.checks == {"one": "right", "two": "two, unpadded: off", "three": "right"}


def test_a_recording_of_another_sequence_is_wrong(monkeypatch):
    """Heads of one sequence that are filed under the other, as a batch guessed wrongly would."""

    class Swapped:
        def __init__(self, model):
            self._inner = regard.record(model)

        def __enter__(self):
            self._inner.__enter__()
            return self

        def __exit__(self, *error):
            self._inner.__exit__(*error)

        @property
        def prompts(self):
            return [*self._inner.prompts][::-1]

    class Planted:
        record = Swapped

    monkeypatch.setattr(checks, "regard", Planted)
    found = examine("vit")
    assert found.kind == "wrong"
    assert "record, attentions[0]: head 0 of sequence 0 is not in the recording" in found.said
