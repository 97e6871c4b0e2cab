"""What was measured → verdicts, and findings with their place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import distributed, nn

from regard.check.batch import GivenBatch, batch_of
from regard.check.declared import is_sequence_first, prefix_of, refusal, specials_of, window_of
from regard.check.layers import Mixers, MixingLayer, first_moved
from regard.check.report import Decision, Finding, Report
from regard.check.reproduce import layer_reproduction, reproduction
from regard.check.rules import REGROUPED, RULES, Mode, RunPair, amounts, apart
from regard.check.runs import (
    Feed,
    Runner,
    arguments,
    cache_of,
    doubled,
    implementation,
    is_compiled,
    is_shared,
    plain,
    untouched,
)  # fmt: skip
from regard.display import ask
from regard.errors import InputError, UnavailableError

_MATTERS = 1e-3  # of what a token does: a leak of this size must be visible, or nothing is decided
_LARGEST = 2**31  # bytes of a copy in double precision
_MODES = {"own": "as it is", "double": "in float64", "training": "in training mode"}
_NOT_GIVEN = {
    "padding": "the model takes no mask of padding",
    "documents": "the batch is no pack",
    "batch": "the pack is one sequence",
    "window": "no layer declares a window",
    "cache": "the model takes no cache",
    "training": "a callable has no training mode",
}


class Examination:
    """One call of `regard.check`."""

    def __init__(
        self, model: Any, batch: Any, causal: bool | int | None, window: Any, documents: Any,
        rules: Sequence[str] | None, allow: Mapping[str, str],
        progress: Callable[[str], None] | None,
    ) -> None:  # fmt: skip
        unknown = sorted({*(rules or ()), *allow} - set(RULES))
        if unknown:
            raise InputError(f"no rule is called {', '.join(unknown)}; rules: {', '.join(RULES)}")
        self.plain, self.window = plain(model), window
        self.model = self.plain if is_shared(model) else model  # ranks may run it differently often
        self.asked_of = batch  # as it was given
        if reason := refusal(self.plain):
            raise UnavailableError(f"the model cannot be checked: {reason}")
        self.asked, self.allow = set(RULES if rules is None else rules), allow
        self.is_told = rules is not None  # which rules are asked
        self.progress = progress or (lambda _: None)
        self.is_module = isinstance(self.plain, nn.Module)
        special, pad = specials_of(self.plain)
        names, is_turned = arguments(self.plain), is_sequence_first(self.plain)
        if not getattr(getattr(self.plain, "config", None), "is_encoder_decoder", False):
            names = [name for name in names if name != "decoder_input_ids"]  # of a part, perhaps
        self.given = batch_of(batch, documents, special, names, pad, is_turned)
        # two sequences at least, where one can be repeated: what is of one must not reach others
        is_single = self.given.can_repeat and self.given.shape[0] == 1
        self.batch = self.given.repeated(2) if is_single else self.given
        self.copies = 2 if is_single else 4
        declared = prefix_of(self.plain, self.given, causal)
        self.prefix, self.declared_by, self.unknown = declared
        self.modes: list[Mode] = []
        self.exact: Mode  # in float64 where there is that
        self.troubles: dict[str, str] = {}  # rule → why it could not be tried
        self.mixers: Mixers | None = None
        self.layers: list[MixingLayer] = []
        self.why_no_double = ""
        self.is_leaky = False  # sequences move one another
        self._leaks: dict[RunPair, bool] = {}

    def report(self, by_layer: bool) -> Report:
        began = time.monotonic()
        with untouched(self.model) as restore:
            compiled = is_compiled(self.model)
            self._measure(Runner(self.model, restore, compiled=compiled), by_layer)
            forwards = sum({id(m.runner): m.runner.forwards for m in self.modes}.values())
            checked = {rule: self._verdict(rule) for rule in RULES}
            findings = [f for rule in RULES if checked[rule] == "found" for f in self._found(rule)]
        b, length = self.given.shape
        dtype = str(self.modes[0].base.dtype).removeprefix("torch.")
        about = f"{type(self.plain).__name__}, {b} × {length} positions, {dtype}, "
        about += f"{forwards} forwards, {time.monotonic() - began:.1f} s"
        findings.sort(key=lambda finding: -finding.change)
        return Report(findings, checked, self.layers, about, forwards)

    # ── measured ─────────────────────────────────────────────────────────────────────────────

    def _measure(self, own: Runner, by_layer: bool) -> None:
        self.exact = self._try("own", own)
        self._try_double(own, by_layer)
        if "training" in self.asked and self.is_module:
            with self._troubled("training"):
                self._try("training", self._in_training(own))
        exact, batch = self.exact, self.exact.batch
        if self.is_module:
            self.progress("what each layer sees")
            self.mixers = Mixers(exact.runner, self.given, by_layer)
            with self._troubled("window"):  # a module called again may disturb the model around it
                exact.runner.rows(Feed(self.given), self.mixers.watching)
            exact.runner.forwards -= 1
            self.layers = list(self.mixers.layers.values())
            for layer in self.layers:
                layer.declared = window_of(self.plain, layer.name, self.window)[1]
            cells = [cell for layer in self.layers for cell in layer.cells()]
            exact.cut(cells, self.prefix if "future" in self.asked else None)
        is_pack, sides = batch.documents is not None, self._sides(batch)
        if "padding" in self.asked:
            with self._troubled("padding"):
                exact.trials += map(exact.compare, amounts(batch, sides))
            if batch.is_whole and any(sides) and "padding" not in self.troubles:
                longer = batch.padded(*sides).positioned(sides[0] > 0)
                copies = max(exact.copies * batch.shape[1] // longer.shape[1], 1)
                padded = Mode(exact.name, exact.runner, longer, copies)
                padded.exchange(None, 0, ["padding"])
                self.modes.append(padded)
        if "documents" in self.asked and is_pack and not self.is_leaky:
            with self._troubled("documents"):
                exact.trials += map(exact.compare, apart(batch))
        if "cache" in self.asked and not self._no_cache():
            with self._troubled("cache"):
                exact.trials += exact.cached()

    def _try(self, name: str, runner: Runner) -> Mode:
        """What keeps the shape, in one mode; that in which it was tried without other leaks."""
        self.progress(_MODES[name])
        batch, prefix = self.batch, self.prefix if "future" in self.asked else None
        mode, turn = Mode(name, runner, batch, self.copies), list(_MODES).index(name)
        mode.exchange(prefix, turn)
        if mode.is_mixed:  # by their places: copies are sequences of one batch now, in every half
            mode = Mode(name, runner, batch.repeated(mode.copies), copies=1)
            for half in range(2 * (mode.batch.shape[0] - 1).bit_length()):
                mode.exchange(None, half, ["", "batch"])
        self.modes.append(mode)
        leaks = [trial for trial in mode.trials if trial.rule == "batch" and trial.by]
        self.is_leaky |= any(trial.by > mode.noise(trial) for trial in leaks)
        if self.is_leaky and batch.can_repeat and batch.shape[0] > 1:
            # sequences move one another: whatever else is asked, is asked of one by itself
            longest = batch.part(int(batch.real.sum(1).argmax()), 0, batch.shape[1])
            try:
                alone = Mode(name, runner, longest, copies=1)
                alone.exchange(prefix, turn)
            except (RuntimeError, ValueError, IndexError, TypeError):
                return mode  # it cannot be cut, as patches of several pictures
            mode.trials = [trial for trial in mode.trials if trial.rule in ("", "batch")]
            self.modes.append(alone)
            return alone
        return mode

    def _try_double(self, own: Runner, by_layer: bool) -> None:
        """The same in float64, where the model runs in it."""
        if by_layer or not self.is_module:
            self.why_no_double = "" if by_layer else "a callable runs in its own precision"
            return
        size = sum(x.numel() for x in self.plain.parameters()) * 8
        if size > _LARGEST:
            self.why_no_double = f"a copy in float64 takes {size / 2**30:.1f} GiB; by_layer=True"
            return
        try:
            twin, switched = doubled(self.plain)
            runner = replace(own, model=twin, exact=True, switched=switched, forwards=0)
            mode = self._try("double", runner)
            if mode.is_lost and not self.modes[0].is_lost:
                self.modes = [each for each in self.modes if each.name != "double"]
                raise ValueError("its rows are no numbers there")
            self.exact = mode
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            self.why_no_double = f"it does not run in float64 ({_one_line(error)})"

    def _in_training(self, own: Runner) -> Runner:
        """In float64 where that runs the model's own attention."""
        exact = self.exact.runner
        runner = exact if implementation(exact.model) == implementation(own.model) else own
        return replace(runner, training=True, forwards=0)

    @contextmanager
    def _troubled(self, rule: str) -> Iterator[None]:
        """What a model cannot do is kept as the reason why a rule is not decided."""
        self.progress(rule)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - models refuse in many ways
            self.troubles[rule] = f"the model does not run so ({_one_line(error)})"

    def _sides(self, batch: GivenBatch) -> tuple[int, int]:
        """How much padding is added to the left, where texts are generated, and to the right."""
        if batch.documents is not None or batch.starts_again or not batch.mask_name:
            return 0, 0
        if batch.is_whole:
            writes = hasattr(self.plain, "prepare_inputs_for_generation") and not self.unknown
            is_text = self.prefix is not None and not batch.key.startswith("decoder")
            return (3 if is_text and (writes or batch.positions) else 0), 5
        return (0, 5) if bool(batch.real[:, 0].all()) else (3, 0)

    # ── judged ───────────────────────────────────────────────────────────────────────────────

    def _evidence(self, rule: str) -> list[tuple[Mode, RunPair]]:
        every = [(mode, trial) for mode in self.modes for trial in mode.trials if trial.rule]
        if rule == "future" and self.unknown:  # batch norm would be taken for sight
            every = [(mode, trial) for mode, trial in every if not mode.runner.training]
        if rule == "training":
            is_own = {"future"} if self.unknown else set()
            return [(m, t) for m, t in every if m.name == "training" and t.rule not in is_own]
        if rule == "padding" and self._sees_ahead:
            every = [each for each in every
                     if not any(run.batch.ends_in_padding for run in each[1].runs)]  # fmt: skip
        return [(mode, trial) for mode, trial in every if trial.rule == rule]

    @property
    def _sees_ahead(self) -> bool:
        """Whether rows see later tokens and must not: padding behind them as well, then."""
        return not self.unknown and bool(self._hits("future"))

    def _hits(self, rule: str) -> list[tuple[Mode, RunPair]]:
        hits = []
        for mode, trial in self._evidence(rule):
            if trial not in self._leaks:
                self._leaks[trial] = bool(trial.by) and self._is_leak(mode, trial)
            hits += [(mode, trial)] if self._leaks[trial] else []
        return hits

    @staticmethod
    def _is_doubtful(mode: Mode, trial: RunPair) -> bool:
        """Rows move, though not by a leak."""
        is_exact = not trial.keeps_shape or mode.runner.exact  # else every bit counts
        return trial.by > (mode.noise(trial) if is_exact else 0.0)

    def _is_leak(self, mode: Mode, trial: RunPair) -> bool:
        """More than noise, and than what rows may move by that are grouped anew: those of experts,
        in a module that does not mix positions; dropout within these drops others then."""
        if trial.by <= mode.noise(trial):
            return False
        if not self.is_module:
            return trial.by > 8 * mode.eps
        is_sure = mode.runner.exact or trial.by > REGROUPED * mode.eps
        if not is_sure and self.exact.runner.exact and not mode.runner.training:
            known = self.exact.compare(trial)  # the same in float64
            return known.by > self.exact.noise(known)
        if is_sure and not mode.runner.training:
            return True
        place = first_moved(mode.runner, trial)
        if not place or any(f"{a}.".startswith(f"{b}.") for layer in self.layers
                            for a, b in ((layer.name, place), (place, layer.name))):  # fmt: skip
            return True
        if type(self.plain.get_submodule(place)).__module__.startswith("torch.nn"):
            return True  # which groups nothing anew
        drops = any(getattr(m, "p", 0) for m in self.plain.get_submodule(place).modules())
        return is_sure and not drops

    def _verdict(self, rule: str) -> Decision:
        if rule not in self.asked:
            return Decision("not asked: left out of rules=")
        if rule == "window":
            return self._window()
        evidence, missing, hits = self._evidence(rule), self._missing(rule), self._hits(rule)
        if rule == "future" and hits and self.unknown:
            return Decision(f"not decided: rows see later tokens; {self.unknown}")
        if missing and (missing.startswith("not asked") or rule == "cache" or not hits):
            return Decision(missing)
        if hits:
            return self._leaking(rule)
        mode = self.exact if rule != "training" else evidence[0][0]
        evidence = [(m, t) for m, t in evidence if m.runner.training == mode.runner.training]
        control = mode.control
        if rule == "batch" or self.batch.shape[1] == 1:
            control = max(trial.control for _, trial in evidence)
        seen = [mode.resolution(trial) for _, trial in evidence] if control else []
        smallest = max(seen) / control if control else 1.0
        moved = max(trial.by for _, trial in evidence)
        why = ""
        if not control:
            why = "no row moves when earlier tokens change"
        elif smallest > _MATTERS:
            why = f"in this precision a leak below {smallest:.0e} of what a token does is not seen"
            why = f"{why}; {self.why_no_double}".rstrip("; ")
        elif any(
            self._is_doubtful(own, trial) for own, trial in evidence
            if own.runner.exact == mode.runner.exact
        ):  # fmt: skip
            may = "dropout within experts" if mode.runner.training else "rounding"
            why = f"rows move by {moved:.0e}, as with {may}; {self.why_no_double}".rstrip("; ")
        elif rule != "batch" and self.mixers and (blind := self.mixers.blind()):
            why = f"{', '.join(blind[:3])} moves no row: are its weights zero?"
        by = "float64" if mode.runner.exact else ("noise" if moved else "bits")
        words = f"not decided: {why}" if why else "ok"
        return Decision(words).resting_on(by, control, smallest, moved)

    def _leaking(self, rule: str) -> Decision:
        return Decision(f"allowed: {self.allow[rule]}" if rule in self.allow else "found")

    def _missing(self, rule: str) -> str:
        """Why there is nothing to judge."""
        own = self.modes[0]
        if not own.is_by_row and rule in ("future", "documents", "cache"):
            is_told = rule == "future" and self.declared_by == "causal="
            return f"not {'decided' if is_told else 'asked'}: the model returns no row a position"
        if not own.is_by_row and not own.is_pooled and rule == "padding":
            return "not asked: the model returns rows of its own"
        if rule in self.troubles:
            return f"not decided: {self.troubles[rule]}"
        if rule == "cache" and (why := self._no_cache()):
            return f"not asked: {why}"
        if rule == "cache" and self._hits("future"):
            return "not decided: rows see later tokens, which parts on a cache do not hold"
        if self._evidence(rule):
            return ""
        if rule == "padding" and self.batch.documents is not None:
            return "not asked: the batch is a pack"
        if rule == "padding" and self.batch.starts_again:
            return "not asked: its positions start again"
        if rule == "padding" and self.batch.mask_name and self._sees_ahead:
            return "not decided: rows see later tokens, and so padding behind them"
        if rule == "future":
            return f"not asked: later tokens may be seen ({self.declared_by})"
        return f"not asked: {_NOT_GIVEN[rule]}"

    def _no_cache(self) -> str:
        """Why there is nothing to be read in parts."""
        if not cache_of(self.plain) or self.batch.shape[1] == 1:
            return _NOT_GIVEN["cache"]
        if self.prefix is None:
            return f"later tokens may be seen ({self.declared_by})"
        if self.unknown and self._hits("future"):
            return self.unknown
        if self.batch.documents is not None:
            return "the batch is a pack"
        return "its positions start again" if self.batch.starts_again else ""

    # ── windows ──────────────────────────────────────────────────────────────────────────────

    def _windows(self, wrong: bool) -> list[tuple[MixingLayer, int]]:
        """(layer, declared) of layers with a window, those that see another, or all; of those that
        see to both sides only where it was asked for, since models count that in different ways."""
        known = [(each, window_of(self.plain, each.name, self.window)[0]) for each in self.layers]
        return [
            (layer, size) for layer, size in known
            if size and layer.columns and not (layer.fades and self._may_fade(layer))
            if self.window is not None or not layer.is_two_sided
            if not wrong or layer.reach > size or layer.reach < min(size, layer.room)
        ]  # fmt: skip

    def _may_fade(self, layer: MixingLayer) -> bool:
        """One window for all layers may not be meant for those whose state decays."""
        return isinstance(self.window, int) and "Attention" not in layer.kind.__name__

    def _window(self) -> Decision:
        windows = self._windows(wrong=False)
        if "window" in self.troubles:
            is_told = self.window is not None or self.is_told
            why = self.troubles["window"]
            return Decision(f"not {'decided' if is_told else 'asked'}: {why}")
        if not windows and self.window is None:
            return Decision(f"not asked: {_NOT_GIVEN['window']}")
        if not windows:
            return Decision("not decided: no layer was found whose rows see others")
        if self._windows(wrong=True):
            return self._leaking("window")
        for layer, size in windows:
            if layer.room <= size:
                why = f"{layer.name} has a window of {size}, and the batch {layer.room} positions"
                is_told = self.window is not None or self.is_told
                return Decision(
                    f"not {'decided' if is_told else 'asked'}: {why}; give a longer one"
                )
        mode, strength = self.exact, min(layer.strength for layer, _ in windows)
        by = "float64" if mode.runner.exact else "noise"
        return Decision("ok").resting_on(by, strength, mode.eps / strength if strength else 1.0)

    def _wrong_windows(self) -> Iterator[Finding]:
        for layer, size in self._windows(wrong=True):
            row, key = max(layer.cells(), key=lambda cell: abs(cell[0] - cell[1]))
            wide = "more" if layer.reach > size else "less"
            text = (
                f"window: {self._named(layer.name)} sees {layer.reach} positions, {wide} than the "
                f"{size} declared: row {row} moves with position {key}"
            )
            lines = layer_reproduction(self.exact, self.given, layer, key, row)
            own, is_wide = self.modes[0].runner, layer.reach > size
            hidden = ask("hidden_by_window", own, self.given, layer.name, size) if is_wide else {}
            yield Finding(
                "window", layer.name, (row,), f"position {key}", layer.strength, text, lines, hidden
            )

    # ── in words ─────────────────────────────────────────────────────────────────────────────

    def _found(self, rule: str) -> Iterator[Finding]:
        """One finding a rule and way of comparing: rather not in training mode; in float64; of
        other tokens than of scaled embeddings, which is shorter to show; of what moves most."""
        if rule == "window":
            yield from self._wrong_windows()
        hits = [(m, t) for m, t in self._hits(rule) if t.rule == rule]  # none of its own: training
        for keeps_shape in (True, False):
            some = [(m, t) for m, t in hits if t.keeps_shape == keeps_shape]
            if some:
                some.sort(key=lambda hit: (
                    hit[0].runner.training, not hit[0].runner.exact,
                    hit[1].runs[1].factors is not None, -hit[1].by,
                ))  # fmt: skip
                # what copies in one run do to one another has no place in a run by itself
                tried = (self._finding(*hit) for hit in some[:3])
                best = next(tried)
                yield best if best.module else next((f for f in tried if f.module), best)

    def _finding(self, mode: Mode, trial: RunPair) -> Finding:
        self.progress(f"where {trial.rule} is broken")
        trial = mode.alone(trial)
        module = first_moved(mode.runner, trial) if self.is_module else ""
        s = trial.sequence
        rows = tuple(row for sequence, row in trial.rows if sequence == s)
        source = trial.source
        by = f" ({self.batch.declared_by})" if trial.rule == "documents" else ""
        where = {"own": "", "training": " in training mode", "double": " in float64"}[mode.name]
        is_twice = self.batch is not self.given
        own = f"sequence {s % len(self.given.real)}" + (", given twice" if is_twice else "")
        own = own.removesuffix("" if trial.rule == "batch" else ", given twice")
        many = f"row{'s' * (len(rows) > 1)} {_listed(rows)} of {own}" if mode.is_by_row else own
        moves = "move" if " and " in source or source.startswith("the other") else "moves"
        text = (
            f"{trial.rule}: {source}{by} {moves} {many}{where}, by {trial.by:.1e} of the largest "
        )
        text += "entry of the output" if trial.keeps_shape else "entry"
        text += f"; {self._named(module)} moves them first" if module else ""
        if "BatchNorm" in text.rpartition("(")[2]:
            text += ", which depends on the batch by its definition"
        if self.batch is not self.given and trial.rule != "batch" and not trial.runs[1].sizes:
            trial = trial.of_one(s)  # the batch was repeated
        lines = self._shown(mode, trial)
        runner = (mode if mode.runner.training else self.modes[0]).runner
        hidden = ask("hidden_mass", runner, trial, module) if self.is_module else {}
        return Finding(trial.rule, module, rows, source, trial.by, text, lines, hidden)

    def _shown(self, mode: Mode, trial: RunPair) -> str:
        """Lines that were run and print what was found: in the model's own precision where they do,
        then in double precision, and where it rounds there, with what keeps doubles double."""
        every = []
        if mode.runner.exact and not mode.runner.switched:
            own = replace(mode.runner, model=self.plain, exact=False)
            every.append(reproduction(own, mode.is_by_row, trial))
        every.append(reproduction(mode.runner, mode.is_by_row, trial))
        if mode.runner.exact:
            every.append(reproduction(mode.runner, mode.is_by_row, trial, keeps_double=True))
        for lines in every[:-1]:
            printed: list[float] = []
            known = {"model": self.model, "batch": self.asked_of, "print": printed.append}
            try:
                exec(lines, known)
            except Exception:  # noqa: BLE001 - models refuse doubles in many ways
                continue
            # of a cache the lines end with the first part that is wrong
            least = 1e-4 if trial.runs[1].sizes else 0.8 * trial.by
            if min(least, 0.8 * trial.by) <= printed[0] <= 1.25 * trial.by:
                return lines
        return every[-1]

    def _named(self, path: str) -> str:
        return f"{path} ({type(self.plain.get_submodule(path)).__name__})"


