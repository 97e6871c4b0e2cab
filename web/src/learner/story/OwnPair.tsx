import { Choice } from "../labs/Lab";
import { say } from "../language";
import { MOST_WORDS, problemOf } from "../make";
import { putPair } from "./pairPlace";
import type { Pair } from "./pairs";

interface Props {
  readonly pair: Pair;
  readonly common: readonly string[];
  readonly word: string | undefined;
}

/** Two sentences to be typed, and the word of both that is compared. */
export function OwnPair({ pair, common, word }: Props) {
  const [first, second] = pair.sentences;
  return (
    <div class="story-own">
      <SentenceField
        part="own-first"
        words={say("why.first_sentence")}
        text={first}
        put={(text) => putPair({ ...pair, sentences: [text, second] })}
      />
      <SentenceField
        part="own-second"
        words={say("why.second_sentence")}
        text={second}
        put={(text) => putPair({ ...pair, sentences: [first, text] })}
      />
      {common.length > 1 && (
        <Choice
          part="common-word"
          words={say("why.common_word")}
          options={common.map((text) => ({ value: text, text }))}
          chosen={word}
          choose={(value) => putPair({ ...pair, word: value })}
        />
      )}
    </div>
  );
}

interface FieldProps {
  readonly part: string;
  readonly words: string;
  readonly text: string;
  readonly put: (text: string) => void;
}

/** What is wrong with a sentence stands below it. */
function SentenceField({ part, words, text, put }: FieldProps) {
  const problem = problemOf(text);
  const id = `${part}-problem`;
  return (
    <label>
      <span class="soft">{words}</span>
      <input
        type="text"
        data-part={part}
        maxLength={200}
        value={text}
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : id}
        onInput={(event) => put(event.currentTarget.value)}
      />
      {problem !== null && (
        <span class="learn-problem" role="status" id={id} data-part={id}>
          {problem === "empty"
            ? say("sentence.empty")
            : say("sentence.too_long", { count: problem, most: MOST_WORDS })}
        </span>
      )}
    </label>
  );
}
