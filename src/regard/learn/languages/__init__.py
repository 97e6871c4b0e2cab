"""Every sentence of the lesson, in one table per language: `en.json`, `de.json`, `zh.json`.

A table is section → name → text; a sentence is called "section.name". `{x}` stands for a value. A
text that depends on a number is `{"one": …, "other": …}` and takes `count`. A list among the
values is joined with the language's comma. `<b>…</b>`,
`<weight>…</weight>` and the like mark words on the page; plain text leaves the marks out. The page
carries the same tables (`web/src/learner/language.tsx`).
"""

from __future__ import annotations

from regard.learn.languages.sentences import (
    LANGUAGES,
    Language,
    Phrase,
    Table,
    language,
    listing,
    table_of,
)

__all__ = ["LANGUAGES", "Language", "Phrase", "Table", "language", "listing", "table_of"]
