import { valueField, type Value } from "./json.js";
import type { components } from "./schema.js";

/** The shapes of requests and responses, generated from the description of the HTTP API. */
export type Schemas = components["schemas"];

/** An event to append. */
export interface NewEvent {
  type: string;
  tags?: string[];
  data?: Value;
  metadata?: Value;
  /** A UUID, which makes the append idempotent. */
  id?: string;
}

export type QueryItem = Query["items"][number];
export type Query = Schemas["QueryRequest"];
export type Condition = Schemas["ConditionRequest"];

/** A part of a commit. docs/http.md describes all of them. */
export type Part = Schemas["PartRequest"];

/** The replies of a commit, one for each part, in order, under the name of the reply. */
export interface Committed {
  /** The number of the commit in the log. */
  position: number;
  time_ms: number;
  replies: Reply[];
}

/** The answer that a commit would get. Nothing was committed. */
export interface DryRun extends Committed {
  dry_run: true;
  /** The entries that the commit would append. */
  entries: Schemas["DraftedEntryReply"][];
}

export interface Reply {
  appended?: Appended;
  produced?: Produced;
  enqueued?: Enqueued;
  acked?: Record<string, never>;
  block_put?: BlockPut;
  edge_put?: { created: boolean };
  [reply: string]: unknown;
}

export interface Appended {
  first: number | null;
  last: number | null;
  duplicate: boolean;
}

export interface Produced {
  partition: number;
  offset: number;
}

export interface Enqueued {
  job: string;
  state: JobState;
  /** Present if another job holds the unique key. */
  duplicate?: string;
}

export interface BlockPut {
  id: string;
  version: number;
  created: boolean;
}

export type JobState =
  | "scheduled" | "pending" | "active" | "retrying" | "held" | "completed" | "cancelled" | "dead";

/** Refuses the commit if an event after this position matches; 0 is the beginning. */
export function failIfMatches(items: QueryItem | QueryItem[], after?: number): Condition {
  const query: Query = { items: Array.isArray(items) ? items : [items] };
  return after === undefined ? { fail_if_events_match: query } : { fail_if_events_match: query, after };
}

/** Appends events if every condition holds. */
export function append(store: string, events: NewEvent[], conditions: Condition[] = []): Part {
  const encoded = events.map(({ data, metadata, ...event }) => ({
    ...event,
    ...valueField("data", data),
    ...valueField("metadata", metadata),
  }));
  return { append: { store, events: encoded, conditions } };
}

/** The options of a job, as docs/jobs.md describes them. */
export type JobOptions = Omit<Schemas["Enqueue"], "queue" | "payload" | "payload_text" | "payload_base64">;

/** Enqueues a job. */
export function enqueue(queue: string, payload?: Value, options: JobOptions = {}): Part {
  return { enqueue: { queue, ...valueField("payload", payload), ...options } };
}

export type MessageOptions = Omit<Schemas["Produce"], "topic" | "value" | "value_text" | "value_base64">;

/** Produces a message. Without a value it is a tombstone. */
export function produce(topic: string, value?: Value, options: MessageOptions = {}): Part {
  return { produce: { topic, ...valueField("value", value), ...options } };
}

export interface BlockOptions {
  source?: string;
  tags?: string[];
  metadata?: Value;
  content?: Value;
  /** The version that the block must have; 0: it must not exist. */
  expect_version?: number;
}

/** Puts a block of a graph. */
export function putBlock(graph: string, block: string, kind: string, options: BlockOptions = {}): Part {
  const { content, metadata, ...fields } = options;
  const values = { ...valueField("metadata", metadata), ...valueField("content", content) };
  return { put_block: { graph, block, kind, ...fields, ...values } };
}

/** Puts an edge between two blocks. */
export function putEdge(graph: string, source: string, type: string, target: string, properties?: Value): Part {
  return { put_edge: { graph, source, type, target, ...valueField("properties", properties) } };
}
