"""The bf16 trial in a child process: how it ends, and what is made of that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard.cli import probe

FINE = (sys.executable, "-c", "pass")


def dying(death: str = "SIGILL", unless: str = "os.environ.get('ONEDNN_MAX_CPU_ISA')"):
    """A child that kills itself the way a CPU would."""
    program = f"import os, signal\n{unless} or os.kill(os.getpid(), signal.{death})"
    return (sys.executable, "-c", program)


def test_a_child_that_lives():
    tried = probe.try_bf16(FINE, {})
    assert (tried.plain, tried.limited, tried.needs_action) == ("works", None, False)
    assert tried.sentence == "works"


def test_the_first_try_is_without_the_variable():
    tried = probe.try_bf16(dying(), {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"})
    assert tried == probe.Bf16("dies with SIGILL", "AVX512_CORE", is_set=True, limited="works")
    assert not tried.needs_action
    assert "with ONEDNN_MAX_CPU_ISA=AVX512_CORE, as it is set here: works" in tried.sentence


def test_a_variable_that_does_not_help_needs_action():
    for given in ({}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}):
        tried = probe.try_bf16(dying("SIGSEGV", unless="False"), given)
        assert tried.limited == "dies with SIGSEGV"
        assert tried.needs_action


def test_no_answer_is_no_alarm():
    tried = probe.try_bf16((sys.executable, "-c", "import time; time.sleep(9)"), {}, patience=0.2)
    assert tried.plain == "gives no answer within 0.2 s"
    assert not tried.needs_action


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((sys.executable, "-c", "raise ValueError('no bf16')"), "fails: ValueError: no bf16"),
        ((sys.executable, "-c", "raise SystemExit(7)"), "fails: exit status 7"),
        (("no-such-program-anywhere",), "fails: "),
    ],
)
def test_other_failures_are_told_in_their_own_words(command, words):
    tried = probe.try_bf16(command, {})
    assert tried.plain.startswith(words)
    assert tried.limited is None and tried.needs_action


def test_the_real_program_works_where_the_variable_is_set():
    """The program itself is sound: with the limit it runs on every machine."""
    environment = os.environ | {probe.VARIABLE: probe.LIMIT}
    assert probe.try_command(probe.COMMAND, environment, 60) == "works"


def test_windows_names_the_death_differently(monkeypatch):
    class Done:
        returncode = 0xC000001D

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Done)
    assert probe.try_command(("x",), {}, 1) == "dies with SIGILL"
