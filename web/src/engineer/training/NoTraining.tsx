import { useEffect } from "preact/hooks";
import { markReady } from "../states/ready";

/** A recording without a training run: how one gets in. */
export function NoTraining({ name }: { name: string }) {
  useEffect(() => markReady("training"), []);
  return (
    <main class="state" data-part="no-training">
      <h1>No training was monitored here</h1>
      <p>
        <code>{name}</code> holds no training run. A monitor records one while a model trains; if
        the file exists, the monitor appends to it.
      </p>
      <pre class="state-code">
        {`with regard.Monitor(model, log="run.regard") as monitor:
    for batch in batches:
        loss(model(batch)).backward()
        monitor.step()
        optimizer.step()
        optimizer.zero_grad()`}
      </pre>
      <p>
        Then <code>regard view run.regard</code>, also while it is still training.
      </p>
    </main>
  );
}
