"""Attention you can see: as fast as the fastest kernel, and it tells you where it looked.

Names load on first use, so that `import regard` costs nothing and a machine without torch can
still read recordings and run the lesson.
"""

from __future__ import annotations

from importlib import import_module
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
    if name not in _HOME_OF and name not in _SUBMODULES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    try:
        if name in _SUBMODULES:
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


def _by(module: str, name: str) -> Any:
    """A function that is loaded when it is called."""

    def answer(*given: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*given, **options)

    return answer


_announce()
_answered_by(
    html=_by("regard.notebook", "html_of"),
    table=_by("regard.views.table", "make_table"),
    view=_by("regard.viewer.live", "View"),
    attention_text=_by("regard.printed", "attention_text"),
    steps_text=_by("regard.printed", "steps_text"),
    steps_html=_by("regard.printed", "steps_html"),
    **{
        name: _by("regard.plot.recorded", name)
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
