"""What cannot be done is one line on stderr that says what could be: nothing is printed or written.

Absurd numbers, impossible paths and things that are no files, too, in every verb.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from regard.recording import Writer
from support.recordings import on_disk

NO_TEXT = "nothing was recorded yet"
# Words of a command, and what they are answered. R is a recording of two texts, of whose second
# layer only summaries were kept; E is one of nothing; P one of a picture of 4 × 5 patches; M a
# hand calculation. The folder none is not there, the folder empty is.
WRONG = [
    # learn
    ("learn", "no sentence was given"),
    ("learn ''", "the sentence is empty"),
    ("learn 'a b' --web --json", "give --save or --json without it"),
    ("learn 'a b' --web --no-open --port 70000", "port 70000"),
    ("learn 'The cat' --token dog", "its tokens are The, cat"),
    ("learn 'a b a' --token a", "stands at positions 1, 3"),
    ("learn a --projections unknown", "give identity, random:SEED"),
    ("learn a --projections gone.json", "no such file"),
    ("learn a --embeddings gone.json", "no such file"),
    ("learn a --d-k 0", "--d-k 0: give a whole number from 1 to 1024"),
    ("learn a --heads -2", "--heads -2: give a whole number from 1 to 64"),
    ("learn a --save lesson.pdf", "give a name that ends in .html or .md or .json"),
    ("learn a --save none/l.html", "cannot be written there"),
    ("learn a --key", "give --exercise SEED with it"),
    ("learn 'The cat' --temperature 0.5", "give --next with it"),
    ("learn 'The cat' --port 8000", "give --web with it"),
    ("learn 'The cat' --projections m.json", "w_q (1 × 2) does not multiply; give w_q 4 rows"),
    ("learn a --projections torn.json", "not valid JSON at line 2"),
    # learn --exercise
    ("learn --exercise -1", "give a seed ≥ 0"),
    ("learn --exercise seven", "--exercise 'seven': give a seed ≥ 0"),
    ("learn --exercise 5:1 --save s", "a range that goes up"),
    ("learn --exercise 1:5", "5 sheets need a folder; give --save FOLDER"),
    ("learn --exercise 7 --step heads --save s.txt", "ends in .md"),
    ("learn --step scores", "as in --exercise 7 --step scores"),
    ("learn --exercise 7 --heads 2 --vectors features", "--vectors, --heads: an exercise has its"),
    ("learn --exercise 7 --web", "--web: an exercise"),
    ("learn --exercise 7 --projections identity", "--projections: an exercise"),
    # grade
    ("grade missing.md", "no such file"),
    ("grade empty", "holds no .md or .json files to grade"),
    (f"grade {'x' * 300}", "cannot be opened"),
    ("grade M --json --csv -", "both write to stdout"),
    ("grade M --csv none/marks.csv", "--csv"),
    ("grade M --csv empty", "a folder"),
    ("grade M --statistics s.xlsx", "give a name that ends in .json or .csv"),
    ("grade M --statistics --json", "all write to stdout"),
    ("grade M --statistics --csv -", "all write to stdout"),
    ("grade M --statistics none/x.json", "--statistics"),
    # show
    ("show R L40H0", "layer 40 does not exist; this recording has 0–1"),
    ("show R L0H9", "head 9 does not exist; L0 has 0–3"),
    ("show R nonsense", "'nonsense' names no head; give one such as"),
    ("show R middle.L0H0", "there is no stack 'middle'"),
    ("show R --row 3", "--row is about one head; name it, as in: regard show FILE L5H1"),
    ("show R --cell 3", "--cell is about one head"),
    ("show R L0H1 --stat sink", "--stat is about the overview; leave out 'L0H1', or --stat"),
    ("show R --stat nonsense", "no statistic 'nonsense'; there are on sinks (sink), off sinks"),
    ("show R L0H1 --row 12", "row 12 does not exist; L0H1 has 0–11"),
    ("show R L0H1 --token zebra", "--token 'zebra': no recorded row has this token"),
    ("show R L0H1 --row 1 --token x", "--row and --token each name rows"),
    ("show R L0H1 --row 1 --rows 1:2", "--row and --rows each name rows"),
    ("show R L0H1 --rows a", "--rows 'a': give a range such as 10:20"),
    ("show R L0H1 --keys 5:99", "--keys 5:99: not a part of what there is; that is 0:12"),
    ("show R L0H1 --keys 12", "not a part of what there is"),
    ("show R L0H1 --top 0", "--top 0: give a number of keys ≥ 1"),
    ("show R L0H1 --cell 0", "--cell 0: give a number of tokens ≥ 1"),
    ("show R L0H1 --cell 2 --row 1", "--cell is about the map of a whole head"),
    ("show R --prompt 2", "prompt 2 does not exist; this recording has 0–1"),
    ("show R L1H0 --rows 0:3", "it did not fit the budget of 1 kB"),
    ("show R L0H0 --words", "--words is about a whole text"),
    ("show R L0H0 --patch 1,1", "are no patches"),
    ("show P L0H0 --patch 9,9", "there is no patch 9,9; L0H0 has class + 4 × 5 patches"),
    ("show P L0H0 --patch x", "'x' names no patch; give its row and column"),
    ("show P L0H0 --patch 1,1 --row 3", "--row and --patch each name rows"),
    ("show P L0H0 --key 3 --row 3", "--key is about one key and all rows"),
    ("show P L0H0 --key 99", "key 99 does not exist; L0H0 has 0–20"),
    ("show P --patch 1,1", "--patch is about one head"),
    ("show E L0H1", NO_TEXT),
    # plot
    ("plot R --row 3", "--row is about one head; name it"),
    ("plot R L0H1 --entropy", "--entropy is about all heads; leave out 'L0H1'"),
    ("plot R L0H1 --grid sink", "--grid is for a picture of all heads, and this is one of a"),
    ("plot R --cell 4", "--cell is for a picture of a head, and this is one of all heads"),
    ("plot R --entropy --raw", "--raw is for a picture of a head or a row"),
    ("plot R --entropy --grid sink", "--grid is for a picture of all heads"),
    ("plot R L0H1 --row 3 --max", "--max is for a picture of a head"),
    ("plot R L0H1 --stack x", "--stack is for a picture of all heads"),
    ("plot R --prompt 7", "prompt 7 does not exist"),
    ("plot R --stack cross", "there is no stack 'cross'"),
    ("plot R L0H1 --cell 0", "a cell of 0 tokens; give a number ≥ 1"),
    ("plot R L1H1 --cell 3", "budget of 1 kB"),
    ("plot R L0H1 --size large", "--size 'large': give width and height in inches"),
    ("plot R L0H1 --dpi 3", "give 30–1200 dpi"),
    ("plot R L0H1 --dpi many", "--dpi many: give a whole number"),
    ("plot R L0H1 -o a.jpg", "'a.jpg' is not the name of a picture; give a.png or a.svg"),
    ("plot R L0H1 -o none/a.png", "cannot be written there", 3),
    ("plot run.png L0H1 -o run.png --overwrite", "the recording itself"),
    ("plot P --over-picture", "give --row N"),
    ("plot P L0H0 --over-picture", "give --row or --key, one of them"),
    ("plot P L0H0 --over-picture --row 1 --key 1", "one of them"),
    ("plot P L0H0 --key 1", "give --over-picture as well"),
    ("plot P L0H0 --over-picture --row 1 --max", "--max is for a picture of a head"),
    ("plot P --over-picture --row 1 --key 1", "--key is for a picture of a head over"),
    ("plot E", NO_TEXT),
    # export
    ("export R --to xlsx", "--to 'xlsx': give one of csv, parquet, npz, safetensors"),
    ("export R --to csv --what qk", "--to csv takes statistics, rows, top, received"),
    ("export R --to csv --what rows,top", "--what rows,top: a table holds one of them"),
    ("export R --to npz --what magic", "--to npz takes statistics, rows, lse"),
    ("export R --to csv --heads L7", "heads 'L7': means no recorded head"),
    ("export R --to csv --rows 1:2", "--rows: statistics are of whole heads"),
    ("export R --to csv --what weights", "name heads of other layers"),
    ("export R --to npz --what qk", "name heads of other layers"),
    ("export R --to npz -o run.regard --overwrite", "the recording itself; give another name"),
    ("export R --to csv -o none/a.csv", "give a folder that exists and may be written to", 3),
    ("export R --to csv -o empty", "a folder, not a file; give"),
    ("export E --to csv", NO_TEXT),
    # report
    ("report R --json --markdown", "two forms"),
    ("report R --top -1", "--top -1"),
    ("report R --prompt 7", "prompt 7 does not exist; this recording has 0"),
    ("report R -o none/a.md", "cannot be written there"),
    ("report R -o page.xyz", "give .md, .json, .html or .txt"),
    ("report R -o page.html --heads L0H9", "L0"),
    ("report R --heads L0", "-o page.html"),
    ("report R --keep", "--keep adds what --causal finds"),
    ("report R --evict lru", "give one of h2o, kvzip, observed, snapkv, tova"),
    ("report R --evict h2o --budget half", "a number of keys, or a share"),
    ("report R --evict h2o -o a.html", "as text, Markdown or JSON"),
    ("report E", NO_TEXT),
    # diff, view, play, models, bench
    ("diff R R --other 2", "prompt 2 does not exist"),
    ("diff R R --rows -5", "give numbers of 0 or more"),
    ("view --no-open empty", "no recording is in this folder"),
    ("view --no-open --port 70000 R", "port 70000"),
    ("play --script script.txt", "script.txt:1: 'jump' is no step"),
    ("models nope", "no model called 'nope': known names are smollm2, minilm, whisper-tiny.en"),
    ("models --fetch", "say which: regard models NAME --fetch"),
    ("models --remove", "say which: regard models NAME --remove"),
    ("models minilm --fetch --remove", "give one of --fetch, --verify and --remove"),
    ("bench gpu9", "there is no suite 'gpu9'; there is: cpu"),
    ("bench gpu", "python -m bench gpu"),
    ("bench record", "python -m bench record"),
    ("bench cpu --tokens many", "give whole numbers"),
    ("bench cpu --tokens ''", "give whole numbers"),
    ("bench cpu --dtype int8", "give one of float32"),
    ("prepare --dims 300", "head dim 300 is above 256"),
    ("prepare --masks diagonal", "'diagonal' is none of none, causal, window, lengths"),
    ("prepare --dtypes float8", "'float8' is none of bfloat16, float16, float32"),
    ("prepare", "there are no GPU kernels to compile here: there is no CUDA GPU"),
]

ABSURD = ("-1", "0", "99999999999", "-99999999999", "1e11", "nan", "9223372036854775808", "1" * 30)
LONG = "x" * 5000
# words of a verb, and its options that take a number
NUMBERS = [
    ("export R --to csv --what top -o x.csv --overwrite", "--top --prompt"),
    ("export R --to npz --what top -o x.npz --overwrite", "--top"),
    ("show R", "--prompt --top"),
    ("show R L0H0", "--row --cell"),
    ("report R", "--top --prompt"),
    ("diff R R", "--prompt --other --rows --top"),
    ("plot R L0H0 -o x.png --overwrite", "--row --cell --dpi --prompt"),
    ("learn the", "--d-k --d-v --heads --token"),
    ("learn", "--exercise"),
    ("bench cpu --tokens 16 --dims 8", "--seconds"),
    ("bench cpu --seconds 0.01", "--tokens --dims"),
]
FILES = [
    "show Q", "report Q", "diff Q Q", "plot Q", "export Q --to csv", "verify Q", "grade Q",
    "learn the --embeddings Q", "learn the --projections Q", "record R --file Q",
    "record R --documents Q", "verify Q --repair", "view Q --no-open", "play R --script Q",
    "check R --batch Q",
]  # fmt: skip
OUTPUTS = [
    "export R --to csv -o Q", "export R --to npz -o Q", "plot R -o Q", "report R -o Q",
    "learn the --save Q", "learn --exercise 3 --save Q", "grade M --csv Q",
    "grade M --statistics Q",
]  # fmt: skip
ENDINGS = {"plot": ".png", "report": ".html", "learn": ".md"}


@pytest.fixture
def place(file, tmp_path):
    """The folder of the test, with everything that the tables name."""
    with Writer(tmp_path / "empty.regard") as writer:
        writer.note({"contents": "attention/1"})
    (tmp_path / "hand.json").write_text('{"d_k": 4, "scores": [[2, 0]], "scaled": [[1, 0]]}')
    return tmp_path


def words_of(line: str, picture: object = "", path: object = "") -> list[str]:
    put = {"R": "run.regard", "E": "empty.regard", "M": "hand.json"}
    put |= {"P": str(picture), "Q": str(path)}
    return [put.get(word, word) for word in shlex.split(line)]


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[0][:60])
def test_wrong_words_are_one_line_that_says_what_would_be_right(refused, place, sighted, row):
    line, words, *status = row
    (place / "empty").mkdir()
    (place / "script.txt").write_text("jump\n")
    (place / "m.json").write_text('{"w_q": [[1, 0]], "w_k": [[1]], "w_v": [[1]]}')
    (place / "torn.json").write_text('{"w_q": [[1, 0],\n [0, }')
    if "run.png" in line:
        on_disk(place / "run.png")
    assert words in refused(*words_of(line, sighted), status=status[0] if status else 2)


@pytest.mark.parametrize(("line", "options"), NUMBERS, ids=[line for line, _ in NUMBERS])
def test_absurd_numbers(shell, place, line, options):
    for option in options.split():
        for number in ABSURD:
            status, _, err = shell(*words_of(line), option, number)
            assert status in (0, 1, 2), (option, number, err)
            lines = [one for one in err.splitlines() if one.startswith("regard:")]
            assert "Traceback" not in err and len(lines) == (status == 2), (option, number, err)


def odd_paths(place: Path, ending: str = "") -> list[str]:
    """A path too long, folders that are not there, and links that lead to themselves."""
    for name, to in {"loop": "loop", "there": "back", "back": "there"}.items():
        (place / f"{name}{ending}").symlink_to(f"{to}{ending}")
    return [f"{name}{ending}" for name in (LONG, "none/a", "loop", "there", f"loop{ending}/a")]


@pytest.mark.parametrize("line", FILES)
def test_what_is_no_file_is_not_read(shell, place, line):
    os.mkfifo(place / "pipe")
    (place / "link").symlink_to("/dev/zero")
    (place / "text.regard").write_text("text")
    for path in ("pipe", "link", "none", *odd_paths(place), *["text.regard"] * ("--" not in line)):
        status, out, err = shell(*words_of(line, path=path))
        lines = err.splitlines() + out.splitlines()
        assert status in (2, 3), (path, err)
        assert "Traceback" not in err and len(lines) <= 2 and max(map(len, lines)) < 700, err


@pytest.mark.parametrize("line", OUTPUTS)
def test_what_is_no_file_is_not_replaced_and_a_file_only_when_asked(shell, place, line):
    ending = ENDINGS.get(line.split()[0], ".json" if "--statistics" in line else ".csv")
    os.mkfifo(place / f"pipe{ending}")
    (place / f"link{ending}").symlink_to("/dev/null")
    (place / f"folder{ending}").mkdir()
    mine = place / f"mine{ending}"
    mine.write_text("mine")
    odd = odd_paths(place, ending)
    before = {path.name: path.lstat().st_mode for path in place.iterdir()}
    for name in ("pipe", "link", "folder"):
        status, _, err = shell(*words_of(line, path=f"{name}{ending}"), "--overwrite")
        assert status in (2, 3) and "not a file" in err, err
    for path in (mine.name, *odd):
        status, _, err = shell(*words_of(line, path=path))
        assert status in (2, 3) and err.count("\n") <= 2 and len(err) < 1400, err
        assert "Traceback" not in err and (path != mine.name or "exists already" in err)
    assert mine.read_text() == "mine"
    assert {path.name: path.lstat().st_mode for path in place.iterdir()} == before
    assert shell(*words_of(line, path=mine.name), "--overwrite")[0] in (0, 1)
    assert mine.read_bytes() not in (b"mine", b"") and list(place.glob(".*")) == []
