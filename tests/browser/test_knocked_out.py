"""What happens without a head: the page has Python's numbers, or says how to get them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from browser.reading import figures, values
from regard.cli.main import app
from regard.recording.format.write import annotate
from regard.recording.notes import write_knocked

# the page's rows, and where `regard report --json` has their numbers
ROWS = {
    "Δ log-probability of the next token": ("text", "delta_logprob"),
    "Δ logit of the next token": ("text", "delta_logit"),
    "KL of the next-token distribution, nats": ("text", "kl"),
    "Δ log-probability of a copied token": ("copying", "delta_logprob"),
    "Δ logit of a copied token": ("copying", "delta_logit"),
}


def evidence(label, seed):
    """As `regard report --causal --keep` leaves it; no number equals another."""
    dice = np.random.default_rng(seed)
    names = [f"{usual}{name}" for usual in ("", "typical_")
             for name in ("delta_logit", "delta_logprob", "kl")]  # fmt: skip
    parts = {part: {name: float(dice.normal()) for name in names} for part in ("text", "copying")}
    return {"label": label, "copies": True, **parts}


@pytest.fixture(scope="session")
def files(tmp_path_factory, planted):
    """A recording without knock-outs, and the same with those of two heads."""
    path = tmp_path_factory.mktemp("knocked") / "knocked.regard"
    shutil.copy(planted, path)
    kept = {label: evidence(label, n) for n, label in enumerate(("L0H0", "L1H2"))}
    annotate(path, {"knocked/0": write_knocked(kept)})
    return [planted, path]


@pytest.fixture(scope="session")
def address(view, files):
    return view(*files)


@pytest.fixture(scope="session")
def carried(files, tmp_path_factory):
    """The second recording as one page."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    regard("report", files[1], "-o", path)
    return path.as_uri()


def regard(*words):
    """What the command prints."""
    run = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert run.exit_code == 0
    return run.stdout


def said_by(file, label):
    """What the command says of a knock-out, row by row as the page should have it: to nine digits,
    which is what a page that is a file carries."""
    found = json.loads(regard("report", file, "--json"))["knocked"][label]
    return {
        row: pytest.approx([found[part][name], found[part][f"typical_{name}"]], rel=1e-8)
        for row, (part, name) in ROWS.items()
    }


def shown_in(card):
    rows = card.locator("[data-part=knocked-out] tbody tr").all()
    return {row.get_attribute("data-change"): values(row, "[data-value]") for row in rows}


@pytest.mark.parametrize("label", ["L0H0", "L1H2"])
@pytest.mark.parametrize("shell", ["served", "carried"])
def test_a_head_has_the_numbers_of_its_knock_out(tab, address, carried, files, shell, label):
    where = f"{address}&rec=1&" if shell == "served" else f"{carried}#"
    page = tab(f"{where}view=head&head={label}", "head")
    card = page.locator("[data-part=knock-out]")
    card.locator("[data-part=knocked-out]").wait_for()
    assert "Without this head" in card.inner_text()
    expected = said_by(files[1], label)
    assert shown_in(card) == expected
    for change, _ in shown_in(card).values():
        assert f"{abs(change):.3f}" in card.inner_text()  # to be read without a pointer too
    assert "--causal" not in card.inner_text()  # nothing more to do


def test_a_head_that_was_not_knocked_out_says_of_how_many_it_is_known(tab, address):
    page = tab(f"{address}&rec=1&view=head&head=L0H2", "head")
    card = page.locator("[data-part=knock-out]")
    card.locator("[data-part=causal-check]").wait_for()
    assert card.locator("[data-part=knocked-out]").count() == 0
    assert "Of 2 heads the result is kept" in card.inner_text()


@pytest.mark.parametrize(
    ("place", "ready"), [("view=head&head=L0H0", "head"), ("view=findings", "findings")]
)
def test_without_knock_outs_the_page_says_how_to_get_them(tab, address, place, ready):
    page = tab(f"{address}&rec=0&{place}", ready)
    check = page.locator("[data-part=causal-check]")
    check.wait_for()
    assert page.locator("[data-part=knocked-out]").count() == 0
    command = check.locator("code").inner_text()
    assert command == "regard report planted.regard --causal --keep"
    assert {"--causal", "--keep"} <= set(regard("report", "--help").replace("│", " ").split())


def test_findings_have_them_too(tab, address, files):
    page = tab(f"{address}&rec=1&view=findings", "findings")
    cards = page.locator('[data-part=finding][data-head="L0H0"]')
    assert cards.count() >= 1
    for card in cards.all():
        assert shown_in(card) == said_by(files[1], "L0H0")
    others = page.locator('[data-part=finding][data-head="L0H2"]')
    assert others.count() >= 1 and not figures(page, '[data-head="L0H2"] [data-part=knocked-out]')
