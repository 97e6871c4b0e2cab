import { amend } from "../../shell/address";
import type { Choice, Scene } from "./choice";
import { DRAWINGS } from "./shades";

interface Props {
  readonly scene: Scene;
  readonly choice: Choice;
  readonly looks: boolean;
  readonly rolls: boolean;
  readonly hasGrid: boolean;
}

/** How it is drawn, and which way it is asked. */
export function Controls({ scene, choice, looks, rolls, hasGrid }: Props) {
  return (
    <div class="pic-controls">
      {scene.isOne && (
        <fieldset class="pic-switch" aria-label="Which way">
          <Press on={looks && !rolls} run={() => amend({ dir: "from" })} hint="w">
            Where it looks
          </Press>
          <Press on={!looks} run={() => amend({ dir: "to" })} hint="w">
            Who looks at it
          </Press>
          {(hasGrid || rolls) && (
            <Press on={rolls} run={() => amend({ dir: "rollout" })} hint="r">
              Rollout
            </Press>
          )}
        </fieldset>
      )}
      {hasGrid && (
        <fieldset class="pic-switch" aria-label="Drawn as">
          {DRAWINGS.map((one) => (
            <Press key={one} on={choice.drawing === one} run={() => amend({ draw: one })} hint="m">
              {`${one.charAt(0).toUpperCase()}${one.slice(1)}`}
            </Press>
          ))}
        </fieldset>
      )}
      <fieldset class="pic-switch" aria-label="Coloured by">
        <Press on={!choice.isRaw} run={() => amend({ by: undefined })} hint="u">
          × even share
        </Press>
        <Press on={choice.isRaw} run={() => amend({ by: "weight" })} hint="u">
          Weight
        </Press>
      </fieldset>
      {hasGrid && (
        <label class="pic-opacity">
          Opacity
          <input
            type="range"
            min={0}
            max={100}
            value={Math.round(choice.opacity * 100)}
            onInput={(event) => amend({ alpha: event.currentTarget.value })}
          />
        </label>
      )}
    </div>
  );
}

interface PressProps {
  readonly on: boolean;
  readonly run: () => void;
  readonly hint: string;
  readonly children: string;
}

export function Press({ on, run, hint, children }: PressProps) {
  return (
    <button type="button" aria-pressed={on} title={`Key ${hint}`} onClick={run}>
      {children}
    </button>
  );
}
