"""`regard doctor`: what this machine can do, and what to do about what it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import results, write_json

if TYPE_CHECKING:
    from regard.cli.probe import Extra, Machine

_LABEL = 14  # columns


def doctor(
    json: bool = typer.Option(False, "--json", help="Print the report as JSON."),
) -> None:
    """Check this machine and list problems to fix.

    Reports versions, devices, attention backends, extras and known hazards. The exit status is 0 if
    everything is fine, 1 if something needs fixing.
    """
    from regard.cli.probe import probe

    machine = probe()
    if json:
        _print_json(machine)
    else:
        _print_page(machine)
    if machine.findings:
        raise typer.Exit(1)


def _print_json(machine: Machine) -> None:
    from dataclasses import asdict

    write_json(asdict(machine) | {"findings": machine.findings})


def _print_page(machine: Machine) -> None:
    from rich.text import Text

    console = results()
    last = ""
    for label, value in _lines(machine):
        shown = "" if label == last else label
        console.print(Text.assemble((f"{shown:<{_LABEL}}", "bold"), value), soft_wrap=True)
        last = label
    console.print()
    for finding in machine.findings:
        console.print(Text.assemble(("needs you: ", "bold yellow"), finding), soft_wrap=True)
    if not machine.findings:
        console.print(Text("Nothing needs your action.", "green"))


def _lines(machine: Machine) -> Iterator[tuple[str, str]]:
    """Label and value, line by line; a label that repeats is shown once."""
    cpu = machine.cpu
    yield "regard", machine.regard
    yield "Python", machine.python
    yield "platform", machine.platform
    yield "CPU", f"{cpu.name}, {cpu.count} cores, {' '.join(cpu.features) or 'no vector units'}"
    yield "numpy", machine.numpy or "not installed"
    yield from _torch_lines(machine)
    for name, reasons in machine.implementations.items():
        remark = f", {machine.remarks[name]}" if name in machine.remarks else ""
        yield "attention", f"{name}: {'; '.join(reasons) or 'available' + remark}"
    for name, extra in machine.extras.items():
        yield "extras", f"{name}: {_describe_extra(name, extra)}"
    yield "compiler", machine.compiler or "none found (cc, gcc, clang)"
    if machine.bf16:
        yield "bf16", f"bf16 matmul on this CPU: {machine.bf16.sentence}"


def _torch_lines(machine: Machine) -> Iterator[tuple[str, str]]:
    torch = machine.torch
    if torch.version is None:
        yield "torch", "not installed; attention needs it: pip install 'regard[torch]'"
    elif torch.problem:
        yield "torch", f"{torch.version}, which cannot be imported"
    else:
        age = "new enough" if torch.new_enough else "too old"
        yield "torch", f"{torch.version} ({age}), {torch.threads} threads"
        for device in torch.devices or ["no GPU"]:
            yield "devices", device


def _describe_extra(name: str, extra: Extra) -> str:
    old = {package: f" (too old, needs {oldest})" for package, oldest in extra.too_old.items()}
    there = ", ".join(
        f"{one} {version}{old.get(one, '')}" for one, version in extra.present.items()
    )
    if not extra.missing:
        return there or "nothing to install"
    gone = f"missing {', '.join(extra.missing)} (pip install 'regard[{name}]')"
    return f"{there}; {gone}" if there else gone
