"""The look of the HTML lesson. Colour is role: Okabe and Ito's hues, darker on white."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root {
  --paper: #fdfdfb; --ink: #1d1f23; --soft: #5d636d; --line: #e2e3e0; --panel: #f4f4f0;
  --q: #0067a3; --k: #a85a00; --v: #007556; --weight: #a1437a; --shade: 204 121 167;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181c; --ink: #e8e8e4; --soft: #a2a8b2; --line: #33373e; --panel: #1e2126;
    --q: #56b4e9; --k: #e69f00; --v: #2fc79b; --weight: #e08fbe; --shade: 190 90 150;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 54rem; padding: 2.5rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 1.0625rem/1.55 system-ui, "Segoe UI", Roboto, sans-serif;
}
header { border-bottom: 1px solid var(--line); padding-bottom: 1.25rem; }
header p { margin: .15rem 0; color: var(--soft); overflow-wrap: anywhere; }
.over { letter-spacing: .06em; font-size: .9rem; }
h1 { margin: 0 0 .6rem; font-size: 2.1rem; line-height: 1.2; overflow-wrap: anywhere; }
.legend b { margin-right: 1rem; }
math { margin: 1.4rem 0 .4rem; font-size: 1.35rem; }
section { margin-top: 2.4rem; }
h2 { margin: 0; font-size: 1.3rem; line-height: 1.35; overflow-wrap: anywhere; }
.number {
  display: inline-block; min-width: 1.75rem; margin-right: .35rem; border-radius: 1rem;
  background: var(--ink); color: var(--paper); font-size: 1rem; line-height: 1.75rem;
  text-align: center;
}
.why { margin: .3rem 0 .8rem; color: var(--soft); font-style: italic; }
section p { margin: .6rem 0; overflow-wrap: anywhere; }
section .item { padding-left: 1em; text-indent: -1em; }
pre, table { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre {
  margin: .8rem 0; padding: .8rem 1rem; overflow-x: auto; border-radius: .5rem;
  background: var(--panel); font-size: .9375rem; line-height: 1.6;
}
.quiet { color: var(--soft); }
.q { color: var(--q); } .k { color: var(--k); } .v { color: var(--v); }
.weight { color: var(--weight); } .output { font-weight: 700; }
.grids { display: flex; flex-wrap: wrap; gap: 1.4rem 2.2rem; margin: 1.2rem 0; }
.grid { max-width: 100%; overflow-x: auto; }
.grid p { margin: .2rem 0; color: var(--soft); font-size: .875rem; }
table { border-collapse: collapse; font-size: .9375rem; }
caption {
  padding-bottom: .3rem; font-weight: 700; text-align: left; white-space: nowrap;
}
th, td { padding: .2rem .55rem; text-align: right; white-space: nowrap; font-weight: 400; }
thead th { border-bottom: 1px solid var(--line); color: var(--soft); }
tbody th { padding-left: 0; color: var(--ink); text-align: left; }
td[style] { background: rgb(var(--shade) / calc(var(--share) * .75)); color: var(--ink); }
@media print { body { max-width: none; } section { break-inside: avoid; } }
"""
