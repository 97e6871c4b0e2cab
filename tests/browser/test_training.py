"""The training room on a real server, of a run that a real monitor wrote down."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import regard
from browser.reading import figures, overflow, pixels, value, values
from recorder.models import Stack
from regard.cli.main import app
from regard.colour import palette
from regard.monitor import STATISTICS, Limits, Snapshots
from regard.recording import Alarm, Writer
from regard.viewer.notebook import recording_page
from support.recordings import make_state, write_training

BROKEN = 20  # the step whose loss is NaN
LOWEST, HIGHEST = 1e-4, 1.0  # of the colours of a map, on a log scale


def _train(path, steps=30):
    """One head's scores grow until an alarm is given; maps of two heads now and then."""
    torch.manual_seed(0)
    model, limits = Stack(), Limits(entropy=0.3, max_score=15.0, sink_mass=None)
    snapshots = Snapshots(("L0H0", "L1H1"), every=8, cells=8)
    with regard.Monitor(
        model, log=path, limits=limits, snapshots=snapshots, on_alarm=lambda _: None
    ) as monitor:
        for step in range(steps):
            x = torch.randn(1, 24, 32, generator=torch.Generator().manual_seed(step))
            loss = model(x).square().mean()
            loss.backward()
            monitor.step(loss=math.nan if step == BROKEN else loss)
            model.zero_grad()
            with torch.no_grad():
                model.layers[0].w_q.weight[:8] *= 1.2
    assert monitor.alarms
    return path


def _write(writer, values, every=1, start=0, **options):
    """A piece of a run, whose numbers are the same for every statistic."""
    steps = np.arange(start, start + len(values)) * every
    words = {"peak": "heaviest", "grad_w_q": "norm"}
    write_training(writer, values, words, steps=steps, start=start, **options)


