"""A comparison must see what differs, where it differs, and nothing else."""

from __future__ import annotations

import torch

from support.families.compare import FLOOR, differences, flat, misfits, tolerances

INF, NAN = float("inf"), float("nan")


def test_every_floating_tensor_is_found_by_its_path():
    one = torch.ones(2)
    outputs = {
        "last_hidden_state": one,
        "hidden_states": (one, one),
        "part": {"pooler_output": one},
        "ids": torch.ones(2, dtype=torch.long),
        "attentions": (one,),
        "past_key_values": (one,),
    }
    assert [*flat(outputs)] == [
        "last_hidden_state", "hidden_states[0]", "hidden_states[1]", "part.pooler_output",
    ]  # fmt: skip


def test_tolerance_is_what_fp32_loses_and_at_least_a_floor():
    value = {"x": torch.tensor([10.0, INF])}
    assert tolerances(value, None) == {"x": FLOOR * 10}
    assert tolerances(value, {"x": torch.tensor([9.0, INF]).double()}) == {"x": 8.0}


def test_differences_are_named():
    value = {"x": torch.tensor([1.0, -INF])}
    assert differences(value, value, {"x": 0.0}) == []
    assert differences({}, value, {"x": 0.0}) == ["x is missing"]
    assert differences({"x": torch.ones(3)}, value, {"x": 0.0}) == ["x is (3,), not (2,)"]
    assert differences({"x": torch.ones(2)}, value, {"x": 0.0}) == [
        "x is not finite in other places"
    ]
    odd = {"x": torch.tensor([NAN, -INF])}
    assert differences(value, odd, {"x": 0.0}) == []
    assert differences(odd, value, {"x": 0.0}) == ["x is not finite in other places"]
    off = {"x": torch.tensor([1.5, -INF])}
    assert differences(off, value, {"x": 0.1}) == ["x is off by 0.5 (allowed 0.1)"]


def test_attentions_of_another_layer_are_found():
    one = torch.eye(3)[None, None]
    other = torch.full((1, 1, 3, 3), 1 / 3)
    assert misfits({"attentions[0]": one}, {"attentions[0]": one}) == []
    assert misfits({}, {"attentions[0]": one}) == ["attentions[0] is missing"]
    assert misfits({"attentions[0]": other}, {"attentions[0]": one}) == [
        "attentions[0] is off by 0.67 (allowed 0.0001)"
    ]
