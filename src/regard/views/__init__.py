"""What is shown of a recording, built once: typed values with numpy arrays, no layout. Terminal,
plots, page and export draw them. numpy only.

schema      every answer, field by field; the page's types are written from it (schema_sight: what
            is said of pictures)
text        small things that are said in several places, the caveat among them
defaults    what is shown before anybody chooses
glossary    words that a reader meets, each explained once
overview    which recording this is, its prompts and heads
findings    what the heads do, in the order and the words in which it is told everywhere
head        one head
row         one row of it, and weights as plain numbers
region      a part of its matrix
sight       what the positions of a prompt stand for
picture     a row, a column or received mass over the patches of pictures
positions   what rows and keys stand for: in words, as coordinates
decoded     pictures as colours
profiles    who is looked at, how far back, how evenly
sightlines  what rows may see, in runs
uniform     × even share, the one colour of attention: cells and codes
pixels      one tile → tiles a head's map, pyramid a map at several scales
thumbnails  every head of a stack
run         a training run
comparison  two prompts side by side
parts       which heads, rows and keys of each
table       tidy columns: `rec.table()`, and what `regard export` writes
cache       what was computed lately
"""
