"""The attention of a model that vLLM serves, recorded while it is served. Data flows one way:

    plugin      vLLM's plug-in entry points: what is put into its processes
    ask         what a request asks for, a JSON text                       → Ask
    layers      vLLM's attention modules: which can be replayed, by what   → ServedLayer
                and where keys and values lie in a backend's cache         → views of it
    step        which request has which rows of a step, in either runner   → StepBatch
    observer    a worker's steps (step): rows of those who asked           → ServedSequence
    sequence    one request, by the recorder's own flow                    → a recording in memory
    shelf       where finished ones go: a file, or memory until fetched
    worker      what a worker answers: begin, end, fetch
    offline     `regard.vllm.record(llm, path)`
    endpoint    `GET /regard/{request id}` of the OpenAI-compatible server

Nothing here needs vLLM to be imported; what runs in its processes does.
"""

from __future__ import annotations

from regard.vllm.offline import ServedRecorder, record

__all__ = ["ServedRecorder", "record"]
