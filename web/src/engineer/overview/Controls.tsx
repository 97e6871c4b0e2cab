import { useKeys } from "../../shell/keys";
import type { Overview } from "../../source/answers";
import { Term } from "../Glossary";
import { type Choice, chooseOrder, chooseShow, chooseStatistic, type Show } from "./choice";
import { titleOf } from "./statistics";

interface Props {
  readonly overview: Overview;
  readonly choice: Choice;
  readonly show: Show;
}

const SHOWS: readonly [Show, string, string, string][] = [
  ["pictures", "Pictures", "p", "a small map of every head"],
  ["numbers", "Numbers", "n", "one statistic of every head"],
  ["ranked", "Ranked", "r", "heads in order of a statistic"],
];

/** What the grid shows: pictures or a statistic, by layer or by rank. */
export function Controls({ overview, choice, show }: Props) {
  const names = Object.keys(overview.statistics);
  const next = () => {
    const at = (names.indexOf(choice.statistic) + 1) % names.length;
    chooseStatistic(names[at] ?? choice.statistic);
  };
  useKeys("Overview", [
    ...SHOWS.map(([name, , key, does]) => ({ key, does, run: () => chooseShow(name) })),
    { key: "s", does: "next statistic", run: next },
    { key: "o", does: "highest or lowest first", run: () => turn(choice) },
  ]);
  return (
    <div class="over-controls" data-part="controls">
      <fieldset class="over-shows">
        <legend class="unseen">What the grid shows</legend>
        {SHOWS.map(([name, text, key, does]) => (
          <button
            key={name}
            type="button"
            title={`${does} (${key})`}
            aria-pressed={show === name}
            data-part={`show-${name}`}
            onClick={() => chooseShow(name)}
          >
            {text}
          </button>
        ))}
      </fieldset>
      <label class="over-statistic">
        <span class="soft">
          <Term name={titleOf(overview, choice.statistic)}>Statistic</Term>
        </span>
        <select
          data-part="statistic"
          value={choice.statistic}
          onChange={(event) => chooseStatistic(event.currentTarget.value)}
        >
          {names.map((name) => (
            <option key={name} value={name}>
              {titleOf(overview, name)}
            </option>
          ))}
        </select>
      </label>
      {show === "ranked" && (
        <button type="button" data-part="order" onClick={() => turn(choice)}>
          {choice.order === "high" ? "Highest first" : "Lowest first"}
        </button>
      )}
    </div>
  );
}

function turn(choice: Choice): void {
  chooseOrder(choice.order === "high" ? "low" : "high");
}
