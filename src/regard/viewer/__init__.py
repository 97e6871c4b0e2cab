"""The page's server: recordings on loopback, for one browser, read-only.

cache     what was computed lately, bounded by bytes
pixels    weights pooled into pixels, and their codes
tiles     a head's map as tiles
tracks    curves along a map's sides
opened    a recording that is served: its lock, its revisions, its report
answers   what is answered, as JSON and as plain numbers
work      a pool of threads, newest request first
files     the page itself, as bytes
guard     who may ask
app       addresses → answers; needs starlette
serve     the process; needs uvicorn

Nothing here is imported before it is used: starlette and uvicorn come with the extra `view`.
"""

from __future__ import annotations

__all__: list[str] = []
