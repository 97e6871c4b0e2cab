import type { Edits } from "../../maths/lesson";
import type { Matrix } from "../../maths/matrix";
import type { LessonState } from "../state";

/** A program that needs numpy alone and computes every number of the lesson, changes included. */
export function pythonCode(state: LessonState): string {
  const { lesson, given, edits, worked } = state;
  const now = given.value;
  const sections = [
    opening(lesson.tokens),
    `tokens = [${lesson.tokens.map(literal).join(", ")}]`,
    changes(edits.value),
    KEEP,
    `words = keep("words", ${matrix(now.words)})`,
    `positions = keep("positions", ${matrix(now.positions)})`,
    `x = keep("x", words${now.withPositions ? " + positions" : ""})`,
    `projections = [\n${now.heads.map(projections).join("\n")}\n]`,
    heads(now.scaled, now.causal),
    output(now.w_o),
    ...(worked.value.block ? [block(now.w_1, now.w_2)] : []),
    CLOSING,
  ];
  return `${sections.join("\n\n")}\n`;
}

function opening(tokens: readonly string[]): string {
  const sentence = tokens.join(" ").replaceAll("\\", "\\\\").replaceAll('"', "'");
  return `"""${sentence}: self-attention, every number. Written by regard's lesson; needs numpy.

python THIS_FILE.py           prints every step
python THIS_FILE.py --json    the same as JSON, null where a score is hidden
"""

import json
import sys

import numpy as np`;
}

function changes(edits: Edits): string {
  const lines = [...edits].map(([name, cells]) => {
    const pairs = [...cells].map(([cell, value]) => `(${cell.replace(",", ", ")}): ${num(value)}`);
    return `    ${literal(name)}: {${pairs.join(", ")}},`;
  });
  const words = "# Numbers put in by hand: step → (row, column) → number.";
  return `${words}\nchanged = {${lines.length ? `\n${lines.join("\n")}\n` : ""}}`;
}

const KEEP = `steps = {}


def keep(name, matrix):
    """Remember a step, with the numbers that were put in by hand; what follows builds on it."""
    matrix = np.array(matrix, dtype=float)
    for cell, number in changed.get(name, {}).items():
        matrix[cell] = number
    steps[name] = matrix
    return matrix


def softmax(scores):
    """Over the keys; a row that sees no key has no weights, only zeros."""
    peak = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(peak), peak, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


def layer_norm(rows):
    """Each row with mean 0 and deviation 1."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
`;

function projections(head: { readonly w_q: Matrix; readonly w_k: Matrix; readonly w_v: Matrix }) {
  const named = (["w_q", "w_k", "w_v"] as const).map(
    (name) => `        "${name}": ${matrix(head[name], "        ")},`,
  );
  return `    {\n${named.join("\n")}\n    },`;
}

function heads(scaled: boolean, causal: boolean): string {
  const divided = scaled ? "scores / np.sqrt(w_k.shape[1])" : "scores";
  const hidden = causal
    ? "np.where(np.tril(np.ones(scaled.shape, bool)), scaled, -np.inf)"
    : "scaled";
  return `contexts = []
for h, head in enumerate(projections):
    w_q, w_k, w_v = (keep(f"h{h}.{name}", head[name]) for name in ("w_q", "w_k", "w_v"))
    queries = keep(f"h{h}.queries", x @ w_q)
    keys = keep(f"h{h}.keys", x @ w_k)
    values = keep(f"h{h}.values", x @ w_v)
    scores = keep(f"h{h}.scores", queries @ keys.T)
    scaled = keep(f"h{h}.scaled", ${divided})
    masked = keep(f"h{h}.masked", ${hidden})
    weights = keep(f"h{h}.weights", softmax(masked))
    contexts.append(keep(f"h{h}.context", weights @ values))`;
}

function output(w_o: Matrix | null): string {
  const concat = `concat = keep("concat", np.concatenate(contexts, axis=1))`;
  if (!w_o) return `${concat}\noutput = keep("output", concat)`;
  return `${concat}\nw_o = keep("w_o", ${matrix(w_o)})\noutput = keep("output", concat @ w_o)`;
}

function block(w_1: Matrix, w_2: Matrix): string {
  return `# The next layer: residual, norm, MLP, and both again.
w_1 = keep("w_1", ${matrix(w_1)})
w_2 = keep("w_2", ${matrix(w_2)})
residual = keep("residual", x + output)
normed = keep("normed", layer_norm(residual))
hidden = keep("hidden", normed @ w_1)
activated = keep("activated", np.maximum(hidden, 0.0))
mlp = keep("mlp", activated @ w_2)
residual_2 = keep("residual_2", normed + mlp)
block_output = keep("block_output", layer_norm(residual_2))`;
}

const CLOSING = `if "--json" in sys.argv:
    listed = {name: matrix.tolist() for name, matrix in steps.items()}
    for rows in listed.values():
        rows[:] = [[None if cell == -np.inf else cell for cell in row] for row in rows]
    print(json.dumps(listed))
else:
    np.set_printoptions(precision=4, suppress=True)
    print(" ".join(tokens))
    for name, matrix in steps.items():
        print(f"\\n{name}\\n{matrix}")`;

/** A matrix, one row a line. */
function matrix(rows: Matrix, indent = ""): string {
  const lines = rows.map((row) => `${indent}    [${row.map(num).join(", ")}],`);
  return `[\n${lines.join("\n")}\n${indent}]`;
}

/** Digits enough to read the very same number back. */
function num(value: number): string {
  if (value === Number.NEGATIVE_INFINITY) return "-np.inf";
  if (value === Number.POSITIVE_INFINITY) return "np.inf";
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : String(value);
}

/** Text in quotes: JSON's spelling is Python's too. */
function literal(text: string): string {
  return JSON.stringify(text);
}
