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
    from regard import axes as axes
    from regard import errors, kv, models, nn, parallel, statistics
    from regard import huggingface as huggingface
    from regard import intervene as intervene
    from regard import monitor as monitor
    from regard import plot as plot
    from regard import recording as recording
    from regard import study as study
    from regard import vllm as vllm
    from regard.check import check
    from regard.divergences import divergence as divergence
    from regard.engine.api import attend, replay
    from regard.engine.api import attend_partial as attend_partial
    from regard.engine.api import lightning_indexer as lightning_indexer
    from regard.engine.api import scaled_dot_product_attention as scaled_dot_product_attention
    from regard.engine.attention import Attention
    from regard.intervene import knock_out
    from regard.mask import Causal, Documents, Padding, Rule, Window
    from regard.mask import Mask as Mask
    from regard.mask import Prefix as Prefix
    from regard.monitor import Monitor
    from regard.recorder import record
    from regard.recording import open
    from regard.score import ALiBi as ALiBi
    from regard.score import RelativeBias as RelativeBias
    from regard.state import Partial as Partial
    from regard.state import merge as merge
    from regard.statistics import Concentration as Concentration
    from regard.statistics import Distance as Distance
    from regard.statistics import Entropy as Entropy
    from regard.statistics import Matching as Matching
    from regard.statistics import MaxLogit as MaxLogit
    from regard.statistics import MaxScore as MaxScore
    from regard.statistics import Offsets as Offsets
    from regard.statistics import Peak as Peak
    from regard.statistics import Pooled as Pooled
    from regard.statistics import Received as Received
    from regard.statistics import Top as Top
    from regard.statistics import Weighted as Weighted

__version__ = "0.2.0"

# What a person types. All else is reached by its name too, and documented in its module's page.
__all__ = [
    "attend", "replay", "record", "open", "knock_out", "check", "Monitor", "Attention",
    "Causal", "Window", "Padding", "Documents", "Rule",
    "nn", "statistics", "kv", "parallel", "models", "errors",
]  # fmt: skip

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
    "regard.statistics": (
        "Concentration", "Distance", "Entropy", "Matching", "MaxLogit", "MaxScore", "Offsets",
        "Peak", "Pooled", "Received", "Top", "Weighted",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name from its home, or a part of the package by its attribute."""
    part, home = f"regard.{name}", _HOME_OF.get(name)
    unknown = AttributeError(f"module 'regard' has no attribute {name!r}")
    if name.startswith("_"):
        raise unknown
    try:
        module = import_module(home or part)
    except ModuleNotFoundError as error:
        if part.startswith(str(error.name)):
            raise unknown from None
        if error.name != "torch":
            raise
        from regard.errors import MissingExtraError

        raise MissingExtraError(part, "torch", "torch") from None
    if home is None:
        return module
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    from pkgutil import iter_modules

    parts = (module.name for module in iter_modules(__path__))
    return sorted({*__all__, *_HOME_OF, *parts, "__version__"} - {"__main__"})


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
    hidden_mass=_by("regard.hear.hidden", "of_trial"),
    hidden_by_window=_by("regard.hear.hidden", "of_window"),
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
