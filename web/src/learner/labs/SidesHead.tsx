import { say } from "../language";

/** The head of a table that compares scores as they are with scores divided by √d_k. */
export function SidesHead() {
  return (
    <thead>
      <tr>
        <th scope="col" />
        <th scope="col" class="raw">
          {say("sides.raw")}
        </th>
        <th scope="col" class="scaled">
          ÷ √d_k
        </th>
      </tr>
    </thead>
  );
}
