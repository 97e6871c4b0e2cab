"""The page's server: recordings on loopback, for one browser, read-only.

opened      a recording that is served: its lock, its revisions, its report
answers     what is answered, as JSON and as plain numbers
questions   what can be asked, one table
replies     answers as status, bytes and headers
work        a pool of threads, newest request first
files       the page itself, as bytes
guard       who may ask
app         addresses → answers; needs starlette
serve       the process, which computes ahead what the first page asks for; needs uvicorn

and the page without a server, as one file or in a notebook's frame:

packing                               numbers as few bytes
carried …_heads …_tracks …_training   a recording → what such a page carries
selfcontained                         data → one HTML file
notebook                              that file in a frame; from the server by replies

and as a widget of a notebook:

live        `rec.view()`; needs anywidget
kernel      the page's messages → replies
still       a picture for where no widget runs

Nothing here is imported before it is used: starlette and uvicorn come with the extra `view`,
anywidget with `notebook`.
"""

from __future__ import annotations

__all__: list[str] = []
