import { append, type Appended, type Condition, type NewEvent, type Part, type Query, type QueryItem } from "./commit.js";
import { ConnectionError, QuireError } from "./error.js";
import type { Json } from "./json.js";
import type { Quire } from "./quire.js";
import { serverSentEvents } from "./sse.js";
import { backoffMs, isAborted, path, sleep, type Transport } from "./transport.js";

/** An event of a store. */
export interface StoredEvent {
  position: number;
  id: string;
  type: string;
  tags: (string | { base64: string })[];
  time_ms: number;
  /** JSON, or a string for another text. */
  data: Json;
  metadata: Json;
}

export interface ReadOptions {
  query?: Query | QueryItem;
  after?: number;
  backwards?: boolean;
  /** The size of a page; 100 by default. */
  limit?: number;
  signal?: AbortSignal;
}

/** A fold of the matching events, computed by the server. */
export interface Projection {
  query: Query;
  fold: "count" | "exists" | "last" | { sum: string };
}

/** What `decide` appends: events, or events with further parts of the same commit. */
export type Decision = NewEvent[] | { events: NewEvent[]; parts: Part[] };

export interface SubscribeOptions {
  query?: Query | QueryItem;
  /** The position after which to begin; 0 by default. */
  after?: number;
  signal?: AbortSignal;
  /** Called once, when all events were delivered that existed at the beginning. */
  onCaughtUp?: () => void;
}

/** How often `decide` decides again after another client was first. */
const DECISIONS_MAX = 16;

/** The server sends a comment every 15 s. A connection without any for this time is dead. */
const SILENCE_MAX_MS = 45_000;

/** An event store. */
export class Store {
  constructor(
    readonly name: string,
    private readonly quire: Quire,
    private readonly transport: Transport,
  ) {}

  /** Appends events if every condition holds; throws `QuireError` with the code `condition_failed` otherwise. */
  async append(events: NewEvent[], conditions: Condition[] = []): Promise<Appended> {
    const { replies } = await this.quire.commit([append(this.name, events, conditions)]);
    return replies[0]?.appended as Appended;
  }

  /** The position of the last event. */
  async head(): Promise<number> {
    const { head } = await this.transport.call<{ head: number }>("GET", path`/v1/events/${this.name}/head`, { isRead: true });
    return head;
  }

  /** The matching events, page by page. */
  async *read(options: ReadOptions = {}): AsyncGenerator<StoredEvent, void, void> {
    const { query, signal, ...fields } = options;
    const body: { [field: string]: unknown } = { query: whole(query), ...fields };
    for (;;) {
      const page = await this.transport.call<{ data: StoredEvent[]; next_cursor: number | null }>(
        "POST", path`/v1/events/${this.name}/read`, { query: { as: "json" }, body, isRead: true, signal },
      );
      yield* page.data;
      if (page.next_cursor === null) return;
      body["cursor"] = page.next_cursor;
      delete body["after"];
    }
  }

  /**
   * Decides on the state of projections, and appends the result under the condition that the state still holds. When
   * another client was first, reads and decides again. Returns the appended positions.
   */
  async decide<Name extends string>(
    projections: Record<Name, Projection>,
    decide: (states: Record<Name, Json>) => Decision | Promise<Decision>,
  ): Promise<Appended> {
    for (let attempt = 1; ; attempt += 1) {
      const { states, condition } = await this.transport.call<{ states: Record<Name, Json>; condition: Condition }>(
        "POST", path`/v1/events/${this.name}/project`, { body: { projections }, isRead: true },
      );
      const decision = await decide(states);
      const { events, parts } = Array.isArray(decision) ? { events: decision, parts: [] } : decision;
      if (events.length === 0 && parts.length === 0) return { first: null, last: null, duplicate: false };
      try {
        const { replies } = await this.quire.commit([append(this.name, events, [condition]), ...parts]);
        return replies[0]?.appended as Appended;
      } catch (error) {
        const isLate = error instanceof QuireError && error.code === "condition_failed" && error.problem["part"] === 0;
        if (!isLate || attempt >= DECISIONS_MAX) throw error;
      }
    }
  }

  /**
   * The matching events, and then new ones as they are appended, until `signal` aborts or the loop ends. Connects again
   * after a break, and resumes after the last event: none is lost or repeated.
   */
  async *subscribe(options: SubscribeOptions = {}): AsyncGenerator<StoredEvent, void, void> {
    let after = options.after ?? 0;
    let onCaughtUp = options.onCaughtUp;
    for (let failures = 0; !isAborted(options.signal); ) {
      const connection = new AbortController();
      const signal = options.signal ? AbortSignal.any([options.signal, connection.signal]) : connection.signal;
      try {
        const query = { as: "json", after, query: JSON.stringify(whole(options.query)) };
        const response = await this.transport.send("GET", path`/v1/events/${this.name}/subscribe`, { query, signal, isRead: true }, true);
        for await (const { event, data } of serverSentEvents(response, SILENCE_MAX_MS)) {
          failures = 0;
          if (event === "event") {
            const stored = JSON.parse(data) as StoredEvent;
            after = stored.position;
            yield stored;
          } else if (event === "caught_up") {
            after = Math.max(after, (JSON.parse(data) as { after: number }).after);
            onCaughtUp?.();
            onCaughtUp = undefined;
          } else if (event === "error") {
            throw new ConnectionError(data);
          }
        }
      } catch (error) {
        if (isAborted(options.signal)) return;
        if (error instanceof QuireError && !error.isTransient) throw error;
      } finally {
        connection.abort();
      }
      failures += 1;
      await sleep(backoffMs(failures), options.signal).catch(() => undefined);
    }
  }
}

function whole(query: Query | QueryItem | undefined): Query {
  if (query === undefined) return { items: [{}] };
  return "items" in query ? query : { items: [query] };
}
