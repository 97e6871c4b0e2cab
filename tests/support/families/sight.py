"""What a model type sees, measured: `regard.check` of its inputs as they are, padded, packed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch

from regard.check import Report, check
from regard.errors import InputError
from support.families.compare import Inputs
from support.families.known import cause_of
from support.families.subject import Subject

_TEXT = {"input_ids", "attention_mask", "mm_token_type_ids"}
_OF_PACKS = ("future", "documents")
UNCHECKED = "not checked: "  # begins the note of a type whose rows are not found


def seen(subject: Subject) -> list[str]:
    """The findings whose cause is not known yet; verdicts and findings are kept in the subject."""
    for words, inputs, rules in _batches(subject):
        try:
            report = check(subject.model, inputs, rules=rules)
        except InputError as error:  # no rows, or nothing that could be changed
            subject.notes.append(f"{UNCHECKED}{error}"[:300])
            break
        _keep(subject, report, words)
    findings = subject.findings.items()
    return [text for rule, text in findings if cause_of(subject.name, rule) is None]


def _batches(subject: Subject) -> Iterator[tuple[str, Inputs, tuple[str, ...] | None]]:
    """(words, inputs, rules) of every batch that is asked; on the left texts are padded that are
    generated."""
    inputs = subject.inputs
    if not subject.model.config.is_encoder_decoder:  # what a decoder without an encoder ignores
        inputs = {name: x for name, x in inputs.items() if name != "decoder_input_ids"}
    yield "", inputs, None
    for side in ("right", "left") if subject.model.can_generate() else ("right",):
        if side in subject.variants:
            yield f", padded on the {side}", subject.variants[side], ("padding",)
    pack = packed(subject)
    if pack is not None:
        yield ", packed", pack, _OF_PACKS


def packed(subject: Subject) -> Inputs | None:
    """Both texts behind one another in one row without padding, their positions from 0 on, as
    transformers' DataCollatorWithFlattening gives them; None where the model takes no positions."""
    inputs, model = subject.inputs, subject.model
    is_text = "input_ids" in inputs and set(inputs) <= _TEXT
    if not is_text or "position_ids" not in inspect.signature(model.forward).parameters:
        return None
    count, length = inputs["input_ids"].shape
    positions = torch.arange(length).repeat(count)[None]
    return {"input_ids": inputs["input_ids"].reshape(1, -1), "position_ids": positions}


def _keep(subject: Subject, report: Report, words: str) -> None:
    """The most severe verdict of each rule, and its first finding."""
    for rule, verdict in report.checked.items():
        before = subject.verdicts.get(rule)
        if before is None or verdict.severity > before.severity:
            subject.verdicts[rule] = verdict
    for finding in report.findings:
        subject.findings.setdefault(finding.rule, f"{finding.text}{words}")
