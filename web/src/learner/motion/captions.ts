import { say } from "../language";
import { sumOf } from "../parts/spelling";
import { equalsSign, productsText, result, vectorText } from "./figures";
import { differs, type FilmKey, type FilmNumbers, isHidden } from "./numbers";
import type { Moment } from "./timeline";

const MOST_TERMS = 5;

/** The sentence of a moment: what happens in it, with the lesson's numbers. */
export function captionOf(numbers: FilmNumbers, { kind, index }: Moment): string {
  const query = numbers.label;
  const count = (numbers.rest?.seen ?? 0) + (numbers.rest?.hidden ?? 0);
  switch (kind) {
    case "meet.start":
      return say("motion.meet_start", { query });
    case "meet.key":
      return meets(numbers, numbers.keys[index] as FilmKey);
    case "meet.rest":
      return say("motion.meet_rest", { count });
    case "meet.done":
      return say("motion.meet_done", { query });
    case "scale.start":
      return say("motion.scale_start", { query });
    case "scale.divide":
      return divided(numbers);
    case "scale.mask":
      return masked(numbers);
    case "squeeze.start":
      return say("motion.squeeze_start", { query });
    case "squeeze.powers":
      return numbers.shift
        ? say("motion.squeeze_shifted", { shift: result(numbers.shift) })
        : say("motion.squeeze_powers");
    case "squeeze.sum":
      return say("motion.squeeze_sum", { total: result(numbers.total) });
    case "squeeze.share":
      return shared(numbers);
    case "flow.start":
      return say("motion.flow_start", { query });
    case "flow.term":
      return flows(numbers, index);
    case "flow.done":
      return summed(numbers);
    case "heads.start":
      return say("motion.heads_start", { count: numbers.heads.length, query });
    case "heads.join":
      return numbers.heads.length === 1
        ? say("motion.heads_alone")
        : say("motion.heads_join", { number: index + 1 });
    case "heads.mix":
      return mixed(numbers);
  }
}

function meets({ label, query }: FilmNumbers, to: FilmKey): string {
  const computed = sumOf(to.products);
  const spelt = {
    query: label,
    key: to.label,
    products: productsText(query, to.key, MOST_TERMS),
    score: result(to.score),
  };
  if (differs(to.score, computed))
    return say("motion.meet_by_hand", { ...spelt, computed: result(computed) });
  return say("motion.meet_key", { ...spelt, equals: equalsSign([query, to.key], [to.score]) });
}

function divided({ isScaled, query }: FilmNumbers): string {
  if (!isScaled) return say("motion.scale_off");
  const divisor = Math.sqrt(query.length);
  const equals = equalsSign([], [divisor]);
  return say("motion.scale_divide", { width: query.length, equals, divisor: result(divisor) });
}

function masked({ isCausal, keys, label }: FilmNumbers): string {
  if (!keys.some(isHidden)) return say("motion.scale_nothing_hidden", { query: label });
  return isCausal ? say("motion.scale_mask", { query: label }) : say("motion.scale_mask_by_hand");
}

function shared({ total, weightSum }: FilmNumbers): string {
  if (total === 0) return say("motion.squeeze_nothing");
  if (differs(weightSum, 1)) return say("motion.squeeze_by_hand", { sum: result(weightSum) });
  return say("motion.squeeze_share", { total: result(total) });
}

function flows({ keys, rest }: FilmNumbers, index: number): string {
  const key = keys[index];
  if (key) {
    if (key.weight === 0) return say("motion.flow_none", { key: key.label });
    const [weight, term] = [result(key.weight), vectorText(key.term, MOST_TERMS)];
    return say("motion.flow_term", { key: key.label, weight, term });
  }
  const count = (rest?.seen ?? 0) + (rest?.hidden ?? 0);
  const weight = result(rest?.weight ?? 0);
  return say("motion.flow_rest", { count, weight, term: vectorText(rest?.term ?? [], MOST_TERMS) });
}

function summed({ label, context, summed: computed }: FilmNumbers): string {
  const output = vectorText(context);
  if (context.some((value, d) => differs(value, computed[d] ?? 0)))
    return say("motion.flow_by_hand", { query: label, output, computed: vectorText(computed) });
  return say("motion.flow_done", { query: label, output });
}

function mixed({ w_o, label, output }: FilmNumbers): string {
  if (!w_o) return say("motion.heads_unmixed", { query: label });
  return say("motion.heads_mix", { output: vectorText(output, MOST_TERMS) });
}
