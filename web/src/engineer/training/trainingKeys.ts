import { useKeys } from "../../shell/keys";
import type { TrainingFacts } from "../../source/answers";
import {
  type Choice,
  choose,
  chooseStatistic,
  firstChoice,
  moved,
  nextAlarm,
  type Row,
} from "./choice";
import type { AllStrips } from "./run";

const FAR = Number.MAX_SAFE_INTEGER;

/** The link over the chosen cell, for Enter; it may not be drawn before the next frame. */
function focusCell(): void {
  requestAnimationFrame(() => {
    document.querySelector<HTMLElement>(".train-cell")?.focus({ preventScroll: true });
  });
}

/** Arrows move, s goes to the next statistic, a to the next alarm. */
export function useTrainingKeys(
  facts: TrainingFacts,
  rows: readonly Row[],
  strips: AllStrips,
  choice: Choice,
): void {
  const show = (next: Choice) => {
    const label = next.row === undefined ? undefined : rows[next.row]?.label;
    if (label) choose(next.statistic, label, next.step);
    focusCell();
  };
  const move = (by: { readonly rows?: number; readonly bins?: number }) => () => {
    const own = strips.get(choice.statistic);
    if (choice.row === undefined) show(firstChoice(facts, rows, choice));
    else if (own) show(moved(choice, by, rows.length, own));
  };
  const names = Object.keys(facts.statistics);
  const next = () => {
    const at = (names.indexOf(choice.statistic) + 1) % names.length;
    chooseStatistic(names[at] ?? choice.statistic);
  };
  const alarm = () => {
    const found = nextAlarm(facts, rows, choice);
    if (found) choose(found.statistic, found.head, found.step);
    focusCell();
  };
  useKeys("Training", [
    { key: "ArrowLeft", does: "step before", run: move({ bins: -1 }) },
    { key: "ArrowRight", does: "step after", run: move({ bins: 1 }) },
    { key: "ArrowUp", does: "head above", run: move({ rows: -1 }) },
    { key: "ArrowDown", does: "head below; Enter: its stored map", run: move({ rows: 1 }) },
    { key: "Home", does: "first step", run: move({ bins: -FAR }) },
    { key: "End", does: "newest step", run: move({ bins: FAR }) },
    { key: "s", does: "next statistic", run: next },
    { key: "a", does: "next alarm", run: alarm },
  ]);
}
