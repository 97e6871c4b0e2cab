"""`attn_implementation="regard"` works in any process that imports regard, in whatever order.

transformers has no plugins: names must be registered once its registries exist. They are when
`transformers.modeling_utils` has been imported; if that happens after regard, an import hook for
this one module waits for it, and is gone afterwards. What is registered loads regard's own adapter
when it is first called, so nothing is imported that nobody uses.

transformers lets a family that cannot follow the name be built with it, or switched to it. So we
also look on as modules get their parts, and `set_attn_implementation`, for which transformers has
no hook, is wrapped: our name in vain is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NAME = "regard"
_HOME = "transformers.modeling_utils"


def announce() -> None:
    """Make the name known to transformers, now or when it arrives."""
    if _HOME in sys.modules and hasattr(sys.modules[_HOME], "AttentionInterface"):
        _register()
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


class _Waiting:
    """Finds nothing by itself: lets the others find the module, and adds a word at its end."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Asked for every import; answers for one."""
        if name != _HOME:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Told(spec.loader)  # type: ignore[assignment]
        return spec


class _Told:
    """A loader that tells us when its module is there."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does it."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does it; then the registries exist."""
        self._loader.exec_module(module)
        _register()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _register() -> None:
    if int(sys.modules["transformers"].__version__.partition(".")[0]) < 5:
        return  # its registries differ; `regard.huggingface` says so where it is asked for
    from torch.nn.modules.module import register_module_module_registration_hook
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface, PreTrainedModel

    if "regard.huggingface" not in sys.modules:
        AttentionInterface.register(_NAME, _attention)
        AttentionMaskInterface.register(_NAME, _mask)
    # it wraps the functions that are there when its import ends: one that comes later wraps itself
    if hasattr(sys.modules.get("kvpress"), "__all__"):
        import regard.huggingface  # noqa: F401
    register_module_module_registration_hook(_gets_a_part)
    _check_switches(PreTrainedModel)
    _let_weights_be_asked_for()


def _let_weights_be_asked_for() -> None:
    """`output_attentions=True` in a configuration: transformers refuses it beside any name but
    eager, in a property and, since 5.1x, in a validator that each class of configurations lists."""
    from transformers.configuration_utils import PreTrainedConfig

    own: Any = vars(PreTrainedConfig).get("output_attentions")
    assign: Any = getattr(own, "fset", None)
    if assign is None or hasattr(assign, "__wrapped__"):
        return

    @wraps(assign)
    def ask(config: Any, wanted: bool) -> None:
        if config._attn_implementation == _NAME:
            config._output_attentions = wanted
        else:
            assign(config, wanted)

    vars_of: Any = PreTrainedConfig
    vars_of.output_attentions = own.setter(ask)
    check: Any = getattr(PreTrainedConfig, "validate_output_attentions", None)
    if check is None:
        return

    @wraps(check)
    def validate(self: Any) -> None:
        if self._attn_implementation != _NAME:
            check(self)

    vars_of.validate_output_attentions = validate
    for kind in _with_subclasses(PreTrainedConfig):
        listed = vars(kind).get("__class_validators__", [])
        listed[:] = [validate if one is check else one for one in listed]


def _with_subclasses(kind: Any) -> Iterator[Any]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _with_subclasses(derived)


def _attention(*given: Any, **options: Any) -> Any:
    from regard.huggingface import regard_attention

    return regard_attention(*given, **options)


def _mask(*given: Any, **options: Any) -> Any:
    from regard.huggingface.registry import mask_interface

    return mask_interface(*given, **options)


def _gets_a_part(module: Any, name: str, part: Any) -> None:
    """Asked for every module that becomes a part of another, so it answers most at once."""
    config = vars(module).get("config")
    if getattr(config, "_attn_implementation", None) == _NAME:
        from regard.huggingface.building import check_built

        check_built(module)


def _check_switches(models: Any) -> None:
    """Have `set_attn_implementation` refuse our name where building with it does."""
    switch = models.set_attn_implementation
    if hasattr(switch, "__wrapped__"):
        return

    @wraps(switch)
    def checked(self: Any, attn_implementation: Any, *args: Any, **kwargs: Any) -> Any:
        if not _names_us(attn_implementation):
            return switch(self, attn_implementation, *args, **kwargs)
        from regard.huggingface.building import switch_checked

        with switch_checked(self, whole=attn_implementation == _NAME):
            return switch(self, attn_implementation, *args, **kwargs)

    models.set_attn_implementation = checked


def _names_us(asked: Any) -> bool:
    """Whether an implementation, or one among those of the parts, is ours."""
    return any(map(_names_us, asked.values())) if isinstance(asked, dict) else asked == _NAME
