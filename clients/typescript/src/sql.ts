import { base64 } from "./json.js";
import type { Transport } from "./transport.js";

/** A value of a statement or a result. Bytes that are no text are a `Uint8Array`. */
export type SqlValue = null | number | string | Uint8Array;

/** The result of a statement. */
export interface SqlResult {
  columns: string[];
  /** A value for each column. */
  rows: SqlValue[][];
  /** The position as of which the log was read. */
  as_of: number;
  /** The number of rows that scans of tables read. */
  scanned: number;
}

export interface SqlOptions {
  /** The position as of which the log is read. */
  asOf?: number;
  signal?: AbortSignal;
}

/** Values of `?1`, `?2` and so on, or by name. */
export type SqlParameters = readonly (SqlValue | boolean)[] | { readonly [name: string]: SqlValue | boolean };

/** Runs a statement once: it is a read, and may be long. */
export async function sql(
  transport: Transport,
  text: string,
  parameters: SqlParameters,
  options: SqlOptions,
): Promise<SqlResult> {
  const given = Array.isArray(parameters)
    ? { params: parameters.map(sent) }
    : { named: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, sent(value)])) };
  const body = { sql: text, ...given, ...(options.asOf === undefined ? {} : { as_of: options.asOf }) };
  const call = { body, isRead: true, waitMs: STATEMENT_MS, signal: options.signal };
  const result = await transport.call<Omit<SqlResult, "rows"> & { rows: SentValue[][] }>("POST", "/v1/sql", call);
  return { ...result, rows: result.rows.map((row) => row.map(received)) };
}

/** The longest time of a statement. */
const STATEMENT_MS = 60_000;

type SentValue = null | boolean | number | string | { base64: string };

function sent(value: SqlValue | boolean): SentValue {
  return value instanceof Uint8Array ? { base64: base64(value) } : value;
}

function received(value: SentValue): SqlValue {
  if (typeof value === "boolean") return Number(value);
  if (value === null || typeof value !== "object") return value;
  return Uint8Array.from(atob(value.base64), (letter) => letter.charCodeAt(0));
}
