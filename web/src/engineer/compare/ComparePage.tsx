import { useEffect } from "preact/hooks";
import { count } from "../../maths/format";
import { place } from "../../shell/address";
import type { Listing, Overview, Progress } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { arrived, useAnswer, useAsked } from "../answer";
import { type Choice, choicesOf } from "../PromptPicker";
import { otherOf } from "../places";
import { Empty } from "../states/Empty";
import { markReady } from "../states/ready";
import { Standing } from "../states/Standing";
import { Failed, Waiting } from "../states/Waiting";
import { Nothing } from "./Nothing";
import { OtherPicker } from "./OtherPicker";
import { Result } from "./Result";
import { useProgress } from "./useProgress";
import "./compare.css";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
}

/** Two prompts head by head: of two texts, two checkpoints, two number formats. */
export function ComparePage(props: Props) {
  if (!props.overview.heads.length) return <Empty overview={props.overview} />;
  return (
    <main class="page comp" data-part="compare">
      <h1>Compare</h1>
      <Standing overview={props.overview} />
      <Choosing {...props} />
    </main>
  );
}

function Choosing({ source, where, overview }: Props) {
  const listings = useAnswer(() => source.recordings(), [source], true);
  if (listings.state === "failed") return <Failed error={listings.error} />;
  if (listings.state === "waiting") return <Waiting words="Looking what else is served" />;
  const others = othersOf(listings.value, overview, where);
  const other = chosenOf(others);
  if (!others.length) return <Nothing {...{ source, where, overview }} />;
  return (
    <>
      <OtherPicker where={where} overview={overview} others={others} chosen={other} />
      {other ? <Compared {...{ source, where, overview, other }} /> : <Unchosen />}
    </>
  );
}

function Unchosen() {
  useEffect(() => markReady("compare"), []);
  return (
    <p class="soft" data-part="unchosen">
      Choose what to compare with: every head is then told by how far it is from the head of the
      same name.
    </p>
  );
}

function othersOf(
  listings: readonly Listing[],
  overview: Overview,
  where: Where,
): readonly Choice[] {
  const withPrompts = listings.filter((one) => one.prompts > 0);
  return choicesOf(withPrompts, overview).filter(
    (one) => one.recording !== where.recording || one.prompt !== where.prompt,
  );
}

/** The one that the address names, or the only one there is. */
function chosenOf(others: readonly Choice[]): Where | null {
  const named = otherOf(place.value);
  const found = others.find(
    (one) => one.recording === named?.recording && one.prompt === named.prompt,
  );
  return found ?? (others.length === 1 ? (others[0] ?? null) : null);
}

function Compared({ source, where, overview, other }: Props & { readonly other: Where }) {
  const asked = { ...where, other: other.recording, other_prompt: other.prompt };
  const answer = useAsked(source, "compare", asked, { due: overview.live });
  const found = arrived(answer);
  const progress = useProgress(source, asked, answer.state === "waiting");
  if (answer.state === "failed") return <Failed error={answer.error} />;
  if (!found) return <Underway {...progress} />;
  return <Result {...{ source, where, overview, other, found }} />;
}

function Underway({ done = 0, total = 0 }: Partial<Progress>) {
  return (
    <>
      <Waiting
        words={
          total
            ? `${count(done)} of ${count(total)} heads compared`
            : "Matching tokens and comparing every head; of long texts this takes a while"
        }
      />
      {total > 0 && <progress data-part="progress" value={done} max={total} />}
    </>
  );
}
