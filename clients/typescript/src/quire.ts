import type { Committed, DryRun, Part, Schemas } from "./commit.js";
import { Store } from "./events.js";
import { Graph } from "./graphs.js";
import { Queue } from "./jobs.js";
import { sql, type SqlOptions, type SqlParameters, type SqlResult } from "./sql.js";
import { Topic } from "./topics.js";
import { Transport, type Options, type QueryValue } from "./transport.js";

/** A Quire server. */
export class Quire {
  #transport: Transport;

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
   * Decides a commit as `commit` does, and commits nothing. The answer is the one that the commit would get, with the
   * entries that it would append. Throws `QuireError` when a part is refused. Another commit may come first.
   */
  dryRun(parts: Part[], options: { key?: string; signal?: AbortSignal } = {}): Promise<DryRun> {
    // Nothing is stored under the key. With it, the request is repeated when the answer is lost.
    const key = options.key ?? crypto.randomUUID();
    const query = { dry_run: true };
    return this.#transport.call("POST", "/v1/commit", { query, body: { parts }, key, signal: options.signal });
  }

  /** The last refused commits of the server, the newest first: at most 200, with their reasons. */
  async refusals(): Promise<Schemas["RefusedCommitReply"][]> {
    return (await this.get<{ data: Schemas["RefusedCommitReply"][] }>("/v1/refusals")).data;
  }

  /** Figures of the last hour, one sample every 10 seconds: those after a time in milliseconds since 1970, or all. */
  history(after?: number): Promise<Schemas["HistoryReply"]> {
    return this.get("/v1/history", { after });
  }

  /**
   * A client whose reads this server answers from its own records, whichever node of the cluster leads. The last commits
   * may be missing. With `at`, the position of a commit, a read shows that commit and all earlier ones: the server waits
   * for it up to 2 s, and then refuses the read with `ahead_of_log`. Commits need the leader as before. The server refuses
   * such a read of a subscription.
   */
  local(at?: number): Quire {
    const local = new Quire(this.#transport.url);
    local.#transport = this.#transport.reading(at === undefined ? "local" : `at=${at}`);
    return local;
  }

  /**
   * The greatest position up to which an answer to a read of a `local` client has shown every commit. Pass it to `local`,
   * and later reads of any node show no older state.
   */
  get shownPosition(): number {
    return this.#transport.shownPosition;
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
