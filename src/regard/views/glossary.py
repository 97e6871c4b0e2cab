"""Words that a reader meets, each explained once: for the page, where an explanation is one click
away, and for `regard show --json`."""

from __future__ import annotations

from typing import Final

GLOSSARY: Final[dict[str, str]] = {
    "head": "One attention of a layer: its own queries, keys and values. L5H1 is head 1 of layer "
    "5, both counted from 0.",
    "query, key": "A token that looks (query, a row of the map) and a token that is looked at "
    "(key, a column).",
    "weight": "The share of its attention that a query gives to a key. The weights of a row sum "
    "to 1.",
    "× even share": "A weight, times the number of keys the row may see. 1 is what every key would "
    "get if the row looked at all alike; the most there can be is the number of keys. Makes rows "
    "of different length comparable.",
    "sink": "A key that nearly every row gives a large share to, whatever the text is about; "
    "mostly the first token. Models park attention there that they do not need.",
    "off sinks": "The share of a head's attention that is not on sinks: what can say something "
    "about the text.",
    "attention received": "The weights of a key summed over all rows. One unit is all the "
    "attention of one row.",
    "entropy": "How widely a row spreads its attention, in nats: 0 for one key, log(keys) for an "
    "even spread.",
    "evenness": "Entropy as a share of the largest possible: 0 for one key, 1 for an even spread.",
    "label": "What a head was found to do, beyond what chance explains, with the rows that show "
    "it.",
    "surprise": "How far a head's number lies from those of its layer, in typical deviations.",
    "knock-out": "The model run with the head's output set to zero: what changes is what the head "
    "was for.",
    "distance between heads": "Jensen–Shannon: 0 for rows with equal weights, 1 for rows that "
    "share no key.",
}
