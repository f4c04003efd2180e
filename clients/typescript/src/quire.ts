import type { Committed, Part } from "./commit.js";
import { Store } from "./events.js";
import { Graph } from "./graphs.js";
import { Queue } from "./jobs.js";
import { sql, type SqlOptions, type SqlParameters, type SqlResult } from "./sql.js";
import { Topic } from "./topics.js";
import { Transport, type Options, type QueryValue } from "./transport.js";

/** A Quire server. */
export class Quire {
  readonly #transport: Transport;

  /** A client of the server at this URL, for example `http://127.0.0.1:7070`. It does not connect yet. */
  constructor(url: string, options: Options = {}) {
    this.#transport = new Transport(url, options);
  }

  /**
   * Commits parts of any models: all of them, or none. Throws `QuireError` when a part is refused.
   *
   * Sends an idempotency key, and repeats the request when the answer is lost, so the commit happens once. Give a `key`
   * of your own to repeat it after a restart of your program.
   */
  commit(parts: Part[], options: { key?: string; signal?: AbortSignal } = {}): Promise<Committed> {
    const key = options.key ?? crypto.randomUUID();
    return this.#transport.call("POST", "/v1/commit", { body: { parts }, key, signal: options.signal });
  }

  /**
   * Reads a route that has no method here: `quire.get("/v1/queues")`. Encode the names in the path with `path`. A request
   * that waits for data by itself needs its time as `waitMs`.
   */
  get<T>(route: string, query: Record<string, QueryValue> = {}, options: { waitMs?: number; signal?: AbortSignal } = {}): Promise<T> {
    return this.#transport.call("GET", route, { query, isRead: true, ...options });
  }

  /** Writes on a route that has no method here, once. Prefer `commit`, which can be repeated safely. */
  send<T>(method: "POST" | "DELETE", route: string, body?: unknown): Promise<T> {
    return this.#transport.call(method, route, { body });
  }

  /**
   * Runs a read-only SQL statement over events, messages, jobs and graphs. `docs/sql.md` has the tables.
   *
   * The parameters are the values of `?1`, `?2` and so on, or those of `:name` by name.
   */
  sql(statement: string, parameters: SqlParameters = [], options: SqlOptions = {}): Promise<SqlResult> {
    return sql(this.#transport, statement, parameters, options);
  }

  store(name: string): Store {
    return new Store(name, this, this.#transport);
  }

  queue(name: string): Queue {
    return new Queue(name, this, this.#transport);
  }

  topic(name: string): Topic {
    return new Topic(name, this, this.#transport);
  }

  graph(name: string): Graph {
    return new Graph(name, this, this.#transport);
  }
}
