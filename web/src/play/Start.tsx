import type { About } from "./api";
import { submit } from "./place";

const TEXTS: readonly (readonly Readonly<Record<string, string>>[])[] = [
  [
    { p: "The capital of France is" },
    { p: "The animal didn't cross the street because it was too" },
    { p: "When Mary and John went to the store, John gave a drink to" },
    {
      p: "Mr and Mrs Dursley of number four, Privet Drive, were proud. Mr and Mrs Durs",
    },
  ],
  [
    { p: "A man is playing a guitar.", q: "Someone makes music." },
    { p: "The bank raised its rates.", q: "They sat on the bank of the river." },
  ],
];

/** Before anything was typed. */
export function Start({ about }: { about: About }) {
  if (about.kind === "sound") {
    return (
      <div class="play-start" data-part="start">
        <h1>Choose a recording of speech</h1>
        <p class="soft">
          The model writes down what is said; point at a word to see the moment it listens to.
        </p>
      </div>
    );
  }
  const examples = TEXTS[about.kind === "pair" ? 1 : 0] ?? [];
  return (
    <div class="play-start" data-part="start">
      <h1>{about.kind === "pair" ? "Type two sentences" : "Type the beginning of a sentence"}</h1>
      <p class="soft">
        You will see the words, what each of them attends to
        {about.kind === "text" ? ", and what the model expects next" : ""}. Then switch heads off
        and watch what changes.
      </p>
      <ul>
        {examples.map((words) => (
          <li key={words.p}>
            <button type="button" data-part="example" onClick={() => submit(words)}>
              {[words.p, words.q].filter(Boolean).join(" · ")}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
