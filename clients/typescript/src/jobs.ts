import { enqueue, type Enqueued, type JobOptions, type Part } from "./commit.js";
import { QuireError } from "./error.js";
import { valueField, type Json, type Value } from "./json.js";
import type { Quire } from "./quire.js";
import { backoffMs, isAborted, path, sleep, type Transport } from "./transport.js";

/** A job that this worker holds. */
export interface Job {
  job: string;
  token: string;
  queue: string;
  kind: string;
  attempt: number;
  attempts_max: number;
  priority: number;
  deadline_ms: number;
  /** JSON, or a string for another text. */
  payload: Json;
  /** What an earlier attempt saved with `context.save`. */
  checkpoint?: Json;
}

/** What a handler may do while it works. */
export interface JobContext {
  /** Aborts when the lease is lost: the job was cancelled, or another worker has it. */
  signal: AbortSignal;
  /** Shows progress to people. */
  progress(progress: Value): Promise<void>;
  /** Saves a checkpoint, which the next attempt gets. */
  save(checkpoint: Value): Promise<void>;
}

/** How a handler ends a job. A value that it returns instead is the result of an acknowledged job. */
export class Outcome {
  private constructor(
    /** The parts of the commit that ends the job. */
    readonly parts: (job: Job) => Part[],
  ) {}

  /** Acknowledges the job in one commit with these parts: all of it happens, once, or none. */
  static commit(parts: Part[], result?: Value): Outcome {
    return new Outcome(({ job, token }) => [{ ack: { job, token, ...valueField("result", result) } }, ...parts]);
  }

  /** Ends the attempt as failed. Without options, the job waits for its backoff. */
  static fail(error: string, options: { retry?: "backoff" | "never"; retry_delay_ms?: number } = {}): Outcome {
    return new Outcome(({ job, token }) => [{ fail: { job, token, error, ...options } }]);
  }

  /** Gives the job back for later. The attempt does not count. */
  static snooze(delayMs: number): Outcome {
    return new Outcome(({ job, token }) => [{ snooze: { job, token, delay_ms: delayMs } }]);
  }
}

export interface WorkOptions {
  /** The name of the worker, which is shown with its jobs. */
  worker?: string;
  /** The most jobs at a time; 1 by default. */
  concurrency?: number;
  /** The duration of a lease; 30 s by default. The worker extends it every third of that. */
  leaseMs?: number;
  /** Stops the worker: it fetches no more, finishes its jobs, and `work` returns. */
  signal?: AbortSignal;
  /** Called when a job could not be reported, or a fetch failed; prints to the console by default. */
  onError?: (error: unknown, job?: Job) => void;
}

/** How long a fetch waits for a job. */
const FETCH_WAIT_MS = 20_000;

/** A queue of jobs. */
export class Queue {
  constructor(
    readonly name: string,
    private readonly quire: Quire,
    private readonly transport: Transport,
  ) {}

  /** Enqueues a job. */
  async enqueue(payload?: Value, options: JobOptions = {}): Promise<Enqueued> {
    const { replies } = await this.quire.commit([enqueue(this.name, payload, options)]);
    return replies[0]?.enqueued as Enqueued;
  }

  /** Leases jobs that may run, and waits for one if requested. */
  async fetch(options: { count?: number; leaseMs?: number; worker?: string; waitMs?: number; signal?: AbortSignal } = {}): Promise<Job[]> {
    const { count = 1, leaseMs = 30_000, worker = "", waitMs = 0, signal } = options;
    const { jobs } = await this.transport.call<{ jobs: Job[] }>("POST", path`/v1/queues/${this.name}/fetch`, {
      query: { as: "json" },
      body: { count, lease_ms: leaseMs, worker, wait_ms: waitMs },
      key: crypto.randomUUID(),
      waitMs,
      signal,
    });
    return jobs;
  }

  /**
   * Works jobs until `signal` aborts. The value that the handler returns is the result of the job; an error ends the
   * attempt as failed. The worker extends the leases of running jobs.
   */
  async work(
    handler: (job: Job, context: JobContext) => Promise<Outcome | Value | undefined | void>,
    options: WorkOptions = {},
  ): Promise<void> {
    const { worker = "", concurrency = 1, leaseMs = 30_000, signal } = options;
    const onError = options.onError ?? ((error: unknown) => console.error(error));
    const running = new Set<Promise<void>>();
    for (let failures = 0; !isAborted(signal); ) {
      if (running.size >= concurrency) {
        await Promise.race(running);
        continue;
      }
      try {
        const waitMs = FETCH_WAIT_MS;
        const fetch = { count: concurrency - running.size, leaseMs, worker, waitMs, ...(signal ? { signal } : {}) };
        for (const job of await this.fetch(fetch)) {
          const work: Promise<void> = this.#run(job, handler, leaseMs)
            .catch((error: unknown) => onError(error, job))
            .finally(() => running.delete(work));
          running.add(work);
        }
        failures = 0;
      } catch (error) {
        if (isAborted(signal)) break;
        onError(error);
        failures += 1;
        await sleep(backoffMs(failures), signal).catch(() => undefined);
      }
    }
    await Promise.all(running);
  }

  async #run(
    job: Job,
    handler: (job: Job, context: JobContext) => Promise<Outcome | Value | undefined | void>,
    leaseMs: number,
  ): Promise<void> {
    const lost = new AbortController();
    const ended = new AbortController();
    const beat = async (fields: { [field: string]: unknown }, onceMs?: number): Promise<void> => {
      const body = { token: job.token, lease_ms: leaseMs, ...fields };
      const key = crypto.randomUUID();
      const call = { body, key, signal: ended.signal, onceMs };
      await this.transport.call("POST", path`/v1/jobs/${job.job}/heartbeat`, call).catch((error) => {
        if (error instanceof QuireError && !error.isTransient) lost.abort(error);
        throw error;
      });
    };
    const beating = (async () => {
      for (let wait = leaseMs / 3; !ended.signal.aborted && !lost.signal.aborted; ) {
        await sleep(wait, ended.signal);
        // A heartbeat without an answer is followed by the next one before the lease ends.
        const isAnswered = await beat({}, leaseMs / 4).then(() => true, () => false);
        wait = isAnswered ? leaseMs / 3 : leaseMs / 24;
      }
    })().catch(() => undefined);
    let outcome: Outcome;
    try {
      const returned = await handler(job, {
        signal: lost.signal,
        progress: (progress) => beat(valueField("progress", progress)),
        save: (checkpoint) => beat(valueField("checkpoint", checkpoint)),
      });
      outcome = returned instanceof Outcome ? returned : Outcome.commit([], returned === undefined ? undefined : (returned as Value));
    } catch (error) {
      outcome = Outcome.fail(error instanceof Error ? error.message : String(error));
    } finally {
      ended.abort();
      await beating;
    }
    if (!lost.signal.aborted) await this.quire.commit(outcome.parts(job));
  }
}
