"""`regard play`: one model behind one page, whose attention can be changed while it is read.

reading   what the model made of it: weights, logits, the recording behind them
session   one model, its readings and who runs it
heads     heads that stand out on a prompt, and a map of all of them
explain   one head as the lesson's own numbers
sound     a sound file that was sent → a clip
script    a scenario in a file → what the page does, step by step
saving    a reading → the bytes of a .regard file
requests  what a reader asks for: tokens, heads that are switched off, edges that are cut; the body
          of a request, read strictly
app       addresses → answers, beside those of the viewer
serve     the process

Needs torch and transformers, and starlette and uvicorn; nothing here is imported before the verb
is called.
"""

from __future__ import annotations

__all__: list[str] = []
