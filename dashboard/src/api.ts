import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ConnectionError, Quire, QuireError, type QueryValue, type Schemas, type SqlResult } from "../../clients/typescript/src/index.js";

export { ConnectionError, Quire, QuireError, path, type Json, type Schemas, type SqlResult, type SqlValue } from "../../clients/typescript/src/index.js";

/** The key of the user, for this tab only: where the browser takes no cookie, because there is no TLS. */
const KEY = "quire-api-key";

/** Signs in, out, and says who is signed in. */
const SESSION = "/ui/session";

/** Who is signed in; `null` without a session. */
export const principal = signal<string | null>(null);

/** The OpenID provider at which a person can sign in, if there is one. */
export const provider = signal<string | undefined>(undefined);

/** Begins a sign-in at the provider. */
export const LOGIN = "/ui/login";

const quire = signal(clientWith(sessionStorage.getItem(KEY)));

/** Whether the server refused the key, or needs one. */
export const needsKey = signal(false);

/** Whether the page knows if the server needs a key. Until then, the pages read nothing. */
export const isReady = signal(sessionStorage.getItem(KEY) !== null);

/** Whether the last request had no answer. */
export const isOffline = signal(false);

function clientWith(apiKey: string | null): Quire {
  const origin = window.location.origin;
  return new Quire(origin, apiKey === null ? { attempts: 1 } : { attempts: 1, apiKey });
}

export function isSignedIn(): boolean {
  return principal.value !== null || sessionStorage.getItem(KEY) !== null;
}

async function session(init?: RequestInit): Promise<Response> {
  const answer = await fetch(SESSION, { headers: { "content-type": "application/json" }, ...init });
  if (answer.ok) {
    const signedIn = (await answer.json()) as { principal: string | null; provider?: string };
    principal.value = signedIn.principal;
    provider.value = signedIn.provider;
  }
  return answer;
}

/**
 * Reads who is signed in, and whether the server needs a key, so that the pages send no request without a credential that the
 * server needs. If the server does not answer, the pages show that.
 */
export async function findSession(): Promise<void> {
  try {
    const [, health] = await Promise.all([session(), fetch("/healthz")]);
    // A client without rights gets the status only.
    const isBrief = health.ok && ((await health.json()) as Schemas["Health"]).version === undefined;
    if (isBrief && !isSignedIn()) needsKey.value = true;
  } catch {
    // The pages ask the server again.
  } finally {
    isReady.value = true;
  }
}

/** Signs in with a key; returns why not, if so. Throws `TypeError` when the text can not be a key. */
export async function signIn(key: string): Promise<string | undefined> {
  clientWith(key);
  const answer = await session({ method: "POST", body: JSON.stringify({ key }) });
  if (answer.status === 401) return "The server refused this key. It may be disabled or expired.";
  if (!answer.ok) return ((await answer.json()) as { detail: string }).detail;
  // Whether the browser has taken the cookie.
  await session();
  if (principal.value === null) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
  quire.value = clientWith(sessionStorage.getItem(KEY));
  needsKey.value = false;
  return undefined;
}

/** Signs out. */
export async function signOut(): Promise<void> {
  sessionStorage.removeItem(KEY);
  await session({ method: "DELETE" });
  principal.value = null;
  quire.value = clientWith(null);
  needsKey.value = true;
}

/** Runs a request, and notes what its failure says of the connection. */
export async function ask<T>(request: (quire: Quire) => Promise<T>): Promise<T> {
  try {
    const answer = await request(quire.value);
    isOffline.value = false;
    return answer;
  } catch (error) {
    if (error instanceof ConnectionError) isOffline.value = true;
    if (error instanceof QuireError) {
      isOffline.value = false;
      if (error.status === 401) needsKey.value = true;
    }
    throw error;
  }
}

export interface Page<T> {
  data: T[];
  next_cursor: string | number | null;
  has_more: boolean;
}

