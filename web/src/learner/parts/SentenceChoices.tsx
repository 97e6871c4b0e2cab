import type { ComponentChildren } from "preact";
import { EXAMPLES, NOTES } from "../examples";
import { type Sentence, say } from "../language";
import { type Asked, HEADS, VECTORS } from "../make";
import type { LessonState } from "../state";

/** The notes' example has the notes' numbers; the others say nothing with made-up vectors. */
function exampleOf(sentence: string, now: Asked): Partial<Asked> {
  if (sentence === NOTES) return { sentence, vectors: "notes", heads: "one" };
  return now.vectors === "notes"
    ? { sentence, vectors: "features", heads: "by-hand" }
    : { sentence };
}

const named = (choice: string) => `sentence.${choice.replace("-", "_")}` as Sentence;
const about = (choice: string) => `sentence.about_${choice.replace("-", "_")}` as Sentence;

/** Examples, whose vectors the words get, and which heads; with what the choice means. */
export function SentenceChoices({ state }: { state: LessonState }) {
  const asked = state.asked.value;
  const isAsGiven = state.isAsGiven.value;
  const heads = HEADS.filter((one) => one !== "by-hand" || asked.vectors === "features");
  return (
    <div class="learn-choices" data-part="sentence-choices">
      <Select
        part="example-choice"
        label={say("sentence.examples")}
        value=""
        choose={(sentence) => state.change(exampleOf(sentence, asked))}
      >
        <option value="">{say("sentence.choose_example")}</option>
        {EXAMPLES.map((sentence) => (
          <option key={sentence} value={sentence} lang="en">
            {sentence}
          </option>
        ))}
      </Select>
      <Select
        part="vectors-choice"
        label={say("sentence.vectors")}
        value={isAsGiven ? "" : asked.vectors}
        choose={(vectors) => state.change({ vectors: vectors as Asked["vectors"] })}
      >
        {isAsGiven && <AsGiven />}
        {VECTORS.map((one) => (
          <option key={one} value={one}>
            {say(named(one))}
          </option>
        ))}
      </Select>
      <Select
        part="heads-choice-of-page"
        label={say("sentence.heads")}
        value={isAsGiven ? "" : asked.heads}
        choose={(chosen) => state.change({ heads: chosen as Asked["heads"] })}
      >
        {isAsGiven && <AsGiven />}
        {heads.map((one) => (
          <option key={one} value={one}>
            {say(named(one))}
          </option>
        ))}
      </Select>
      <p class="soft" data-part="choice-words" aria-live="polite">
        {isAsGiven ? say("sentence.about_given") : meaning(state)}
      </p>
    </div>
  );
}

function meaning(state: LessonState): string {
  const { vectors, heads } = state.asked.value;
  const { wide, percent } = state.lesson.vocabularies.smollm2;
  return `${say(about(vectors), { wide, percent })} ${say(about(heads))}`;
}

function AsGiven() {
  return (
    <option value="" disabled>
      {say("sentence.as_given")}
    </option>
  );
}

interface SelectProps {
  readonly part: string;
  readonly label: string;
  readonly value: string;
  readonly choose: (value: string) => void;
  readonly children: ComponentChildren;
}

function Select({ part, label, value, choose, children }: SelectProps) {
  return (
    <label class="learn-choice">
      <span class="soft">{label}</span>
      <select
        data-part={part}
        value={value}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          event.currentTarget.value = value; // shown again by what follows from it
          if (chosen) choose(chosen);
        }}
      >
        {children}
      </select>
    </label>
  );
}
