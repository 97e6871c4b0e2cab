import { workOf } from "../../maths/cache";
import { count, short } from "../../maths/format";
import { say } from "../language";
import type { LessonState } from "../state";

const LENGTHS = [10, 100, 1000, 10000];

const LONG = 1e9; // a number beyond it is read by its power of ten

function written(value: number): string {
  return value < LONG ? count(value) : short(value);
}

/** Multiplications with and without a cache, by the length of the text. */
export function CacheWork({ state }: { state: LessonState }) {
  const { w_k, w_v } = state.worksOn.value;
  const sizes = { width: w_k.length, d_k: w_k[0]?.length ?? 0, d_v: w_v[0]?.length ?? 0 };
  const [p, s] = [sizes.width * (2 * sizes.d_k + sizes.d_v), sizes.d_k + sizes.d_v];
  return (
    <section data-part="cache-work">
      <h3>{say("cache.work_title")}</h3>
      <p>{say("cache.work_lead", { p, s })}</p>
      <div class="scroll">
        <table class="story-work">
          <thead>
            <tr>
              <th scope="col">{say("cache.work_tokens")}</th>
              <th scope="col">{say("cache.work_without")}</th>
              <th scope="col">{say("cache.work_with")}</th>
              <th scope="col">{say("cache.work_saved")}</th>
            </tr>
            <tr class="story-formulas">
              <td />
              <td>
                <math>
                  <mrow>
                    <mi>p</mi>
                    <mfrac>
                      <mrow>
                        <mi>N</mi>
                        <mtext>(</mtext>
                        <mi>N</mi>
                        <mo>+</mo>
                        <mn>1</mn>
                        <mtext>)</mtext>
                      </mrow>
                      <mn>2</mn>
                    </mfrac>
                    <mo>+</mo>
                    <mi>s</mi>
                    <mfrac>
                      <mrow>
                        <mi>N</mi>
                        <mtext>(</mtext>
                        <mi>N</mi>
                        <mo>+</mo>
                        <mn>1</mn>
                        <mtext>)(</mtext>
                        <mi>N</mi>
                        <mo>+</mo>
                        <mn>2</mn>
                        <mtext>)</mtext>
                      </mrow>
                      <mn>6</mn>
                    </mfrac>
                  </mrow>
                </math>
              </td>
              <td>
                <math>
                  <mrow>
                    <mi>p</mi>
                    <mi>N</mi>
                    <mo>+</mo>
                    <mi>s</mi>
                    <mfrac>
                      <mrow>
                        <mi>N</mi>
                        <mtext>(</mtext>
                        <mi>N</mi>
                        <mo>+</mo>
                        <mn>1</mn>
                        <mtext>)</mtext>
                      </mrow>
                      <mn>2</mn>
                    </mfrac>
                  </mrow>
                </math>
              </td>
              <td />
            </tr>
          </thead>
          <tbody>
            {LENGTHS.map((n) => {
              const work = workOf(n, sizes);
              return (
                <tr key={n} data-part="work-row" data-tokens={n}>
                  <th scope="row">{count(n)}</th>
                  <td class="figure story-bad" data-value={work.without}>
                    {written(work.without)}
                  </td>
                  <td class="figure story-good" data-value={work.with}>
                    {written(work.with)}
                  </td>
                  <td class="figure">{short(work.without / work.with)}×</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="soft">{say("cache.work_remark")}</p>
    </section>
  );
}
