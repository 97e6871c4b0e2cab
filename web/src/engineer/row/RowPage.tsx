import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Legend } from "../../parts/Legend";
import { Notice } from "../../parts/Notice";
import { go, linkTo } from "../../shell/address";
import { useKeys } from "../../shell/keys";
import { theme } from "../../shell/theme";
import type { HeadFacts } from "../../source/answers";
import type { Source, Where } from "../../source/source";
import { useAnswer, useAsked } from "../answer";
import { GoTo } from "../head/GoTo";
import { shortened, spelledIfKnown } from "../head/spelling";
import { TokenBook } from "../head/tokenBook";
import { PinButton } from "../Pinned";
import { headPlace, ownRowPlace, rowPlace } from "../places";
import { ShareMenu } from "../share/ShareMenu";
import { markReady } from "../states/ready";
import { Waiting } from "../states/Waiting";
import { Arcs } from "./Arcs";
import { Cumulative } from "./Cumulative";
import { RowNumbers, RowReadout } from "./RowReadout";
import { RowText } from "./RowText";
import { askRow, type Row, rowBeside } from "./rowAnswers";
import { rowPicture } from "./rowPicture";
import { TopKeys } from "./TopKeys";
import "../head/head.css";
import "./row.css";

const MOST_LETTERS = 40; // of the row's token

interface Props {
  readonly source: Source;
  readonly where: Where;
  readonly label: string;
  readonly row: number;
}

/** One row of a head: the prompt shaded by where this token looks. */
export function RowPage({ source, where, label, row }: Props) {
  const head = useAsked(source, "head", { ...where, head: label });
  if (head.state === "failed") return <Failure words={head.error.message} />;
  if (head.state === "waiting") return <main class="row-page" aria-busy="true" />;
  return <OfHead key={label} source={source} where={where} head={head.value} row={row} />;
}

function Failure({ words }: { words: string }) {
  return (
    <main class="row-page">
      <Notice kind="error">{words}</Notice>
    </main>
  );
}

interface OfHeadProps {
  readonly source: Source;
  readonly where: Where;
  readonly head: HeadFacts;
  readonly row: number;
}

function OfHead({ source, where, head, row }: OfHeadProps) {
  const isGoing = useSignal(false);
  const found = useAnswer((stop) => askRow(source, where, head, row, stop), [head, row], true);
  const book = useMemo(
    () => new TokenBook(source, where, head.streams.keys, head.shape[1]),
    [head],
  );
  const queries = useMemo(
    () => new TokenBook(source, where, head.streams.queries, head.shape[0]),
    [head],
  );
  const [first, stop] = head.recorded;
  const step = (to: number) => {
    if (to !== row && to >= first && to < stop) go(rowPlace(where, head.label, to));
  };
  useEffect(() => {
    if (found.state === "failed") markReady("row"); // its reason is all there is to show
  }, [found.state]);
  const stepBy = (by: -1 | 1) => step(rowBeside(head, row, by) ?? row);
  useKeys("Rows", [
    { key: "g", does: "go to a row", run: () => (isGoing.value = true) },
    ...(found.state === "here" ? [] : stepKeys(stepBy)), // else the row's own, which do more
  ]);
  return (
    <main class="row-page" data-part="row-page" data-head={head.label} data-row={row}>
      <RowTop
        source={source}
        where={where}
        head={head}
        row={row}
        found={rowOf(found)}
        step={step}
        openGoTo={() => (isGoing.value = true)}
      />
      <GoTo
        open={isGoing}
        title="Go to a row, by its number or by words of the text"
        fields={[{ name: "row", least: first, most: stop - 1, value: row, book: queries }]}
        go={([to]) => step(to ?? row)}
      />
      {found.state === "failed" && <Notice kind="warning">{found.error.message}</Notice>}
      {found.state === "here" && found.value.facts.row !== row && (
        <div class="row-late" data-part="row-late">
          <Waiting words={`Row ${row} is on its way; this is still row ${found.value.facts.row}`} />
        </div>
      )}
      {found.state === "here" && <Body {...{ where, head, book, stepBy }} row={found.value} />}
    </main>
  );
}

function stepKeys(stepBy: (by: -1 | 1) => void) {
  return [
    { key: "ArrowLeft", does: "row before", run: () => stepBy(-1) },
    { key: "ArrowRight", does: "row after", run: () => stepBy(1) },
  ];
}

function rowOf(found: ReturnType<typeof useAnswer<Row>>): Row | null {
  return found.state === "here" ? found.value : null;
}

interface TopProps extends OfHeadProps {
  readonly found: Row | null;
  readonly step: (row: number) => void;
  readonly openGoTo: () => void;
}

