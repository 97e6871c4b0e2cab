import { useCallback, useEffect, useState } from "preact/hooks";
import { count, sentence } from "../../maths/format";
import { Legend } from "../../parts/Legend";
import { place } from "../../shell/address";
import type { Overview, Report, Scale } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { type Answer, arrived, useAnswer } from "../answer";
import { Caveat } from "../Caveat";
import { Chips } from "../findings/Chips";
import { Term } from "../Glossary";
import { PinnedList } from "../Pinned";
import { ShareMenu } from "../share/ShareMenu";
import { Empty } from "../states/Empty";
import { markReady } from "../states/ready";
import { Standing, Unheard } from "../states/Standing";
import { Failed } from "../states/Waiting";
import { Controls } from "./Controls";
import { choiceOf, type Show } from "./choice";
import { inOrder, layersInWords, shapeInWords, sizeInWords, titleInWords } from "./facts";
import { GoTo } from "./GoTo";
import { HeadTable } from "./HeadTable";
import { HowRecorded } from "./HowRecorded";
import { overviewPicture } from "./overviewPicture";
import { PromptCard } from "./PromptCard";
import { RankedList } from "./RankedList";
import { StackGrid } from "./StackGrid";
import { StandsOut } from "./StandsOut";
import { scaleOf } from "./statistics";
import { hasPictures, type StackPictures, useThumbnails } from "./thumbnails";
import "./overview.css";

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly overview: Overview;
}

/** A recording at a glance: every head, and what to look at first. */
export function OverviewPage(props: Props) {
  return props.overview.heads.length ? <Full {...props} /> : <Empty overview={props.overview} />;
}

function Full({ source, where, overview }: Props) {
  const pictures = useThumbnails(source, where, overview);
  const choice = choiceOf(overview);
  const show = choice.show ?? (hasPictures(pictures) ? "pictures" : "numbers");
  const [isDrawn, setDrawn] = useState(false);
  const onDrawn = useCallback(() => {
    setDrawn(true);
    markReady("overview");
  }, []);
  const report = useReport(source, where, overview, isDrawn);
  const found = arrived(report);
  const first = firstHead(overview, found);
  const label = place.value.label ?? "";
  const among = found && label in found.counts ? labelled(found, label) : null;
  const facts = overview.prompts[where.prompt];
  const shared = overviewPicture(source, where, {
    ...{ overview, show, statistic: choice.statistic },
    pictures: arrived(pictures),
  });
  return (
    <main class="page over" data-part="overview">
      <div class="over-top">
        <div class="over-title">
          <h1>{facts?.title ? titleInWords(facts.title) : overview.name}</h1>
          <ShareMenu {...{ source, where }} title="the overview" picture={shared} />
        </div>
        <p class="soft" data-part="size">
          {facts && facts.tokens > 0 && `${count(facts.tokens)} tokens · `}
          {sizeInWords(overview)}
          {source.kind !== "file" && ` · ${layersInWords(overview)}`}
        </p>
        <Standing overview={overview} />
        <Unheard overview={overview} />
      </div>
      <section class="over-heads" aria-label="Heads">
        <div class="over-bar-top">
          <Controls overview={overview} choice={choice} show={show} />
          <GoTo {...{ source, overview, where }} head={first} />
        </div>
        {found && found.labels > 0 && <Chips counts={found.counts} chosen={among ? label : ""} />}
        <Heads
          {...{ source, where, overview, pictures, show, onDrawn, first, among }}
          statistic={choice.statistic}
        />
        {show === "ranked" && <RankedList {...{ overview, where, choice, among }} />}
        <Key overview={overview} show={show} statistic={choice.statistic} />
        {inOrder(overview.stacks).map((stack) => (
          <HeadTable
            key={stack.name}
            {...{ overview, where, stack }}
            statistic={choice.statistic}
          />
        ))}
      </section>
      <aside class="over-side">
        <Caveat words={overview.caveat} />
        <PinnedList where={where} />
        <StandsOut answer={report} where={where} />
        <PromptCard {...{ source, where, overview }} head={first} />
        <HowRecorded overview={overview} />
      </aside>
    </main>
  );
}