/** A read of the API. */
export interface Read {
  route: string;
  query?: Record<string, QueryValue>;
}

/** The route of a read with its query, as in `curl`. */
export function routeOf({ route, query = {} }: Read): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const values = Array.isArray(value) ? (value as readonly (string | number)[]) : [value as string | number | undefined];
    for (const one of values) if (one !== undefined) pairs.append(name, String(one));
  }
  const text = pairs.toString();
  return text === "" ? route : `${route}?${text}`;
}

export function read<T>({ route, query }: Read, signal?: AbortSignal): Promise<T> {
  return ask((quire) => quire.get<T>(route, query, signal ? { signal } : {}));
}

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  reload: () => void;
}

/** Reads now, when the read changes, and every `everyMs` while the page is visible. The last data stays on a failure. */
export function useRead<T>(request: Read | undefined, everyMs?: number): Loaded<T> {
  return useAnswer<T>(request === undefined ? "" : routeOf(request), (signal) => read<T>(request as Read, signal), everyMs);
}

/** The result of a statement, like `useRead`. */
export function useSql(statement: string, everyMs?: number): Loaded<SqlResult> {
  return useAnswer(statement, (signal) => ask((quire) => quire.sql(statement, [], { signal })), everyMs);
}

/** The answer to `question`, whose name is `of`. The empty name has no answer. */
function useAnswer<T>(of: string, question: (signal: AbortSignal) => Promise<T>, everyMs?: number): Loaded<T> {
  const [state, setState] = useState<{ of: string; data: T | undefined; error: Error | undefined }>();
  const [turn, setTurn] = useState(0);
  const latest = useRef(question);
  latest.current = question;
  // A new key reads again.
  const client = quire.value;
  useEffect(() => {
    if (of === "") return;
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async (): Promise<void> => {
      if (!document.hidden) {
        try {
          const data = await latest.current(ended.signal);
          if (!ended.signal.aborted) setState({ of, data, error: undefined });
        } catch (error) {
          if (ended.signal.aborted) return;
          setState((before) => ({ of, data: before?.of === of ? before.data : undefined, error: error as Error }));
          // The same read would cost the server the same again.
          if (error instanceof QuireError && error.code === "too_costly") return;
        }
      }
      if (everyMs !== undefined && !ended.signal.aborted) timer = setTimeout(load, everyMs);
    };
    void load();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [of, turn, everyMs, client]);
  const current = state?.of === of ? state : undefined;
  return { data: current?.data, error: current?.error, reload: () => setTurn((turn) => turn + 1) };
}

export interface Pages<T> extends Loaded<T[]> {
  /** Reads the next page; absent on the last one. */
  more: (() => void) | undefined;
}

/** Reads a list page by page: the first one now, and when the read changes. */
export function usePages<T>(request: Read): Pages<T> {
  const first = useRead<Page<T>>(request);
  const [rest, setRest] = useState<{ of: Page<T>; data: T[]; next: string | number | null }>();
  const [failure, setFailure] = useState<Error>();
  const page = first.data;
  const further = rest !== undefined && rest.of === page ? rest : undefined;
  const next = further === undefined ? page?.next_cursor : further.next;
  const more = (): void => {
    if (page === undefined || next === null || next === undefined) return;
    // The cursor replaces the parameters that say where the first page begins.
    const { after: _after, before: _before, offset: _offset, ...query } = request.query ?? {};
    read<Page<T>>({ route: request.route, query: { ...query, cursor: next } }).then(
      (found) => setRest({ of: page, data: [...(further?.data ?? []), ...found.data], next: found.next_cursor }),
      (error: unknown) => setFailure(error as Error),
    );
  };
  return {
    data: page === undefined ? undefined : [...page.data, ...(further?.data ?? [])],
    error: first.error ?? failure,
    reload: () => {
      setFailure(undefined);
      first.reload();
    },
    more: next === null || next === undefined ? undefined : more,
  };
}
