// The entries of a commit: what each one is called, and where it leads.
import type { ComponentChildren } from "preact";
import type { Schemas } from "../api.js";
import { href, withParams } from "../router.js";
import { meaningOf } from "./kinds.js";

/** The server leaves absent fields out. */
type Present<T> = { [Field in keyof T]: Exclude<T[Field], null> };

export type Entry = Present<Schemas["CommitEntryReply"]>;
export type Commit = Omit<Schemas["LoggedCommitReply"], "entries"> & { entries: Entry[] };

/** The class of an entry's model, for its colour. */
export const MODELS = ["events", "jobs", "streams", "graph", "system"] as const;

export type Model = (typeof MODELS)[number];

export const MODEL_NAMES: Record<Model, string> = {
  events: "Events",
  jobs: "Jobs",
  streams: "Topics",
  graph: "Graphs",
  system: "System",
};

export function modelOf(entry: Entry): Model {
  return MODELS.find((model) => model === entry.model) ?? "system";
}

export function kindOf(entry: Entry): string {
  return entry.kind.replaceAll("_", " ");
}

/** The kinds that give a new object its name and number. */
const NAMING = new Set([
  "store_created", "topic_created", "group_created", "queue_created", "graph_named", "block_kind_named", "edge_type_named",
]);

/** Whether the entry only names something new, which another entry of the commit uses. */
export function isNaming(entry: Entry): boolean {
  return NAMING.has(entry.kind);
}

/** The entries in the order in which a reader wants them: new names last. */
export function byInterest(entries: Entry[]): Entry[] {
  return [...entries.filter((entry) => !isNaming(entry)), ...entries.filter(isNaming)];
}

/** What the entry is about, in a few words. */
export function summary(entry: Entry): string {
  if (entry.event) return entry.event.type;
  if (entry.edge) return `─${entry.edge.type}▶`;
  if (entry.name) return entry.name;
  if (entry.block) return `block ${entry.block.slice(0, 8)}`;
  if (entry.jobs?.length === 1) return `job ${entry.jobs[0]}`;
  if (entry.jobs) return `${entry.job_count} jobs`;
  if (entry.records !== undefined) return `offset ${entry.offset}`;
  if (entry.group) return entry.group;
  return "";
}

/** The object of the entry. */
export function objectOf(entry: Entry): string | undefined {
  if (entry.topic !== undefined && entry.partition !== undefined) return `${entry.topic}/${entry.partition}`;
  return entry.store ?? entry.queue ?? entry.topic ?? entry.graph ?? entry.group;
}

/** The page that shows what the entry wrote. */
export function linkOf(entry: Entry): string | undefined {
  if (entry.store !== undefined) {
    const store = href("stores", entry.store);
    return entry.event ? withParams(store, { at: entry.event.position }) : store;
  }
  if (entry.jobs?.length === 1) return href("jobs", entry.jobs[0] as string);
  if (entry.queue !== undefined) return withParams(href("jobs"), { queue: entry.queue });
  if (entry.group !== undefined) return href("groups", entry.group);
  if (entry.topic !== undefined) {
    const topic = href("topics", entry.topic);
    return entry.records === undefined ? topic : withParams(topic, { partition: entry.partition, offset: entry.offset });
  }
  if (entry.graph !== undefined) {
    const graph = href("graphs", entry.graph);
    const block = entry.block ?? entry.edge?.source;
    return block === undefined ? graph : withParams(graph, { block, by: "id" });
  }
  return undefined;
}

export function Chip({ entry }: { entry: Entry }) {
  const text = summary(entry);
  const object = objectOf(entry);
  const content: ComponentChildren = (
    <>
      <span class="chip-kind">{kindOf(entry)}</span>
      {text !== "" && <b>{text}</b>}
      {object !== undefined && object !== text && <span class="chip-object">{object}</span>}
    </>
  );
  return <span class={`chip model-${modelOf(entry)}`} title={meaningOf(entry.kind)}>{content}</span>;
}
