"""What fills this project's own tables: rows of results.csv, quoted by README and docs.

    python -m bench SUITE      from a clone

record          a model reading a prompt and many documents, recorded and not
decode          a model of regard.nn generating tokens, against transformers
report          what `regard report` takes by length (`long_recording` makes the files)
page            time until the page is drawn in Chromium, against its budget
monitor         a monitored training step, against a plain one
parallel        one attention over two ranks, against one

gpu             attention against the fastest kernels of an NVIDIA GPU; a Llama recorded

Attention on a CPU is measured by `regard bench cpu`, which needs no clone.
"""
