import type { Json } from "./json.js";

/** A refusal or an error of the server. `code` is stable; docs/errors.md lists all codes with what to do. */
export class QuireError extends Error {
  override readonly name = "QuireError";

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The code, for example `condition_failed`. */
    readonly code: string,
    message: string,
    /** The whole problem (RFC 9457), with the facts of the code. */
    readonly problem: { [name: string]: Json },
    /** How long to wait before a retry, when the server says so. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }

  /** The id of the request, as in the log of the server. */
  get requestId(): string | undefined {
    const id = this.problem["request_id"];
    return typeof id === "string" ? id : undefined;
  }

  /** Whether the same request may succeed later, without a change. */
  get isTransient(): boolean {
    return this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

/** The server gave no whole answer. With an idempotency key, the request can be sent again safely. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}