def _listed(rows: tuple[int, ...]) -> str:
    """0 to 11; 3, 5 and 6 others."""
    if rows == tuple(range(rows[0], rows[-1] + 1)):
        return f"{rows[0]} to {rows[-1]}" if len(rows) > 1 else str(rows[0])
    some = ", ".join(map(str, rows[:6]))
    return some if len(rows) <= 6 else f"{some} and {len(rows) - 6} others"


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def of_all_ranks(made: Callable[[], Report], group: Any = None) -> Report:
    """One verdict for all ranks, the worst of any; what fails on one is an error on all."""
    is_many = distributed.is_available() and distributed.is_initialized()
    if not is_many or group is False:  # False: this process alone
        return made()
    report, failure = None, None
    try:
        report = made()
    except Exception as error:  # noqa: BLE001 - raised below, when the other ranks know
        failure = error
    words = _one_line(failure) if failure else ""
    every: list[Any] = [None] * distributed.get_world_size(group)
    mine = report and (report.findings, report.checked), words
    distributed.all_gather_object(every, mine, group)
    if failure:
        raise failure
    failed = [f"rank {rank}: {words}" for rank, (_, words) in enumerate(every) if words]
    if report is None or failed:
        raise UnavailableError(f"the model was not checked on every rank: {'; '.join(failed)}")
    findings = [replace(each, text=f"rank {rank}: {each.text}")
                for rank, ((some, _), _) in enumerate(every) for each in some]  # fmt: skip
    findings.sort(key=lambda finding: -finding.change)
    checked = {rule: max((own[rule] for (_, own), _ in every), key=lambda own: own.severity)
               for rule in report.checked}  # fmt: skip
    return replace(report, findings=findings, checked=checked)
