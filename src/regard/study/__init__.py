"""What the heads of a recording do, with evidence; numpy only, no torch.

reach        what each row may see: what chance would give follows from it
sinks        keys that nearly every row parks on
patches      where the positions of a place lie in a picture
facts        what a recording holds of a place and of a head
pattern      the patterns, one line of the table each
finding      what is said about a head
evidence     the rows that show a pattern, and one that does not
heads        every pattern in every head
surprise     how far a head is from its layer
outliers     … over many documents, by one number
words        findings as sentences
report       … in order of surprise, as text and (markdown) as a page
rollout      paths through all layers, from one token
rollout_map  … laid out over a picture
attribution  weights times the length of what they move
align        which tokens of two texts stand for each other
divergence   how far apart two distributions are
profiles     two heads by their stored profiles
compare      two recordings, head by head
eviction     the keys that an eviction would drop, and the attention lost with them
timing       when each word of a recorded sound was said
diffusion    where a model of diffusion puts the words of its text
contextual   how a token's vector changes, layer by layer
"""

from __future__ import annotations

from regard.study.attribution import head_attribution, output_attribution, value_attribution
from regard.study.compare import Comparison, HeadDifference, compare_recordings
from regard.study.contextual import Change, Senses, contextual_change, told_apart
from regard.study.diffusion import word_maps
from regard.study.divergence import js_distance
from regard.study.eviction import EvictionStudy, study_eviction
from regard.study.finding import Finding, HeadStudy, SeenAt
from regard.study.heads import mean_retrieval, patterns
from regard.study.markdown import report_markdown
from regard.study.outliers import Outlier, outliers
from regard.study.patches import patch_offsets
from regard.study.report import Ranked, Report, make_report
from regard.study.rollout import Rollout, roll_out, roll_out_recording
from regard.study.rollout_map import RolloutMap, roll_out_picture
from regard.study.surprise import surprises
from regard.study.timing import WordTime, word_times
from regard.study.words import sentence

__all__ = [
    "Change",
    "Comparison",
    "EvictionStudy",
    "Finding",
    "HeadDifference",
    "HeadStudy",
    "Outlier",
    "Ranked",
    "Report",
    "Rollout",
    "RolloutMap",
    "SeenAt",
    "Senses",
    "WordTime",
    "compare_recordings",
    "contextual_change",
    "head_attribution",
    "js_distance",
    "make_report",
    "mean_retrieval",
    "outliers",
    "output_attribution",
    "patch_offsets",
    "patterns",
    "report_markdown",
    "roll_out",
    "roll_out_picture",
    "roll_out_recording",
    "sentence",
    "study_eviction",
    "surprises",
    "told_apart",
    "value_attribution",
    "word_maps",
    "word_times",
]
