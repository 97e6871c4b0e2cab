"""Attention on a GPU, against the fastest kernels there are for it.

stage       the machine: what time and memory a call takes
size        one problem
reference   what is right about it, in double precision
contenders  who takes part
race        checked, then timed: rows
llama       a model of 8 billion random weights being recorded
parts       what is measured, in the order it runs
"""

from __future__ import annotations

from bench.gpu.parts import PARTS, Job, jobs

__all__ = ["PARTS", "Job", "jobs"]
