import { produce, type MessageOptions, type Produced } from "./commit.js";
import type { Json, Value } from "./json.js";
import type { Quire } from "./quire.js";
import { isAborted, path, type Transport } from "./transport.js";

/** A record of a topic. */
export interface TopicRecord {
  offset: number;
  timestamp_ms: number;
  key: string | null;
  /** JSON, or a string for another text; `null` for a tombstone. */
  value: Json;
  headers: { key: string; value?: Json }[];
}

/** How long a request waits for new records. */
const WAIT_MS = 20_000;

/** A topic. */
export class Topic {
  constructor(
    readonly name: string,
    private readonly quire: Quire,
    private readonly transport: Transport,
  ) {}

  /** Produces a message. */
  async produce(value?: Value, options: MessageOptions = {}): Promise<Produced> {
    const { replies } = await this.quire.commit([produce(this.name, value, options)]);
    return replies[0]?.produced as Produced;
  }

  /** The records of a partition from an offset on, up to its end; with `follow`, then new ones until `signal` aborts. */
  async *records(
    partition: number,
    options: { offset?: number; follow?: boolean; signal?: AbortSignal } = {},
  ): AsyncGenerator<TopicRecord, void, void> {
    const { signal, follow = false } = options;
    let offset = options.offset ?? 0;
    let written = 0;
    try {
      for (;;) {
        if (follow) written = await this.#written({}, signal);
        for (;;) {
          const page = await this.transport.call<{ data: TopicRecord[]; next_offset: number; has_more: boolean }>(
            "GET", path`/v1/topics/${this.name}/partitions/${partition}/records`,
            { query: { as: "json", offset }, isRead: true, signal },
          );
          yield* page.data;
          offset = page.next_offset;
          if (!page.has_more) break;
        }
        if (!follow) return;
        await this.#written({ written, wait_ms: WAIT_MS }, signal);
      }
    } catch (error) {
      if (!isAborted(signal)) throw error;
    }
  }

  /** The offset that a group committed in a partition: that of the next record to read, or 0. */
  async committed(group: string, partition: number): Promise<number> {
    const { offsets } = await this.transport.call<{ offsets: { partition: number; offset: number }[] }>(
      "GET", path`/v1/topics/${this.name}/groups/${group}`, { isRead: true },
    );
    return offsets.find((committed) => committed.partition === partition)?.offset ?? 0;
  }

  async #written(query: { written?: number; wait_ms?: number }, signal?: AbortSignal): Promise<number> {
    const topic = await this.transport.call<{ written: number }>("GET", path`/v1/topics/${this.name}`, {
      query, isRead: true, signal, waitMs: query.wait_ms,
    });
    return topic.written;
  }
}
