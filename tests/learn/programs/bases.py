"""Right implementations in the styles students write: name → (source, [(old, new, kinds)])."""

from __future__ import annotations

from learn.programs import bases_classes, bases_layouts, bases_modules, bases_numpy, bases_torch

BASES = (
    bases_numpy.BASES
    | bases_torch.BASES
    | bases_modules.BASES
    | bases_classes.BASES
    | bases_layouts.BASES
)
