import { valueField, type Json, type Value } from "./json.js";

/** An event to append. */
export interface NewEvent {
  type: string;
  tags?: string[];
  data?: Value;
  metadata?: Value;
  /** A UUID, which makes the append idempotent. */
  id?: string;
}

export interface QueryItem {
  /** Matches an event that has one of the types. */
  types?: string[];
  /** And all of the tags. */
  tags?: string[];
}

/** Matches an event if any of its items matches. */
export interface Query {
  items: QueryItem[];
}

export type Condition =
  | { fail_if_events_match: Query; after?: number }
  | { last_is: Query & { position: number } };

/** A part of a commit, as `POST /v1/commit` takes it. docs/http.md lists all parts with their fields. */
export type Part = { [command in Command]?: { [field: string]: unknown } | unknown[] };

export type Command =
  | "append" | "upstream" | "trim_events" | "forget_tag" | "retain_events"
  | "put_subscription" | "drop_subscription" | "save_projection" | "drop_projection"
  | "produce" | "create_topic" | "alter_topic" | "delete_topic" | "delete_records"
  | "commit_offset" | "delete_offset" | "delete_group" | "protect_unread"
  | "enqueue" | "fetch" | "ack" | "fail" | "snooze" | "heartbeat" | "change"
  | "set_queue" | "clear" | "destroy" | "bulk" | "each" | "tick"
  | "put_block" | "delete_block" | "put_edge" | "delete_edge" | "delete_edges" | "retain_graph" | "trim_graph";

/** The replies of a commit, one for each part, in order, under the name of the reply. */
export interface Committed {
  /** The number of the commit in the log. */
  position: number;
  time_ms: number;
  replies: Reply[];
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

export interface JobOptions {
  kind?: string;
  /** 0 to 255; the greater goes first. */
  priority?: number | "critical" | "high" | "normal" | "low";
  run_at_ms?: number;
  delay_ms?: number;
  expires_at_ms?: number;
  expires_in_ms?: number;
  timeout_ms?: number;
  attempts_max?: number;
  backoff?: "none" | "fixed" | "linear" | "exponential";
  backoff_base_ms?: number;
  backoff_max_ms?: number;
  backoff_list_ms?: number[];
  jitter_percent?: number;
  group?: string;
  retention_ms?: number;
  tags?: string[];
  unique?: {
    key: string;
    scope?: "queue" | "everywhere";
    hold?: "until_finished" | "until_started";
    hold_ms?: number;
    clash?: "keep" | "reject" | "replace" | "extend";
  };
}

/** Enqueues a job. */
export function enqueue(queue: string, payload?: Value, options: JobOptions = {}): Part {
  return { enqueue: { queue, ...valueField("payload", payload), ...options } };
}

export interface MessageOptions {
  key?: string;
  headers?: { key: string; value?: string }[];
  partition?: number;
  timestamp_ms?: number;
}

/** Produces a message. Without a value it is a tombstone. */
export function produce(topic: string, value?: Value, options: MessageOptions = {}): Part {
  return { produce: { topic, ...valueField("value", value), ...options } };
}

export interface BlockOptions {
  source?: string;
  tags?: string[];
  metadata?: Json;
  content?: Value;
  /** The version that the block must have; 0: it must not exist. */
  expect_version?: number;
}

/** Puts a block of a graph. */
export function putBlock(graph: string, block: string, kind: string, options: BlockOptions = {}): Part {
  const { content, ...fields } = options;
  return { put_block: { graph, block, kind, ...fields, ...valueField("content", content) } };
}

/** Puts an edge between two blocks. */
export function putEdge(graph: string, source: string, type: string, target: string, properties?: Json): Part {
  return { put_edge: { graph, source, type, target, ...valueField("properties", properties) } };
}
