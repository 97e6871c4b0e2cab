"""`regard check`: does a model see what it must not?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.models import known_names
from regard.cli.terminal import ascii_only, harmless, in_ascii, results, status, write_json
from regard.errors import InputError, RegardError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from regard.check import Report
    from regard.check.layers import MixingLayer

_STYLES = {"found": "red", "not decided": "yellow", "ok": "green", "not asked": "dim"}


def check(
    model: str = typer.Argument(
        ...,
        metavar="MODEL",
        help="A name from `regard models`, a folder, or a function that returns a model or a model "
        "and a batch: FILE.py:build or package.module:build.",
        autocompletion=known_names,
    ),
    text: list[str] = typer.Option([], "--text", help="A text to check with; can be repeated."),
    batch: Path | None = typer.Option(
        None,
        "--batch",
        metavar="FILE",
        help="A batch to check with: token ids, or arrays by name, as .pt, .npz, .safetensors or "
        ".json.",
    ),
    pad: str | None = typer.Option(
        None, "--pad", metavar="SIDE", help="Pad texts of different lengths: left or right."
    ),
    pack: bool = typer.Option(
        False, "--pack", help="Pack the texts into one sequence, with positions that start again."
    ),
    causal: bool | None = typer.Option(
        None,
        "--causal/--no-causal",
        help="Whether later tokens are hidden. Default: as the model declares.",
    ),
    window: int | None = typer.Option(
        None,
        "--window",
        metavar="N",
        min=1,
        help="How many tokens back a layer sees, itself included. Default: as the model declares.",
    ),
    rule: list[str] = typer.Option(
        [], "--rule", metavar="NAME", help="A rule to check; can be repeated. Default: all."
    ),
    allow: list[str] = typer.Option(
        [],
        "--allow",
        metavar="RULE=REASON",
        help="A rule that the model is known and meant to break; can be repeated.",
    ),
    by_layer: bool = typer.Option(
        False, "--by-layer", help="Use float64 in one layer at a time, which takes less memory."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the report as JSON."),
) -> None:
    """Check whether a model sees what it must not.

    Changes what some positions hold and compares the rows of the output: a row that moves sees
    them. The rules are future, padding, documents (of a packed batch), batch (other sequences),
    window, cache and training (all of it with dropout on). Each finding names the module that
    moves first and has lines of torch that show it.

    FILE.py:build runs the code of that file, which can import its neighbours. If build() returns a
    model without a batch, token ids are drawn at random.

    The exit status is 0 if nothing was found, 1 if something was, 2 if a rule could not be decided
    or the model could not be checked, 3 if a file cannot be read.
    """
    reasons = _reasons(allow)
    _check_rules(rule, reasons)
    from regard.cli.batches import Texts, batch_in
    from regard.cli.built import model_and_batch

    texts = Texts(tuple(text), pad, pack)
    given = None if batch is None else batch_in(batch)
    if given is not None and texts.are_asked:
        raise InputError("--batch is checked as it is: leave out --text, --pad and --pack")
    with redirect_stdout(sys.stderr):  # what a model prints is no result
        with status().status(f"loading {harmless(model)}"):
            made, given = model_and_batch(model, given, texts)
        with _checking(model) as progress:
            report = _checked(
                made, given, causal=causal, window=window, rules=rule or None, allow=reasons,
                by_layer=by_layer, progress=progress,
            )  # fmt: skip
    with _of_all_ranks() as is_first:
        if as_json and is_first:
            write_json(_as_dict(model, report))
        elif is_first:
            _print(report)
    raise typer.Exit(1 if report.findings else 0 if report.ok else 2)


def _checked(model: Any, batch: Any, **options: Any) -> Report:
    """With status 2 for whatever ends it: 1 would say that something was found."""
    import regard

    try:
        return regard.check(model, batch, **options)
    except RegardError as error:
        if error.exit_code == UnavailableError.exit_code:
            raise
        raise UnavailableError(str(error)) from error
    except Exception as error:
        raise UnavailableError(
            f"the model cannot be checked on this batch ({_said(error)})"
        ) from error


def _check_rules(rules: list[str], reasons: dict[str, str]) -> None:
    """Before minutes go by: there are such rules."""
    from regard.models.extra import require

    require("regard check", "torch")
    from regard.check.rules import RULES

    for name in {*rules, *reasons} - set(RULES):
        raise InputError(f"--rule {name!r:.40}: give one of {', '.join(RULES)}")


def _reasons(given: list[str]) -> dict[str, str]:
    """Rule → why it may be broken."""
    pairs = [words.partition("=") for words in given]
    for words, (rule, _, reason) in zip(given, pairs, strict=True):
        if not rule or not reason.strip():
            raise InputError(f"--allow {words!r:.60}: give RULE=REASON, such as batch='batch norm'")
    return {rule: reason.strip() for rule, _, reason in pairs}


@contextmanager
def _checking(model: str) -> Iterator[Callable[[str], None]]:
    """What is being tried, on stderr."""
    with status().status(f"checking {harmless(model)}") as shown:
        yield lambda words: shown.update(f"checking {harmless(model)}: {words}")


def _said(error: Exception) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:300]}" if words else type(error).__name__


@contextmanager
def _of_all_ranks() -> Iterator[bool]:
    """Whether this process prints: under torchrun, where the model's code has the ranks meet, all
    have the same report. They part afterwards: one that ends before would take the others along."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        yield True
        return
    yield distributed.get_rank() == 0
    sys.stdout.flush()
    distributed.barrier()
    distributed.destroy_process_group()


