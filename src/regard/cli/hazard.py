"""Whether bf16 on this CPU kills the process, found out in a child that may die of it.

Virtual machines exist that advertise AMX but leave CPUID leaf 0x1D, which describes its tiles,
empty. oneDNN believes the advertisement, and torch's bf16 matmul and attention end in SIGILL
without a word. `ONEDNN_MAX_CPU_ISA`, set before torch is imported, keeps oneDNN below AMX.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VARIABLE = "ONEDNN_MAX_CPU_ISA"
LIMIT = "AVX512_CORE_BF16"
WORKS = "works"

# Large enough for oneDNN to take its fast path. A core file of the expected death helps nobody.
_PROGRAM = """
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError):
    pass
import torch
a = torch.ones(256, 256, dtype=torch.bfloat16)
assert (a @ a)[0, 0] == 256
q = torch.ones(1, 2, 256, 64, dtype=torch.bfloat16)
torch.nn.functional.scaled_dot_product_attention(q, q, q)
"""
COMMAND = (sys.executable, "-c", _PROGRAM)
_PATIENCE = 60.0  # seconds; importing torch from a slow disk takes most of it

_WINDOWS_SIGILL = 0xC000001D


@dataclass(frozen=True)
class Bf16:
    """How bf16 fared, without the variable and, where it died, with it."""

    plain: str
    value: str  # of the variable: the one that is set, else the one that helps
    is_set: bool
    limited: str | None = None

    @property
    def needs_action(self) -> bool:
        """Whether the user's own bf16 would die as things stand. No answer is no alarm."""
        if self.plain == WORKS or self.plain.startswith("gives no answer"):
            return False
        return not (self.is_set and self.limited == WORKS)

    @property
    def sentence(self) -> str:
        """What happened and what helps."""
        if self.limited is None:
            return self.plain
        if self.is_set:
            return (
                f"{self.plain} without {VARIABLE}; with {VARIABLE}={self.value}, "
                f"as it is set here: {self.limited}"
            )
        return (
            f"{self.plain}; set {VARIABLE}={self.value} before torch is imported; "
            f"with it: {self.limited}"
        )


def try_bf16(
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    patience: float = _PATIENCE,
) -> Bf16:
    """Try it without the variable; where the child dies, once more with it."""
    command = COMMAND if command is None else command
    outer = dict(os.environ if environment is None else environment)
    given = outer.pop(VARIABLE, None)
    value = given or LIMIT
    plain = try_command(command, outer, patience)
    limited = None
    if plain.startswith("dies"):
        limited = try_command(command, outer | {VARIABLE: value}, patience)
    return Bf16(plain, value, is_set=bool(given), limited=limited)


def try_command(command: Sequence[str], environment: Mapping[str, str], patience: float) -> str:
    """How a command ends, in words."""
    try:
        done = subprocess.run(
            list(command), env=dict(environment), timeout=patience, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return f"gives no answer within {patience:g} s"
    except OSError as error:
        return f"fails: {error}"
    if done.returncode == 0:
        return WORKS
    if done.returncode < 0 or done.returncode == _WINDOWS_SIGILL:
        return f"dies with {_signal_name(done.returncode)}"
    words = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return f"fails: {words[-1]}"


def _signal_name(status: int) -> str:
    """The name of the signal that a negative exit status stands for."""
    if status == _WINDOWS_SIGILL:
        return "SIGILL"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
