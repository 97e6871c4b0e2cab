"""What a model loses without some of its attention, and what its layers do to a token.

names     heads as people name them: L5H1, L5, cross.L2H0
edges     queries that may not see keys, and the mask that says so
region    patches of a picture that nobody may see
here      which place is at work, and where its tokens stand
survey    which layers and heads a model has
knock     `regard.knock_out`
prompts   token ids, and the rows that count
effects   what a knock-out changes in next-token distributions
answers   … what hiding a region of a picture changes in its answer
gates     the same for every head at once, to first order
copying   sequences told twice: who looks back, and who copies
evidence  both for some heads, beside heads drawn by lot
residual  every token's vectors, layer by layer
"""

from __future__ import annotations

from regard.intervene.answers import Answer, RegionEffect, without_region
from regard.intervene.copying import copying_probe, prefix_matching, told_twice
from regard.intervene.edges import Edge
from regard.intervene.effects import Effect, EffectRows, Probe, effect, effects_of_heads
from regard.intervene.evidence import Compared, Evidence, causal_evidence
from regard.intervene.gates import estimated_effects
from regard.intervene.knock import KnockOut, knock_out
from regard.intervene.residual import Residual, observe_residual

__all__ = [
    "Answer",
    "Compared",
    "Edge",
    "Effect",
    "EffectRows",
    "Evidence",
    "KnockOut",
    "Probe",
    "RegionEffect",
    "Residual",
    "causal_evidence",
    "copying_probe",
    "effect",
    "effects_of_heads",
    "estimated_effects",
    "knock_out",
    "observe_residual",
    "prefix_matching",
    "told_twice",
    "without_region",
]
