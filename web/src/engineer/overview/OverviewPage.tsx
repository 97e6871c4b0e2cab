import { useCallback, useEffect, useState } from "preact/hooks";
import { count, sentence } from "../../maths/format";
import { Legend } from "../../parts/Legend";
import type { Overview, Scale } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { arrived } from "../answer";
import { Caveat } from "../Caveat";
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
          {source.kind === "server" && ` · ${layersInWords(overview)}`}
        </p>
        <Standing overview={overview} />
        <Unheard overview={overview} />
      </div>
      <section class="over-heads" aria-label="Heads">
        <div class="over-bar-top">
          <Controls overview={overview} choice={choice} show={show} />
          <GoTo overview={overview} where={where} />
        </div>
        <Heads
          {...{ source, where, overview, pictures, show, onDrawn }}
          statistic={choice.statistic}
        />
        {show === "ranked" && <RankedList overview={overview} where={where} choice={choice} />}
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
        <StandsOut source={source} where={where} overview={overview} isTime={isDrawn} />
        <PromptCard source={source} where={where} overview={overview} />
        <HowRecorded overview={overview} />
      </aside>
    </main>
  );
}

interface HeadsProps extends Props {
  readonly pictures: StackPictures;
  readonly show: Show;
  readonly statistic: string;
  readonly onDrawn: () => void;
}

function Heads({ source, overview, where, pictures, show, statistic, onDrawn }: HeadsProps) {
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
            {...{ overview, where, stack, show, statistic, onDrawn }}
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
