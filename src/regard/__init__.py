"""Attention you can see: as fast as the fastest kernel, and it tells you where it looked.

Names load on first use, so that `import regard` costs nothing and a machine without torch can
still read recordings and run the lesson.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from regard.arrival import announce as _announce
from regard.display import answered_by as _answered_by

if TYPE_CHECKING:
    from regard import (
        axes,
        errors,
        huggingface,
        intervene,
        kv,
        models,
        monitor,
        nn,
        parallel,
        plot,
        recording,
        study,
        vllm,
    )
    from regard.divergences import divergence
    from regard.engine.api import (
        attend,
        attend_partial,
        lightning_indexer,
        replay,
        scaled_dot_product_attention,
    )
    from regard.engine.attention import Attention
    from regard.intervene import knock_out
    from regard.mask import Causal, Documents, Mask, Padding, Prefix, Rule, Window
    from regard.monitor import Monitor
    from regard.recorder import record
    from regard.recording import open
    from regard.score import ALiBi, RelativeBias
    from regard.state import Partial, merge
    from regard.summary import (
        Concentration,
        Distance,
        Entropy,
        Matching,
        MaxLogit,
        MaxScore,
        Offsets,
        Peak,
        Pooled,
        Received,
        Top,
        Weighted,
    )

__version__ = "0.1.0"

__all__ = [
    "ALiBi",
    "Attention",
    "Causal",
    "Concentration",
    "Distance",
    "Documents",
    "Entropy",
    "Mask",
    "Matching",
    "MaxLogit",
    "MaxScore",
    "Monitor",
    "Offsets",
    "Padding",
    "Partial",
    "Peak",
    "Pooled",
    "Prefix",
    "Received",
    "RelativeBias",
    "Rule",
    "Top",
    "Weighted",
    "Window",
    "attend",
    "attend_partial",
    "axes",
    "divergence",
    "errors",
    "huggingface",
    "intervene",
    "knock_out",
    "kv",
    "lightning_indexer",
    "merge",
    "models",
    "monitor",
    "nn",
    "open",
    "parallel",
    "plot",
    "record",
    "recording",
    "replay",
    "scaled_dot_product_attention",
    "study",
    "vllm",
]

# Where each name lives. A home that needs torch says so when torch is missing.
_HOMES = {
    "regard.mask": ("Causal", "Documents", "Mask", "Padding", "Prefix", "Rule", "Window"),
    "regard.score": ("ALiBi", "RelativeBias"),
    "regard.recording": ("open",),
    "regard.recorder": ("record",),
    "regard.intervene": ("knock_out",),
    "regard.monitor": ("Monitor",),
    "regard.divergences": ("divergence",),
    "regard.engine.api": (
        "attend", "attend_partial", "lightning_indexer", "replay", "scaled_dot_product_attention",
    ),
    "regard.state": ("Partial", "merge"),
    "regard.engine.attention": ("Attention",),
    "regard.summary": (
        "Concentration", "Distance", "Entropy", "Matching", "MaxLogit", "MaxScore", "Offsets",
        "Peak", "Pooled", "Received", "Top", "Weighted",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SUBMODULES = (
    "axes", "errors", "huggingface", "intervene", "kv", "models", "monitor", "nn", "parallel",
    "plot", "recording", "study", "vllm",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF and (name[:1] == "_" or find_spec(f"regard.{name}") is None):
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    try:
        if name not in _HOME_OF:
            return import_module(f"regard.{name}")
        value = getattr(import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from regard.errors import MissingExtraError

        raise MissingExtraError(f"regard.{name}", "torch", "torch") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def _in_a_notebook(value: object) -> str:
    from regard.notebook import html_of

    return html_of(value)


def _as_a_view(value: Any, *given: Any, **options: Any) -> Any:
    from regard.viewer.live import View

    return View(value, *given, **options)


def _as_a_table(value: Any, *given: Any, **options: Any) -> Any:
    from regard.views.table import make_table

    return make_table(value, *given, **options)


def _drawn(name: str) -> Any:
    """One of a recording's pictures, loaded when it is drawn."""

    def draw(*given: Any, **options: Any) -> Any:
        return getattr(import_module("regard.plot.recorded"), name)(*given, **options)

    return draw


_announce()
_answered_by(
    html=_in_a_notebook,
    table=_as_a_table,
    view=_as_a_view,
    **{
        name: _drawn(name)
        for name in (
            "plot_head",
            "plot_row",
            "plot_grid",
            "plot_entropy",
            "plot_picture",
            "plot_heads_over_picture",
        )
    },
)
