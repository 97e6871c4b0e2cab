"""A process that dies or hangs is an outcome, not the end of the run."""

from __future__ import annotations

import itertools
import os
import signal
import time

from support.families import outcomes


def test_a_process_that_dies_is_a_crash():
    (found,) = outcomes([7], os._exit, processes=1)
    assert (found.name, found.kind) == ("7", "crashed")
    assert found.said == "the process ended with status 7"


def test_a_process_that_hangs_is_a_crash():
    (found,) = outcomes([600], time.sleep, processes=1, patience=0.5)
    assert (found.kind, found.said) == ("crashed", "no answer within 0.5 s")


def test_a_process_that_computes_for_ever_is_a_crash():
    (found,) = outcomes([itertools.count()], list, processes=1, seconds=0.1)
    assert found.said == f"the process ended with status {-signal.SIGPROF} (out of time)"
