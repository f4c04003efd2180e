import { ConnectionError, QuireError } from "./error.js";
import type { Json } from "./json.js";

export interface Options {
  /** Sends the requests; the global `fetch` by default. */
  fetch?: typeof fetch;
  /** An API key, sent with every request as a bearer token. Over a network, use a URL with `https`. */
  apiKey?: string;
  /** Headers of every request. */
  headers?: Record<string, string>;
  /** How often a request is sent at most, the first time included; 6 by default. */
  attempts?: number;
  /** The longest wait for the answer to a request that does not wait by itself; 30 s by default. */
  timeoutMs?: number;
}

export interface Call {
  query?: Record<string, QueryValue> | undefined;
  body?: unknown;
  /** An idempotency key: the server commits a request with the same key once. */
  key?: string | undefined;
  /** Whether the request changes nothing, so that it can be repeated without a key. */
  isRead?: boolean;
  signal?: AbortSignal | undefined;
  /** How long the server may wait before it answers. */
  waitMs?: number | undefined;
  /** Sends the request once, and waits this long for the answer, instead of the limits of the client. */
  onceMs?: number | undefined;
}

export type QueryValue = string | number | boolean | readonly (string | number)[] | undefined;

/** The first wait before a retry. Each further one is at most twice as long, up to `WAIT_MAX_MS`. */
const WAIT_FIRST_MS = 100;
const WAIT_MAX_MS = 5_000;

/** Sends requests to one server, and repeats those that can be repeated. */
export class Transport {
  readonly #base: string;
  readonly #fetch: typeof fetch;
  readonly #options: Options;
  /** The header `Quire-Read` of requests that read, if the server answers them from its own records. */
  readonly #read: string | undefined;
  /** The greatest position that an answer to such a request has shown. */
  shownPosition = 0;

  constructor(
    readonly url: string,
    options: Options,
    read?: string,
  ) {
    this.#read = read;
    this.#base = baseOf(url);
    if (options.apiKey !== undefined && !/^[!-~]+$/.test(options.apiKey)) {
      throw new TypeError("an API key must be of visible ASCII characters, without spaces");
    }
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#options = options;
  }

  /** A transport to the same server whose reads have this header `Quire-Read`. */
  reading(read: string): Transport {
    return new Transport(this.url, this.#options, read);
  }

  async call<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const isRepeatable = call.onceMs === undefined && (call.key !== undefined || call.isRead === true);
    const attempts = isRepeatable ? (this.#options.attempts ?? 6) : 1;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await this.send(method, path, call);
        return (await whole(response)) as T;
      } catch (error) {
        call.signal?.throwIfAborted();
        const isTransient = error instanceof ConnectionError || (error instanceof QuireError && error.isTransient);
        if (!isTransient || attempt >= attempts) throw error;
        const least = error instanceof QuireError ? (error.retryAfterMs ?? 0) : 0;
        await sleep(Math.max(least, backoffMs(attempt)), call.signal);
      }
    }
  }

  /** Sends a request once. The caller reads the body. */
  async send(method: string, path: string, call: Call, isStream = false): Promise<Response> {
    const headers: Record<string, string> = { ...this.#options.headers };
    if (this.#options.apiKey !== undefined) headers["authorization"] = `Bearer ${this.#options.apiKey}`;
    if (call.body !== undefined) headers["content-type"] = "application/json";
    if (call.key !== undefined) headers["idempotency-key"] = call.key;
    if (this.#read !== undefined && call.isRead === true) headers["quire-read"] = this.#read;
    const limits = call.signal ? [call.signal] : [];
    if (!isStream) limits.push(AbortSignal.timeout(call.onceMs ?? (this.#options.timeoutMs ?? 30_000) + (call.waitMs ?? 0)));
    // A server of Quire redirects no request, and a key must not reach another host.
    const init: RequestInit = { method, headers, signal: AbortSignal.any(limits), redirect: "error" };
    if (call.body !== undefined) init.body = JSON.stringify(call.body);
    const response = await this.#fetch(this.#base + path + queryOf(call.query), init).catch((error: unknown) => {
      call.signal?.throwIfAborted();
      throw new ConnectionError(`${method} ${this.#base}${path}: no answer`, { cause: error });
    });
    this.shownPosition = Math.max(this.shownPosition, Number(response.headers.get("quire-position") ?? 0));
    if (response.ok) return response;
    throw await problemOf(response);
  }
}

/** The start of every URL. The message of an error does not contain what may be a secret. */
function baseOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !["http:", "https:"].includes(parsed.protocol)) {
    throw new TypeError("the URL of a server must be http://HOST:PORT or https://HOST:PORT");
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new TypeError("the URL of a server has a user: give an API key as `apiKey`");
  }
  if (parsed.search !== "" || parsed.hash !== "") throw new TypeError("the URL of a server has a query");
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

async function whole(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch (error) {
    throw new ConnectionError(`${response.url}: the answer is incomplete`, { cause: error });
  }
}

async function problemOf(response: Response): Promise<Error> {
  const problem = (await response.json().catch(() => undefined)) as { [name: string]: Json } | undefined;
  if (problem === undefined || typeof problem["code"] !== "string") {
    return new QuireError(response.status, "unknown", `${response.url}: status ${response.status}, without a problem`, {});
  }
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  const after = problem["retry_after_ms"];
  const retryAfterMs = typeof after === "number" ? after : Number.isNaN(seconds) ? undefined : seconds * 1_000;
  return new QuireError(response.status, problem["code"], String(problem["detail"]), problem, retryAfterMs);
}

function queryOf(query: Record<string, QueryValue> | undefined): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? (value as readonly (string | number)[]) : [value]) {
      if (one !== undefined) pairs.append(name, String(one));
    }
  }
  const text = pairs.toString();
  return text === "" ? "" : `?${text}`;
}

/** Exponential backoff with full jitter, after this many attempts. */
export function backoffMs(attempts: number): number {
  return Math.random() * Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** attempts);
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Whether a signal has aborted. It may change at any `await`. */
export function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** A path with its segments encoded. */
export function path(strings: TemplateStringsArray, ...names: (string | number)[]): string {
  return strings.reduce((text, piece, index) => text + encodeURIComponent(names[index - 1] ?? "") + piece);
}
