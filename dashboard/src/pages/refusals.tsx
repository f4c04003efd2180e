import { useRead, type Json, type Read, type Schemas } from "../api.js";
import { href, withParams } from "../router.js";
import { Empty, Facts, Shown } from "../ui/parts.js";
import { Time } from "../ui/time.js";
import { Conflict } from "./trial.js";

type Refusal = Schemas["RefusedCommitReply"];
type Resource = Schemas["TouchedResourceReply"];

export const REFUSALS: Read = { route: "/v1/refusals" };
const EVERY_MS = 3_000;

/** The facts that each problem has, and that the row shows. */
const COMMON = new Set(["type", "title", "status", "detail", "code", "request_id"]);

/** The last refused commits, with what they conflicted with. */
export function Refusals() {
  const refusals = useRead<{ data: Refusal[] }>(REFUSALS, EVERY_MS);
  return (
    <Shown of={refusals}>
      {({ data }) => data.length === 0
        ? <Empty title="No commit was refused">A refused commit appears here with its reason: for example, a condition that an event breaks, or a lease that has ended. The server keeps the last 200 until it stops.</Empty>
        : <ol class="records">{data.map((refusal) => <Row key={refusal.number} refusal={refusal} />)}</ol>}
    </Shown>
  );
}

function Row({ refusal: { time_ms, problem, resources: touched } }: { refusal: Refusal }) {
  // The whole database stands for an object that the server does not know.
  const resources = touched.filter(({ kind, name }) => kind !== "admin" || name !== "database");
  const stores = resources.filter(({ kind, name }) => kind === "store" && name !== null).map(({ name }) => name as string);
  const facts = Object.entries(problem as Record<string, Json>).filter(([name]) => !COMMON.has(name));
  return (
    <li>
      <details>
        <summary>
          <Time ms={time_ms} />
          <code>{problem.code}</code>
          <span class="text">{problem.detail}</span>
          <span class="faint">{resources.map(nameOf).join(", ")}</span>
        </summary>
        <p>{problem.title}</p>
        <Facts of={[
          ...facts.map(([name, value]) => [name.replaceAll("_", " "), textOf(value)] as const),
          ["touches", resources.length > 0 && <>{resources.map((resource, index) => <span key={index}>{index > 0 && ", "}<ResourceLink resource={resource} /></span>)}</>],
        ]} />
        <Conflict problem={problem} stores={stores} />
      </details>
    </li>
  );
}

function textOf(value: Json): string {
  return value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
}

function nameOf({ kind, name }: Resource): string {
  return name === null ? `every ${kind}` : `${kind} ${name}`;
}

function ResourceLink({ resource }: { resource: Resource }) {
  const { kind, name } = resource;
  const page = { store: "stores", topic: "topics", group: "groups", graph: "graphs" }[kind];
  if (name === null || (page === undefined && kind !== "queue")) return <>{nameOf(resource)}</>;
  return <a href={page === undefined ? withParams(href("jobs"), { queue: name }) : href(page, name)}>{nameOf(resource)}</a>;
}
