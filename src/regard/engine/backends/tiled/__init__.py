"""The kernels' loop in plain torch: any device, any mask, every gradient. Read this before them.

One canonical tile: 128 queries × 512 keys at absolute positions, zero-padded at the edges, so
that a weight has the same bits whichever question it answers. Batch and heads run along.
"""

from __future__ import annotations

from regard.engine.backends.tiled.sweeps import TILED, TiledSweeps

__all__ = ["TILED", "TiledSweeps"]
