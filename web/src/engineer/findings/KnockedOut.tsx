import { Figure } from "../../parts/Figure";
import type { Report } from "../../source/answers";
import { changesOf } from "./knocked";

const PLACES = 3;

/** What happens without the head, where somebody has kept it. */
export function KnockedOut({ report, label }: { report: Report; label: string }) {
  const changes = changesOf(report, label);
  if (!changes.length) return null;
  return (
    <table class="find-knocked" data-part="knocked-out">
      <caption>Knocked out: means over rows, without the last one</caption>
      <thead>
        <tr>
          <th scope="col">changes</th>
          <th scope="col">by</th>
          <th scope="col">other heads, median</th>
        </tr>
      </thead>
      <tbody>
        {changes.map((one) => (
          <tr key={one.name} data-change={one.name}>
            <th scope="row">{one.name}</th>
            <td>
              <Figure value={one.value} places={PLACES} />
            </td>
            <td class="soft">
              <Figure value={one.typical} places={PLACES} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
