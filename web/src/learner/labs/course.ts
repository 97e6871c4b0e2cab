import { rowNorms } from "../../maths/gradient";
import type { Projections } from "../../maths/lesson";
import { type Matrix, multiply } from "../../maths/matrix";
import { Random } from "../../maths/random";
import { DEAD, quantile } from "../../maths/scaling";
import { fetchTargets, type Pass, run, step, type Task } from "../../maths/training";
import { say } from "../language";
import type { LessonState } from "../state";

// Two heads that start from the same numbers and learn with the same rate: one divides its scores
// by √d_k, the other does not.

export interface Problem {
  readonly x: Matrix;
  readonly head: Projections;
  /** null for drawn tokens, which are no words. */
  readonly labels: readonly string[] | null;
  readonly causal: boolean;
}

/** One of the two, so far. */
export interface Course {
  readonly task: Task;
  readonly head: Projections;
  readonly first: Pass;
  readonly last: Pass;
  readonly losses: readonly number[];
}

export interface Race {
  readonly problem: Problem;
  readonly raw: Course;
  readonly scaled: Course;
}

const TOKENS = 16;
const WIDTH = 16;
const D_V = 8;

/** The lesson's own tokens and projections, edits included. */
export function lessonProblem(state: LessonState): Problem {
  const { w_q, w_k, w_v } = state.worksOn.value;
  return {
    x: state.worked.value.x,
    head: { w_q, w_k, w_v },
    labels: state.lesson.labels,
    causal: state.given.value.causal,
  };
}

/** Made-up tokens of 16 numbers, and projections that give q and k unit variance. */
export function drawnProblem(d_k: number, seed: number): Problem {
  const random = new Random(seed, d_k);
  const spread = 1 / Math.sqrt(WIDTH);
  return {
    x: random.matrix(TOKENS, WIDTH),
    head: {
      w_q: random.matrix(WIDTH, d_k, spread),
      w_k: random.matrix(WIDTH, d_k, spread),
      w_v: random.matrix(WIDTH, D_V, spread),
    },
    labels: null,
    causal: false,
  };
}

/** What the tokens of a problem are called, in the language that is shown. */
export function labelsOf(problem: Problem): readonly string[] {
  return problem.labels ?? problem.x.map((_, n) => say("count.token", { number: n + 1 }));
}

export function begin(problem: Problem): Race {
  return { problem, raw: started(problem, false), scaled: started(problem, true) };
}

function started({ x, head, causal }: Problem, scaled: boolean): Course {
  const targets = fetchTargets(multiply(x, head.w_v), causal);
  const task = { x, targets, scaled, causal };
  const first = run(head, task);
  return { task, head, first, last: first, losses: [first.loss] };
}

/** Both some steps further. */
export function advanced(race: Race, steps: number, rate: number, withValues: boolean): Race {
  const onward = (course: Course) => {
    let now = course;
    for (let n = 0; n < steps; n += 1) now = oneStep(now, rate, withValues);
    return now;
  };
  return { ...race, raw: onward(race.raw), scaled: onward(race.scaled) };
}

function oneStep(course: Course, rate: number, withValues: boolean): Course {
  const head = step(course.head, course.last, rate, withValues);
  const last = run(head, course.task);
  return { ...course, head, last, losses: [...course.losses, last.loss] };
}

/** The gradient at q, row by row: never one norm of all. */
export function rowsAlive(pass: Pass) {
  const lengths = rowNorms(pass.atQueries);
  return {
    median: quantile(lengths, 0.5),
    largest: Math.max(...lengths),
    dead: lengths.filter((length) => length < DEAD).length,
    rows: lengths.length,
  };
}
