"""Host time is taken after the answers were compared, on one thread."""

from __future__ import annotations

import pytest
import torch

import regard
from bench import host
from regard.bench.results import WrongResultError


def test_rows() -> None:
    threads = torch.get_num_threads()
    rows = host.measure(16, seconds=0)
    assert [row.what for row in rows] == ["sdpa", "bare", "rows", "everything", "afterwards"]
    assert {(row.suite, row.tokens, row.threads, row.peer) for row in rows} == {
        ("host", 16, 1, "sdpa")
    }
    assert rows[0].ratio == 1 and torch.get_num_threads() == threads


def test_wrong_outputs_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    attend = regard.attend

    def wrong(*given: torch.Tensor, **options: object) -> regard.Attention:
        return attend(given[0] + 1, *given[1:], **options)  # type: ignore[arg-type]

    monkeypatch.setattr(regard, "attend", wrong)
    with pytest.raises(WrongResultError, match="the output is not torch's; no time is reported"):
        host.measure(16, seconds=0)