function RowTop({ source, where, head, row, found, step, openGoTo }: TopProps) {
  const key = found?.top[0]?.key ?? row;
  const near = head.exact
    ? { x: String(key + 0.5), y: String(row + 0.5), z: "16", at: `${row},${key}` }
    : { at: `${row},${key}` };
  return (
    <header class="head-top">
      <h1>
        <a href={linkTo(headPlace(where, head.label))}>{head.label}</a>{" "}
        <span class="q">row {row}</span>{" "}
        <span class="row-word" data-part="row-token">
          {found?.facts.row === row
            ? shortened(spelledIfKnown(found.facts.token), MOST_LETTERS)
            : ""}
        </span>
      </h1>
      <nav aria-label="Rows beside this one">
        <StepButton sign="←" to={rowBeside(head, row, -1)} step={step} />
        <StepButton sign="→" to={rowBeside(head, row, 1)} step={step} />
        <button type="button" data-part="go" title="Go to a row or word (g)" onClick={openGoTo}>
          go to
        </button>
        <PinButton label={head.label} />
        <a class="button" data-part="to-map" href={linkTo(headPlace(where, head.label, near))}>
          on the map
        </a>
      </nav>
      {found && (
        <ShareMenu
          source={source}
          where={where}
          title={`row ${row}`}
          picture={rowPicture(source, where, head, found)}
        />
      )}
    </header>
  );
}

interface StepProps {
  readonly sign: string;
  /** null at the ends. */
  readonly to: number | null;
  readonly step: (row: number) => void;
}

function StepButton({ sign, to, step }: StepProps) {
  return (
    <button
      type="button"
      disabled={to === null}
      aria-label={to === null ? "no row there" : `row ${to}`}
      onClick={() => to !== null && step(to)}
    >
      <kbd>{sign}</kbd> {to ?? "–"}
    </button>
  );
}

interface BodyProps {
  readonly where: Where;
  readonly head: HeadFacts;
  readonly row: Row;
  readonly book: TokenBook;
  readonly stepBy: (by: -1 | 1) => void;
}

function ownRow(where: Where, head: HeadFacts, key: number): string | null {
  const to = ownRowPlace(where, head, key);
  return to && linkTo(to);
}

function Body({ where, head, row, book, stepBy }: BodyProps) {
  const looked = useSignal<number | null>(null);
  const target = useSignal<{ readonly key: number } | null>(null);
  const home = row.shading.query ?? row.top[0]?.key ?? 0;
  const look = (key: number) => {
    looked.value = Math.min(Math.max(key, 0), head.shape[1] - 1);
    target.value = { key: looked.value };
  };
  useEffect(() => {
    target.value = { key: home };
    markReadyWhenRead(book, home);
  }, [row]);
  const move = (by: -1 | 1) => (event: KeyboardEvent) =>
    event.shiftKey ? look((looked.peek() ?? home) + by) : stepBy(by);
  useKeys("Row", [
    { key: "ArrowLeft", does: "row before; with Shift, token before", run: move(-1) },
    { key: "ArrowRight", does: "row after; with Shift, token after", run: move(1) },
  ]);
  const scene = { span: row.span, query: row.shading.query, top: row.top };
  return (
    <>
      {!row.shading.weights && (
        <Notice kind="warning">
          Only the heaviest keys of this row are known: {head.why_not ?? "q and k are not there"}.
        </Notice>
      )}
      <RowNumbers row={row} />
      <Arcs scene={scene} looked={looked.value} onLook={(key) => (looked.value = key)} />
      <div class="row-body">
        <div class="row-left">
          <RowReadout row={row} looked={looked.value} book={book} />
          <RowText
            {...{ book, looked, target, shading: row.shading, total: head.shape[1] }}
            rowOf={(key) => ownRow(where, head, key)}
          />
          <Legend
            scale={head.scale}
            words="weight × visible keys; below it plain, hidden tokens grey"
            turned={theme.value === "light"}
          />
        </div>
        <aside class="row-right">
          {row.mass && <Cumulative mass={row.mass} />}
          <TopKeys
            {...{ row }}
            looked={looked.value}
            onLook={look}
            rowOf={(key) => ownRow(where, head, key)}
          />
        </aside>
      </div>
      <p class="soft head-caveat">{row.facts.caveat}</p>
    </>
  );
}

/** The picture is full when the text around the query is there and drawn. */
async function markReadyWhenRead(book: TokenBook, key: number): Promise<void> {
  await book.ready(key).catch(() => undefined);
  requestAnimationFrame(() => requestAnimationFrame(() => markReady("row")));
}
