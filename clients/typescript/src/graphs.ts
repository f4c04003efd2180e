import { putBlock, putEdge, type BlockOptions, type BlockPut } from "./commit.js";
import { QuireError } from "./error.js";
import type { Json } from "./json.js";
import type { Quire } from "./quire.js";
import { path, type QueryValue, type Transport } from "./transport.js";

/** A block of a graph. */
export interface Block {
  id: string;
  name: string | null;
  version: number;
  kind: string;
  source: string;
  tags: string[];
  time_ms: number;
  metadata: Json;
  /** JSON, or a string for another text. */
  content: Json;
}

/** A neighbour of a block. */
export interface Neighbour {
  id: string;
  name: string | null;
  type: string;
  direction: string;
  [fact: string]: Json;
}

/** A block that a walk or a path visits. */
export interface Visit {
  id: string;
  name: string | null;
  depth: number;
  from: string | null;
  type: string | null;
  end: "source" | "target" | null;
}

export interface EdgeOptions {
  direction?: "outgoing" | "incoming" | "both";
  /** The types of the edges; all by default. */
  type?: string[];
  /** The position to read at; the last by default. */
  at?: number;
}

/** A graph. */
export class Graph {
  constructor(
    readonly name: string,
    private readonly quire: Quire,
    private readonly transport: Transport,
  ) {}

  /** Puts a block. */
  async put(block: string, kind: string, options: BlockOptions = {}): Promise<BlockPut> {
    const { replies } = await this.quire.commit([putBlock(this.name, block, kind, options)]);
    return replies[0]?.block_put as BlockPut;
  }

  /** Puts an edge between two blocks. */
  async link(source: string, type: string, target: string, properties?: Json): Promise<{ created: boolean }> {
    const { replies } = await this.quire.commit([putEdge(this.name, source, type, target, properties)]);
    return replies[0]?.edge_put as { created: boolean };
  }

  /** The block of this name; `undefined` when there is none. */
  async get(block: string, options: { at?: number } = {}): Promise<Block | undefined> {
    try {
      return await this.#read<Block>(path`/v1/graphs/${this.name}/blocks/${block}`, { as: "json", ...options });
    } catch (error) {
      if (error instanceof QuireError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** The neighbours of a block. */
  async *neighbours(block: string, options: EdgeOptions = {}): AsyncGenerator<Neighbour, void, void> {
    let cursor: string | undefined;
    do {
      const page = await this.#read<{ data: Neighbour[]; next_cursor: string | null }>(
        path`/v1/graphs/${this.name}/blocks/${block}/neighbours`, { ...options, cursor },
      );
      yield* page.data;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Walks from a block. `bound` names the limit that stopped the walk. */
  walk(start: string, options: EdgeOptions & { depth?: number; limit?: number } = {}): Promise<{ visits: Visit[]; bound: string | null; position: number }> {
    return this.#read(path`/v1/graphs/${this.name}/walk`, { start, ...options });
  }

  /** A shortest path between two blocks, or with `all` the `limit` shortest ones. */
  async paths(from: string, to: string, options: EdgeOptions & { all?: boolean; depth?: number; limit?: number } = {}): Promise<Visit[][]> {
    const { paths } = await this.#read<{ paths: Visit[][] }>(path`/v1/graphs/${this.name}/paths`, { from, to, ...options });
    return paths;
  }

  #read<T>(at: string, query: Record<string, QueryValue>): Promise<T> {
    return this.transport.call("GET", at, { query, isRead: true });
  }
}