/** The report is asked for when the heads are drawn. */
function useReport(
  source: Source,
  where: Where,
  overview: Overview,
  isTime: boolean,
): Answer<Report> {
  const due = `${isTime}/${overview.live ? -1 : overview.revision}`;
  return useAnswer(
    (stop) => (isTime ? source.ask("findings", where, stop) : new Promise<Report>(() => {})),
    [source, where.recording, where.prompt, due],
    true,
  );
}

/** The head that stands out most: of the first finding, else the farthest from its layer. */
function firstHead(overview: Overview, report: Report | undefined): string | null {
  const found = report?.stand_out ? report.findings[0]?.label : undefined;
  return found ?? overview.opens_on ?? overview.heads[0]?.label ?? null;
}

function labelled(report: Report, label: string): ReadonlySet<string> {
  const heads = report.heads.filter((one) => one.labels.includes(label));
  return new Set(heads.map((one) => one.label));
}

interface HeadsProps extends Props {
  readonly pictures: StackPictures;
  readonly show: Show;
  readonly statistic: string;
  readonly first: string | null;
  readonly among: ReadonlySet<string> | null;
  readonly onDrawn: () => void;
}

function Heads(props: HeadsProps) {
  const { source, overview, where, pictures, show, statistic, first, among, onDrawn } = props;
  const [active, setActive] = useState<string | null>(null);
  if (show === "ranked") return <Ready onDrawn={onDrawn} />;
  if (show === "pictures" && pictures.state === "failed") return <Failed error={pictures.error} />;
  return (
    <>
      {inOrder(overview.stacks).map((stack) => (
        <div key={stack.name} class="over-stack" data-part="stack" data-stack={stack.name}>
          {stack.name && (
            <h2>
              {stack.name} <span class="soft">{shapeInWords(overview, stack)}</span>
            </h2>
          )}
          <StackGrid
            {...{ overview, where, stack, show, statistic, first, among, onDrawn }}
            thumbnails={pictures.state === "here" ? pictures.value.get(stack.name) : undefined}
            absent={source.kind === "file" ? "is not in this file" : "was not recorded"}
            hasKeys={stack.name === (active ?? inOrder(overview.stacks)[0]?.name)}
            onActive={setActive}
          />
        </div>
      ))}
    </>
  );
}

/** A list is drawn as soon as it is there. */
function Ready({ onDrawn }: { onDrawn: () => void }) {
  useEffect(onDrawn, [onDrawn]);
  return null;
}

const OF_PICTURES = "mean of the cells of a pixel; rows are queries, columns keys";

function Key(props: { overview: Overview; show: Show; statistic: string }) {
  const { overview, show, statistic } = props;
  const scale: Scale = show === "pictures" ? overview.scale : scaleOf(statistic, overview);
  const dark = overview.why_unknown[statistic];
  const words = show === "pictures" ? OF_PICTURES : (overview.statistics[statistic]?.words ?? "");
  return (
    <div class="over-key">
      {show !== "ranked" && <Legend scale={scale} words={words} />}
      {show === "pictures" && (
        <p class="soft">
          Colour: <Term name="× even share" /> of a <Term name="weight" />
        </p>
      )}
      {show !== "pictures" && dark && (
        <p class="soft" data-part="why-unknown">
          {sentence(dark)}
        </p>
      )}
      {show !== "ranked" && (
        <p class="soft over-marks">
          Entropy per layer: the span of its heads, from 0 (one key) to 1 (all alike), and their
          median · ● zooms to single weights · ○ stored summaries only · a struck box: not known of
          this head · a dot: not here
        </p>
      )}
      {show === "ranked" && <p class="soft">{overview.statistics[statistic]?.words}</p>}
    </div>
  );
}
