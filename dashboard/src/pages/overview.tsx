import { useEffect, useState } from "preact/hooks";
import { useRead, type Read, type Schemas } from "../api.js";
import { href, withParams } from "../router.js";
import { Empty, Head, Shown, Table } from "../ui/parts.js";
import { Time, duration } from "../ui/time.js";
import { bytes, count } from "../ui/value.js";
import { HistoryCharts } from "./history.js";

type Stats = Schemas["Stats"];

const STATS: Read = { route: "/v1/stats" };
const EVERY_MS = 2_000;

/** How many points of the chart are kept: ten minutes. */
const POINTS_MAX = 300;

interface Point {
  ms: number;
  commits: number;
}

export function Overview() {
  const stats = useRead<Stats>(STATS, EVERY_MS);
  const health = useRead<Schemas["Health"]>({ route: "/healthz" }, EVERY_MS);
  const [points, setPoints] = useState<Point[]>([]);
  useEffect(() => {
    if (stats.data === undefined) return;
    const point = { ms: performance.now(), commits: stats.data.commits };
    setPoints((points) => [...points, point].slice(-POINTS_MAX));
  }, [stats.data]);
  return (
    <>
      <Head title="Overview" read={STATS} />
      <Shown of={stats}>
        {(data) => (
          <>
            <Trouble stats={data} health={health.data} />
            <div class="tiles">
              <Tile name="Position" value={count(data.position)} link={href("commits")}>the last commit</Tile>
              <Tile name="Commits a second" value={rate(points)}><Spark points={points} /></Tile>
              <Tile name="Refusals" value={count(data.refusals)} link={withParams(href("commits"), { view: "refusals" })}>since the start</Tile>
              <Tile name="Written" value={bytes(data.log_bytes)}>since the start, {plural(data.segments, "segment")}</Tile>
              <Tile name="Syncs" value={count(data.syncs)}>since the start, durability {data.durability}</Tile>
              <Tile name="Version" value={health.data?.version ?? "–"}>{health.data?.status}</Tile>
            </div>
            <HistoryCharts />
            <Queues stats={data} />
            <div class="columns">
              <Names title="Event stores" unit="events" rows={data.stores.map((store) => [store.store, store.events, href("stores", store.store)])} />
              <Names title="Topics" unit="messages" rows={data.topics.map((topic) => [topic.topic, topic.messages, href("topics", topic.topic)])} />
              <Names title="Groups" unit="lag" rows={data.groups.map((group) => [group.group, group.lag, href("groups", group.group)])} />
              <Names title="Graphs" unit="blocks" rows={data.graphs.map((graph) => [graph.graph, graph.blocks, href("graphs", graph.graph)])} />
            </div>
          </>
        )}
      </Shown>
    </>
  );
}

function Tile({ name, value, link, children }: { name: string; value: string; link?: string; children?: preact.ComponentChildren }) {
  return (
    <div class="tile">
      <span class="tile-name">{name}</span>
      <span class="tile-value">{link === undefined ? value : <a href={link}>{value}</a>}</span>
      <span class="faint">{children}</span>
    </div>
  );
}

/** The states that need no operator: a node that follows has the leader's answers. */
const HEALTHY = new Set(["ok", "following"]);

/** What an operator has to know first. */
function Trouble({ stats, health }: { stats: Stats; health: Schemas["Health"] | undefined }) {
  const isHealthy = health === undefined || HEALTHY.has(health.status);
  if (stats.failing.length === 0 && stats.damaged === 0 && isHealthy) return null;
  return (
    <div class="problem" role="alert">
      {!isHealthy && <p>The database is <code>{health.status}</code>.</p>}
      {stats.damaged > 0 && <p>{stats.damaged} damaged {stats.damaged === 1 ? "place" : "places"} in the log: run <code>quire verify</code>.</p>}
      {stats.failing.map((duty) => (
        <p key={duty.duty}>The duty <code>{duty.duty}</code> failed {duty.times} times since <Time ms={duty.since_ms} />: {duty.message}</p>
      ))}
    </div>
  );
}

function plural(number: number, unit: string): string {
  return `${count(number)} ${unit}${number === 1 ? "" : "s"}`;
}

function rate(points: Point[]): string {
  const [first, last] = [points.at(-Math.min(points.length, 6)), points.at(-1)];
  if (first === undefined || last === undefined || last.ms <= first.ms) return "–";
  const perSecond = ((last.commits - first.commits) * 1_000) / (last.ms - first.ms);
  return perSecond >= 10 ? count(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** The commits a second since the page was opened. */
function Spark({ points }: { points: Point[] }) {
  const first = points[0];
  if (first === undefined || points.length < 3) return <>measuring …</>;
  const rates = points.slice(1).map((point, index) => {
    const before = points[index] as Point;
    return Math.max(0, point.commits - before.commits) / Math.max(1, point.ms - before.ms);
  });
  const most = Math.max(...rates, Number.MIN_VALUE);
  const line = rates.map((rate, index) => `${((index / (rates.length - 1)) * 100).toFixed(1)},${(23 - (rate / most) * 22).toFixed(1)}`);
  const since = duration((points.at(-1) as Point).ms - first.ms);
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={`Commits a second in the last ${since}`}>
      <polyline points={line.join(" ")} />
    </svg>
  );
}

export const STATES = ["pending", "scheduled", "active", "retrying", "held", "completed", "cancelled", "dead"] as const;

function Queues({ stats }: { stats: Stats }) {
  if (stats.queues.length === 0) {
    return (
      <Empty title="No queues yet" command={`curl -s ${window.location.origin}/v1/queues/mail/jobs --json '{"kind": "welcome", "payload": {"to": "ada"}}'`}>
        A queue appears with its first job.
      </Empty>
    );
  }
  type Row = Stats["queues"][number] & { [state: string]: number };
  const columns = STATES.map((state) => ({
    title: state,
    isNumber: true,
    cell: (queue: Row) => {
      const jobs = Number(queue[state] ?? 0);
      const link = withParams(href("jobs"), { queue: queue.queue, state });
      return jobs === 0 ? <span class="faint">0</span> : <a class={state === "dead" ? "bad" : ""} href={link}>{count(jobs)}</a>;
    },
  }));
  const name = { title: "Queue", cell: (queue: Row) => <a href={withParams(href("jobs"), { queue: queue.queue })} data-row>{queue.queue}</a> };
  return (
    <section>
      <h2>Queues</h2>
      <Table caption="Queues" rows={stats.queues as Row[]} keyOf={(queue) => queue.queue} columns={[name, ...columns]} />
    </section>
  );
}

function Names({ title, unit, rows }: { title: string; unit: string; rows: [string, number, string][] }) {
  const most = 12;
  return (
    <section>
      <h2>{title}</h2>
      {rows.length === 0 ? <p class="faint">None yet.</p> : (
        <ul class="names">
          {rows.slice(0, most).map(([name, number, link]) => (
            <li key={name}><a href={link}>{name}</a><span>{count(number)} <span class="faint">{unit}</span></span></li>
          ))}
        </ul>
      )}
      {rows.length > most && <p class="faint">and {rows.length - most} more</p>}
    </section>
  );
}