# ── printed ──────────────────────────────────────────────────────────────────────────────────


def _print(report: Report) -> None:
    """The report as it prints itself, verdicts in colour. Lines are not wrapped: some are code."""
    from rich.text import Text

    console, text = results(), str(report)
    plain = ascii_only(console)
    styles = {f"  {rule:10} ": _style(verdict) for rule, verdict in report.checked.items()}
    for line in text.splitlines():
        style = next((style for start, style in styles.items() if line.startswith(start)), "")
        shown = harmless(in_ascii(line) if plain else line)
        console.print(Text(shown, style), soft_wrap=True)


def _style(verdict: str) -> str:
    return next((style for word, style in _STYLES.items() if verdict.startswith(word)), "")


def _as_dict(model: str, report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    answer = {
        "model": model,
        "about": report.about,
        "ok": report.ok,
        "forwards": report.forwards,
        "checked": {
            rule: {
                "verdict": str(verdict), "decided_by": verdict.decided_by,
                "control": verdict.control, "smallest": verdict.smallest, "noise": verdict.noise,
            }
            for rule, verdict in report.checked.items()
        },
        "findings": [asdict(finding) for finding in report.findings],
        "layers": [_layer(layer) for layer in report.layers],
    }  # fmt: skip
    return _finite(answer)


def _layer(layer: MixingLayer) -> dict[str, Any]:
    return {
        "name": layer.name, "kind": layer.kind.__name__, "sees": layer.sees,
        "declared": layer.declared, "reach": layer.reach, "strength": layer.strength,
        "length": layer.length,
        "columns": {str(key): _runs(rows) for key, rows in layer.columns.items()},
    }  # fmt: skip


def _runs(rows: Tensor) -> str:
    """The places of a (L,) bool as slices: 0:7 9:12."""
    edges = rows.int().diff(prepend=rows.new_zeros(1).int(), append=rows.new_zeros(1).int())
    places = edges.nonzero().flatten().tolist()
    return " ".join(
        f"{start}:{stop}" for start, stop in zip(places[::2], places[1::2], strict=True)
    )


def _finite(value: Any) -> Any:
    """NaN and infinities as null, which JSON has."""
    if isinstance(value, dict):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(x) for x in value]
    is_number = not isinstance(value, float) or abs(value) < float("inf")
    return value if is_number else None