def _long(path):
    """More steps than a strip has bins."""
    with Writer(path) as writer:
        _write(writer, np.random.default_rng(0).random((5000, 2, 3), np.float32))
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A run, one of a text and no run, and a long run."""
    folder = tmp_path_factory.mktemp("runs")
    text = make_state(folder / "text.regard", "exact")
    return [_train(folder / "run.regard"), text, _long(folder / "long.regard")]


@pytest.fixture(scope="session")
def address(view, files):
    """Where they are served."""
    return view(*files)


@pytest.fixture
def run(files):
    with regard.open(files[0]) as recording:
        yield recording.training


@pytest.fixture
def at(tab, address):
    """Opens a place and waits until it is drawn."""

    def open_place(place="", ready="training", **how):
        return tab(f"{address}&{place}", ready, **how)

    return open_place


@pytest.fixture(scope="session")
def both(tmp_path_factory):
    """A recording of a text to which a run was added."""
    path = make_state(tmp_path_factory.mktemp("both") / "both.regard", "exact")
    model = Stack()
    with regard.Monitor(model, log=path) as monitor:
        model(torch.randn(1, 8, 32)).sum().backward()
        monitor.step()
    return path


def _field(page, statistic):
    """A strip, and where its heads and steps are in the canvas: (place, head, bin) → x, y."""
    field = page.locator(f"[data-part=strip][data-statistic={statistic}] [data-part=strip-field]")
    names = ("left", "width", "bins", "row", "top", "gap")
    left, width, bins, row, top, gap = (float(field.get_attribute(f"data-{n}")) for n in names)

    def middle(place, head, bin, heads=4):
        y = top + (place * heads + head + 0.5) * row + place * gap
        return left + (bin + 0.5) / bins * width, y

    return field, middle


def _colours(run, name, cells):
    """What the palette gives a statistic at (step, place, head)."""
    return [_shade(float(run[name][cell])) for cell in cells]


def _shade(share):
    return tuple(palette()[round(min(max(share, 0.0), 1.0) * 255)].tolist())


# ── what is there ────────────────────────────────────────────────────────────────────────────


def test_a_run_alone_opens_at_it(at, run):
    page = at()
    tabs = page.locator("[data-part=tabs] a")
    assert tabs.all_inner_texts() == ["Training"]
    assert tabs.first.get_attribute("aria-current") == "page"
    said = page.locator("[data-part=training-size]").inner_text()
    assert said == "30 sampled steps, 0–29 · 2 layers · 8 heads"
    strips = page.locator("[data-part=strip]").evaluate_all(
        "all => all.map(o => o.dataset.statistic)"
    )
    assert strips == list(STATISTICS) == list(run.words)


@pytest.mark.parametrize("asked", ["compare", "nonsense"])
def test_a_run_alone_has_no_other_view(at, asked):
    assert at(f"view={asked}").locator("[data-part=strip]").count() == len(STATISTICS)


def test_a_run_can_be_chosen_and_left(at):
    page = at()
    chosen = page.locator("[data-part=prompt-picker]")
    assert chosen.locator("option:checked").inner_text() == "run.regard"
    chosen.select_option(label="long.regard")
    page.wait_for_function("() => document.title.includes('long.regard')")
    assert page.locator("[data-part=recording-name]").inner_text() == "long.regard"
    assert chosen.locator("option:checked").inner_text() == "long.regard"


def test_without_a_run_there_is_no_tab(at):
    page = at("rec=1", "overview")
    assert "Training" not in page.locator("[data-part=tabs]").inner_text()
    page = at("rec=1&view=training")
    told = page.locator("[data-part=no-training]").inner_text()
    assert 'regard.Monitor(model, log="run.regard")' in told


def test_the_tab_leads_from_a_text_to_its_run(tab, view, both):
    page = tab(view(both), "overview")
    page.locator("[data-part=tabs] a", has_text="Training").click()
    page.wait_for_selector("html[data-ready=training]")
    page.keyboard.press("1")
    page.wait_for_selector("html[data-ready=overview]")
    page.keyboard.press("4")
    page.wait_for_selector("html[data-ready=training]")


# ── numbers and colours ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("head", "step"), [("L0H0", 0), ("L0H3", 17), ("L1H2", 29)])
def test_the_numbers_are_numpys(at, run, head, step):
    page = at(f"view=training&stat=peak&head={head}&step={step}")
    cell = step, int(head[1]), int(head[3])
    shown = figures(page, "[data-part=head-numbers] dd")
    expected = [float(run[name][cell]) for name in run.words]
    np.testing.assert_allclose(shown, expected, rtol=0, atol=1e-6)
    reading = figures(page, "[data-statistic=peak] [data-part=strip-reading]")
    assert reading[0] == step and abs(reading[1] - float(run["peak"][cell])) < 1e-6


def test_the_table_has_what_the_strip_shows(at, run):
    page = at()
    strip = page.locator("[data-part=strip][data-statistic=max_score]")
    strip.locator("details.twin summary").click()
    lines = strip.locator("details.twin tbody tr")
    values = run["max_score"].reshape(30, 8)
    assert lines.count() == 8
    for head in range(8):
        cells = figures(lines.nth(head), "td")
        own = values[:, head]
        np.testing.assert_allclose(cells, [own[0], own[-1], own.min(), own.max()], atol=1e-6)


def test_the_strips_have_the_palettes_colours(at, run):
    page = at()
    for name in ("normalized_entropy", "sink_mass"):
        _, middle = _field(page, name)
        marked = {one.head: one.step for one in run.alarms if one.statistic == name}
        cells = [
            (step, place, head)
            for step, place, head in np.ndindex(30, 2, 4)
            if abs(marked.get(f"L{place}H{head}", -9) - step) > 1
        ]
        middles = [middle(place, head, step) for step, place, head in cells]
        shown = pixels(page, f"[data-statistic={name}] canvas", middles)
        assert shown == _colours(run, name, cells)


def test_a_decade_is_a_part_of_the_scale(at, run):
    page = at()
    strip = "[data-statistic=grad_w_q]"
    values = run["grad_w_q"]
    high = math.ceil(math.log10(float(values.max())))
    low = max(math.floor(math.log10(float(values.min()))), high - 4)
    assert "log" in page.locator(f"{strip} .legend").inner_text()
    _, middle = _field(page, "grad_w_q")
    cells = [(3, 0, 1), (20, 1, 2), (29, 0, 0)]
    middles = [middle(place, head, step) for step, place, head in cells]
    for cell, shown in zip(cells, pixels(page, f"{strip} canvas", middles), strict=True):
        share = (math.log10(float(values[cell])) - low) / (high - low)
        assert shown in [_shade(share + part / 1000) for part in (-1, 0, 1)]  # float32 at an edge


def test_a_long_run_tells_means_and_ends(at, files):
    page = at("view=training&rec=2&stat=peak&head=L1H2&step=2500")
    with regard.open(files[2]) as recording:
        values = recording.training["peak"][:, 1, 2]
    line = "[data-statistic=peak] [data-part=strip-reading]"
    first, mean, least, largest = figures(page, line)
    words = page.locator(f"{line} [data-part=reading-step]").inner_text()
    last = int(words.split("–")[1].replace(",", ""))
    part = values[int(first) : last + 1]
    assert first <= 2500 <= last and len(part) > 1
    expected = [part.mean(dtype=np.float64), part.min(), part.max()]
    np.testing.assert_allclose([mean, least, largest], expected, atol=1e-6)


# ── the loss ─────────────────────────────────────────────────────────────────────────────────


def _centre(box):
    return box["x"] + box["width"] / 2


@pytest.mark.parametrize("width", [390, 1920])
def test_an_alarm_stands_at_one_x_in_the_loss_and_in_its_strip(at, run, width):
    page = at(width=width)
    for one in run.alarms:
        above = page.locator(f"[data-part=loss-alarm][data-heads~={one.head}]")
        above = above.and_(page.locator(f"[data-step='{one.step}']"))
        strip = page.locator(
            f"[data-part=strip][data-statistic={one.statistic}] "
            f"[data-part=over-mark][data-head={one.head}]"
        )
        found = _centre(above.locator("circle").bounding_box())
        assert abs(found - _centre(strip.bounding_box())) < 0.1
    assert overflow(page) <= 0


def test_pointing_and_keys_read_the_loss(at, run):
    page = at()
    _, middle = _field(page, "peak")
    slider = page.locator("[data-part=loss-field]")
    slider.hover(position={"x": middle(0, 0, 12)[0], "y": 60})
    step, loss = figures(page, "[data-part=loss-reading]")
    assert step == 12 and abs(loss - float(run.loss[12])) < 1e-6
    page.mouse.move(0, 0)
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert figures(page, "[data-part=loss-reading]") == [1, pytest.approx(float(run.loss[1]))]
    assert slider.get_attribute("aria-valuetext") == f"step 1: {float(run.loss[1]):#.4g}"
    assert page.url.endswith("step=1")
    lines = page.locator(".train-now").evaluate_all(
        "all => all.map(o => o.getBoundingClientRect().x)"
    )
    assert len(lines) == 1 + len(STATISTICS) and max(lines) - min(lines) < 0.1


def test_a_loss_that_is_not_finite_is_a_gap_with_a_mark(at):
    page = at(f"view=training&step={BROKEN}")
    assert value(page, "[data-part=loss-broken]") == 1
    gap = page.locator("[data-part=loss-gap]")
    assert gap.count() == 1 and gap.get_attribute("data-step") == str(BROKEN)
    _, middle = _field(page, "peak")
    corner = page.locator("[data-part=loss-field]").bounding_box()["x"]
    cross = _centre(gap.locator(".train-cross").bounding_box())
    assert abs(cross - corner - middle(0, 0, BROKEN)[0]) < 0.6
    said = page.locator("[data-part=loss-reading]").inner_text()
    assert said == f"step {BROKEN}: the loss is NaN or infinite"
    path = page.locator("[data-part=loss-path]").get_attribute("d")
    assert path.count("M") == 2 and path.count("L") == 30 - 1 - 2


def test_a_run_without_a_loss_has_no_chart(at):
    page = at("rec=2")
    assert page.locator("[data-part=strip]").count() == 2
    assert page.locator("[data-part=loss]").count() == 0


# ── alarms ───────────────────────────────────────────────────────────────────────────────────


def test_an_alarm_is_shown_with_its_first_step(at, run):
    page = at()
    listed = page.locator("[data-part=alarm]")
    assert listed.count() == len(run.alarms) >= 2
    for one, link in zip(run.alarms, listed.all(), strict=True):
        numbers = values(link, "[data-value]")
        np.testing.assert_allclose(numbers, [one.step, one.value, one.threshold], atol=1e-6)
        mark = page.locator(
            f"[data-part=strip][data-statistic={one.statistic}] [data-part=over-mark]"
            f"[data-head={one.head}]"
        )
        assert mark.get_attribute("data-step") == str(one.step)
        assert mark.get_attribute("data-alarm") == "true"
        _, middle = _field(page, one.statistic)
        x, y = middle(int(one.head[1]), int(one.head[3]), one.step)
        assert abs(float(mark.get_attribute("cx")) - x) < 0.01
        assert abs(float(mark.get_attribute("cy")) - y) < 0.01


def test_an_alarm_leads_to_its_strip(at, run):
    page = at()
    alarm = next(one for one in run.alarms if one.statistic == "max_score")
    page.locator(f"[data-part=alarm][data-statistic=max_score][data-head={alarm.head}]").click()
    cell = page.locator("[data-statistic=max_score] [data-part=strip-cell]")
    assert cell.get_attribute("data-head") == alarm.head
    assert cell.get_attribute("data-step") == str(alarm.step)
    assert value(page, "[data-part=limit-line]") == 15.0
    assert f"stat=max_score&head={alarm.head}&step={alarm.step}" in page.url


def test_the_limits_of_the_run_are_shown(at, run):
    """As its file says: two of its own, and none where the run had none."""
    page = at()
    shown = page.locator("[data-part=strip]:has([data-part=limit])").evaluate_all(
        "all => all.map(o => o.dataset.statistic)"
    )
    assert shown == list(run.limits) == ["normalized_entropy", "max_score"]
    for name, limit in run.limits.items():
        said = f"[data-statistic={name}] [data-part=limit]"
        assert value(page, said) == limit.value
        words = page.locator(said).inner_text()
        assert "customary" not in words and ("<" in words) == (limit.side == "below")


def test_who_was_over_for_a_moment_is_marked_without_an_alarm(tab, view, tmp_path):
    values = np.full((6, 2, 2), 0.5, np.float32)
    values[2, 1, 0] = 0.9
    path = tmp_path / "moment.regard"
    with Writer(path) as writer:
        _write(writer, values, every=10, alarms=[Alarm("k", "L0H0", 5, "peak", 0.8, 0.75)])
    page = tab(view(path), "training")
    mark = page.locator("[data-statistic=peak] [data-part=over-mark][data-head=L1H0]")
    assert mark.get_attribute("data-step") == "20" and mark.get_attribute("data-alarm") == "false"


# ── stored maps ──────────────────────────────────────────────────────────────────────────────


def _map_of(page, cells):
    """The colours of the stored map that is shown."""
    places = [(column, row) for row, column in cells]
    return pixels(page, "[data-part=snapshot-map]", places)


def _shades(pooled, cells):
    """And those that its weights have; of none, the ground."""
    decades = math.log10(HIGHEST / LOWEST)
    weights = [float(pooled[cell]) for cell in cells]
    return [
        _shade(math.log10(weight / LOWEST) / decades) if weight > 0 else (0xE9, 0xE9, 0xE4)
        for weight in weights
    ]


def test_a_click_shows_the_stored_map(at, run):
    page = at()
    field, middle = _field(page, "peak")
    x, y = middle(1, 1, 21)
    field.click(position={"x": x, "y": y})
    page.wait_for_selector("[data-part=snapshot-map][data-step='16']")  # the last before 21
    assert "stat=peak&head=L1H1&step=21" in page.url
    assert page.locator("[data-part=head-line]").get_attribute("data-head") == "L1H1"
    stored = page.locator("[data-part=stored-at]").evaluate_all(
        "all => all.map(o => +o.dataset.step)"
    )
    assert stored == run.maps["L1H1"] == [0, 8, 16, 24]
    pooled = run.map("L1H1", 16)
    assert _map_of(page, np.ndindex(*pooled.shape)) == _shades(pooled, np.ndindex(*pooled.shape))
    box = page.locator("[data-part=snapshot-map]")
    box.scroll_into_view_if_needed()
    side = box.bounding_box()["width"] / pooled.shape[1]
    box.hover(position={"x": 1.5 * side, "y": 6.5 * side})
    shown = value(page, "[data-part=snapshot-reading] [data-value]")
    assert abs(shown - float(pooled[6, 1])) < 1e-6
    page.locator("[data-part=snapshot-after]").click()
    page.wait_for_selector("[data-part=snapshot-map][data-step='24']")


def test_where_no_map_was_stored_it_says_so(at):
    page = at("view=training&stat=peak&head=L0H2&step=9")
    told = page.locator("[data-part=no-snapshot]").inner_text()
    assert "No map of L0H2 was stored" in told and "Snapshots" in told


# ── as one file ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def file(files):
    """`regard report run.regard -o page.html`, and nothing that serves it."""
    path = files[0].with_name("page.html")
    assert CliRunner().invoke(app, ["report", str(files[0]), "-o", str(path)]).exit_code == 0
    return path.as_uri()


def test_a_file_carries_the_run(tab, file, run):
    page = tab(file, "training")
    assert "the training run of run.regard" in page.locator("[data-part=carried]").inner_text()
    said = page.locator("[data-part=training-size]").inner_text()
    assert said == "30 sampled steps, 0–29 · 2 layers · 8 heads"
    assert page.locator("[data-part=strip]").count() == len(run.words)
    assert page.locator("[data-part=alarm]").count() == len(run.alarms)
    assert page.locator("[data-part=loss-gap]").get_attribute("data-step") == str(BROKEN)
    _, middle = _field(page, "normalized_entropy")
    cells = [(3, 1, 2), (29, 1, 0)]
    middles = [middle(place, head, step) for step, place, head in cells]
    shown = pixels(page, "[data-statistic=normalized_entropy] canvas", middles)
    assert shown == _colours(run, "normalized_entropy", cells)


def test_a_file_tells_numpys_numbers_and_maps(tab, file, run):
    page = tab(f"{file}#view=training&stat=peak&head=L1H1&step=21", "training")
    shown = figures(page, "[data-part=head-numbers] dd")
    np.testing.assert_allclose(shown, [run[name][21, 1, 1] for name in run.words], atol=1e-6)
    page.wait_for_selector("[data-part=snapshot-map][data-step='16']")
    cells = [(7, 0), (3, 2)]
    assert _map_of(page, cells) == _shades(run.map("L1H1", 16), cells)


def test_a_file_of_a_text_and_a_run(tab, tmp_path, both):
    with regard.open(both) as recording:
        (tmp_path / "both.html").write_text(recording_page(recording), encoding="utf-8")
    page = tab((tmp_path / "both.html").as_uri(), "overview")
    page.locator("[data-part=tabs] a", has_text="Training").click()
    page.wait_for_selector("html[data-ready=training]")
    page.keyboard.press("1")
    page.wait_for_selector("html[data-ready=overview]")


# ── moving about ─────────────────────────────────────────────────────────────────────────────


def test_the_keys(at, run):
    page = at()
    cell = page.locator("[data-part=strip-cell]")
    first = next(one for one in run.alarms if one.statistic == "normalized_entropy")
    page.keyboard.press("ArrowRight")  # begins at the first alarm
    cell.wait_for()
    assert cell.get_attribute("data-head") == first.head
    assert cell.get_attribute("data-step") == str(first.step)
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    assert cell.get_attribute("data-step") == str(first.step + 1)
    assert cell.get_attribute("data-head") == "L0H1"
    page.keyboard.press("s")
    active = page.locator(".train-active")
    assert active.get_attribute("data-statistic") == "max_score"
    page.keyboard.press("ArrowUp")
    page.wait_for_function("() => document.activeElement.dataset.part === 'strip-cell'")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.dataset.part === 'snapshot'")
    assert page.locator("[data-part=snapshot]").get_attribute("data-head") == "L0H0"
    page.keyboard.press("Home")
    assert cell.get_attribute("data-step") == "0"
    page.reload()
    page.wait_for_selector("html[data-ready=training]")
    assert cell.get_attribute("data-head") == "L0H0" and cell.get_attribute("data-step") == "0"


def test_pointing_reads_a_cell(at, run):
    page = at()
    field, middle = _field(page, "sink_mass")
    x, y = middle(1, 3, 11)
    field.hover(position={"x": x, "y": y})
    reading = page.locator("[data-statistic=sink_mass] [data-part=strip-reading]")
    assert reading.get_attribute("data-head") == "L1H3"
    step, number = figures(page, "[data-statistic=sink_mass] [data-part=strip-reading]")
    assert step == 11 and abs(number - float(run["sink_mass"][11, 1, 3])) < 1e-6


def test_a_run_that_goes_on_is_followed(tab, view, tmp_path):
    path = tmp_path / "live.regard"
    values = np.random.default_rng(1).random((8, 2, 3), np.float32)
    with Writer(path) as writer:
        _write(writer, values[:5])
        page = tab(view(path), "training")
        assert value(page, "[data-part=training-live] [data-value]") == 5
        _write(writer, values[5:], start=5, maps=[("L0H0", 5, np.eye(4))])
        page.wait_for_selector("[data-part=training-live] [data-value='8']")
        page.wait_for_selector("[data-statistic=peak] [data-bins='8']")
        page.keyboard.press("End")
        page.keyboard.press("End")
        page.wait_for_selector("[data-part=snapshot-map][data-step='5']")
    page.wait_for_selector("[data-part=training-live]", state="detached")
    assert figures(page, "[data-statistic=peak] [data-part=strip-reading]")[0] == 7


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits(at, width):
    page = at("view=training&stat=peak&head=L1H1&step=9", width=width)
    page.wait_for_selector("[data-part=snapshot-map]")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert overflow(page) <= 0
        field, _ = _field(page, "peak")
        canvas = field.locator("canvas").bounding_box()
        assert canvas["x"] >= 0 and canvas["x"] + canvas["width"] <= width
