"""The compiler for wheels: who compiles, who links, against which glibc."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = ["-O3", "-shared", "-fPIC", "a b.c", "-o", "/tmp/x/made.so", "-lm"]


@pytest.fixture
def wheel_cc(tool):
    return tool("wheel_cc")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_an_object_then_a_library_for_an_old_glibc(wheel_cc, machine):
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.2.17"]
    make, link = wheel_cc.commands(machine, ASKED)
    by = ["gcc"] if machine == "x86_64" else zig
    assert make == [*by, "-O3", "-fPIC", "a b.c", "-c", "-o", "/tmp/x/made.o"]
    asked = ["-shared", "-pthread", "-s", "/tmp/x/made.o", "-o", "/tmp/x/made.so", "-lm"]
    assert link == [*zig, *asked]


def test_a_failure_is_passed_on(wheel_cc, monkeypatch):
    ran: list[list[str]] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 4)

    monkeypatch.setattr(wheel_cc.subprocess, "run", run)
    with pytest.raises(SystemExit) as ended:
        wheel_cc.main("x86_64", *ASKED)
    assert ended.value.code == 4 and len(ran) == 1
