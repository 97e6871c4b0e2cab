"""Where a model's weights are.

accelerate's `cpu_offload`, `disk_offload` and `dispatch_model` leave parameters on the meta device;
a hook on the module puts the numbers there before each forward and takes them away afterwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.errors import InputError


def check_weights(model: nn.Module) -> None:
    """InputError where a model has no numbers to compute with."""
    bringing = [path for path, module in model.named_modules() if _brings(module) is not None]
    for path, module in model.named_modules():
        absent = any(one.is_meta for one in module.parameters(recurse=False))
        if absent and not any(
            f"{path}.".startswith(f"{outer}.") or not outer for outer in bringing
        ):
            raise InputError(
                "the model is on the meta device and computes nothing: "
                f"{path or type(model).__name__} has no weights; load them"
            )


def device_of(model: nn.Module) -> torch.device:
    """Where a model wants its inputs."""
    for module in model.modules():
        hook = _brings(module)
        if hook is not None and hook.execution_device is not None:
            return torch.device(hook.execution_device)
        for parameter in module.parameters(recurse=False):
            return parameter.device
    return torch.device("cpu")


def _brings(module: nn.Module) -> Any:
    """accelerate's hook that brings a module's weights; None where it has none."""
    hook = getattr(module, "_hf_hook", None)
    every = (hook, *getattr(hook, "hooks", ()))
    return next((one for one in every if getattr(one, "offload", False)), None)
