import type { ComponentType } from "preact";
import type { Overview, Sight, TrainingFacts } from "../source/answers";
import type { Source, Where } from "../source/source";
import type { Answer } from "./answer";
import { ComparePage } from "./compare/ComparePage";
import { FindingsPage } from "./findings/FindingsPage";
import { OverviewPage } from "./overview/OverviewPage";
import { PicturePage } from "./picture/PicturePage";
import { TrainingPage } from "./training/TrainingPage";

/** What every tab is given. */
export interface TabProps {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
  readonly training: Answer<TrainingFacts>;
  readonly sight: Answer<Sight>;
}

export interface Tab {
  /** Its word in the address. */
  readonly view: string;
  readonly title: string;
  /** What a recording must hold for the tab to be there. */
  readonly of: "heads" | "training" | "sight";
  readonly Page: ComponentType<TabProps>;
  /** Whether its link, while it is looked at, keeps what was chosen in it. */
  readonly keeps?: boolean;
}

/** In the order of their keys, from 1 on. The first is shown where the address names none. */
export const TABS: readonly [Tab, ...Tab[]] = [
  { view: "overview", title: "Overview", of: "heads", Page: OverviewPage },
  { view: "findings", title: "Findings", of: "heads", Page: FindingsPage },
  { view: "compare", title: "Compare", of: "heads", Page: ComparePage, keeps: true },
  { view: "training", title: "Training", of: "training", Page: TrainingPage, keeps: true },
  { view: "picture", title: "Picture", of: "sight", Page: PicturePage, keeps: true },
];

export function tabOf(view: string): Tab {
  return TABS.find((one) => one.view === view) ?? TABS[0];
}
