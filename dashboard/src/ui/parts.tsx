import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { QuireError, isSignedIn, routeOf, type Loaded, type Read } from "../api.js";
import { href } from "../router.js";

/** The head of a page. The title takes the focus after a link, so a screen reader reads it. */
export function Head({ title, children, read }: { title: ComponentChildren; children?: ComponentChildren; read?: Read }) {
  return (
    <header class="head">
      <h1 tabIndex={-1}>{title}</h1>
      <div class="acts">
        {children}
        {read !== undefined && <Copy label="Copy as curl" text={() => curl(read)} />}
      </div>
    </header>
  );
}

/** A text as one word of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A command that makes the same read. It never has the key itself. */
export function curl(read: Read): string {
  const key = isSignedIn() ? ` -H "Authorization: Bearer $QUIRE_KEY"` : "";
  return `curl -s${key} ${quoted(window.location.origin + routeOf(read))}`;
}

export function Copy({ label, text }: { label: string; text: () => string }) {
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setDone(true);
      setTimeout(() => setDone(false), 1_500);
    } catch {
      window.prompt("Copy this text:", text());
    }
  };
  return <button type="button" class="quiet" onClick={copy}>{isDone ? "Copied" : label}</button>;
}

/** An error with what it says to people. */
export function Problem({ error, retry }: { error: Error; retry?: () => void }) {
  const code = error instanceof QuireError ? error.code : "no answer";
  const text = error instanceof QuireError ? error.message : "The server does not answer. Is it running?";
  return (
    <div class="problem" role="alert">
      <p><code>{code}</code> {text}</p>
      {error instanceof QuireError && error.code === "not_leader" && <Leader problem={error.problem} />}
      {retry !== undefined && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

/** Links to this page on the leader, and to the page that each node of a cluster can show. */
function Leader({ problem }: { problem: QuireError["problem"] }) {
  const { leader, leader_http: address } = problem;
  return (
    <p>
      {typeof address === "string" && <><a href={`${window.location.protocol}//${address}${window.location.pathname}${window.location.search}`} rel="noreferrer">Open this page on node {String(leader)}</a>, or </>}
      <a href={href("cluster")}>look at the cluster</a>.
    </p>
  );
}

/** Shows data once it is there, and what failed. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error !== undefined && <Problem error={of.error} retry={of.reload} />}
      {of.data === undefined ? of.error === undefined && <p class="faint" aria-busy="true">Reading …</p> : children(of.data)}
    </>
  );
}

/** A command that the reader copies. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <pre tabIndex={0}>{text}</pre>
      <Copy label="Copy" text={() => text} />
    </div>
  );
}

/** What to do where nothing is yet. */
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && <Command text={command} />}
    </div>
  );
}

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={`badge badge-${kind}`}>{children}</span>;
}

/** A list of facts. Absent ones are left out. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  const there = of.filter(([, fact]) => fact !== undefined && fact !== null && fact !== "" && fact !== false);
  return (
    <dl class="facts">
      {there.map(([name, fact]) => <div key={name}><dt>{name}</dt><dd>{fact}</dd></div>)}
    </dl>
  );
}

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  isNumber?: boolean;
}

/** How many rows a table shows at first, and more with each press of its button. */
const ROWS_SHOWN = 200;

/**
 * A table whose rows open with a link in their first cell; `j` and `k` move between these links. On a narrow page, each row
 * is a card. `role` keeps the table a table for a screen reader then.
 */
export function Table<T>({ caption, rows, columns, keyOf }: { caption: string; rows: readonly T[]; columns: readonly Column<T>[]; keyOf: (row: T) => string }) {
  const [most, setMost] = useState(ROWS_SHOWN);
  if (rows.length === 0) return <p class="faint">None.</p>;
  return (
    <>
      <div class="table" tabIndex={0} role="region" aria-label={caption}>
        <table class="cards" role="table">
          <thead role="rowgroup">
            <tr role="row">{columns.map(({ title, isNumber }) => <th key={title} scope="col" role="columnheader" class={isNumber ? "number" : ""}>{title}</th>)}</tr>
          </thead>
          <tbody role="rowgroup">
            {rows.slice(0, most).map((row) => (
              <tr key={keyOf(row)} role="row">
                {columns.map(({ title, cell, isNumber }) => <td key={title} role="cell" data-title={title} class={isNumber ? "number" : ""}>{cell(row)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > most && (
        <p class="more">
          <span class="faint">{most.toLocaleString("en-US")} of {rows.length.toLocaleString("en-US")} rows</span>{" "}
          <button type="button" onClick={() => setMost(most + ROWS_SHOWN)}>Show more</button>
        </p>
      )}
    </>
  );
}

/** Asks before an act, and names what it does. */
export function Act({ label, title, children, confirm, isDangerous, act, done }: {
  label: string;
  title: string;
  children: ComponentChildren;
  confirm: string;
  isDangerous?: boolean;
  act: () => Promise<unknown>;
  done: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<Error>();
  const [isRunning, setRunning] = useState(false);
  const run = async (): Promise<void> => {
    setRunning(true);
    setError(undefined);
    try {
      await act();
      dialog.current?.close();
      done();
    } catch (error) {
      setError(error as Error);
    } finally {
      setRunning(false);
    }
  };
  const open = (): void => {
    setError(undefined);
    dialog.current?.showModal();
  };
  return (
    <>
      <button type="button" class={isDangerous ? "danger" : ""} onClick={open}>{label}</button>
      <dialog ref={dialog} aria-label={title}>
        <h2>{title}</h2>
        <div class="prose">{children}</div>
        {error !== undefined && <Problem error={error} />}
        <div class="acts">
          <button type="button" onClick={() => dialog.current?.close()}>Keep as it is</button>
          <button type="button" class={isDangerous ? "danger solid" : "solid"} disabled={isRunning} onClick={run}>{confirm}</button>
        </div>
      </dialog>
    </>
  );
}

/** A text field that reports its text once the user pauses or leaves it. */
export function Filter({ label, value, placeholder, onChange }: { label: string; value: string; placeholder?: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => setText(value), [value]);
  const report = (text: string): void => {
    clearTimeout(timer.current);
    if (text !== value) onChange(text);
  };
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="search"
        value={text}
        placeholder={placeholder}
        spellcheck={false}
        onInput={(event) => {
          const text = event.currentTarget.value;
          setText(text);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => report(text), 400);
        }}
        onBlur={() => report(text)}
        onKeyDown={(event) => event.key === "Enter" && report(text)}
      />
    </label>
  );
}

export function Select({ label, value, options, onChange }: { label: string; value: string; options: readonly (readonly [string, string])[]; onChange: (value: string) => void }) {
  return (
    <label class="filter">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </label>
  );
}

export function More({ more }: { more: (() => void) | undefined }) {
  return more === undefined ? null : <p class="more"><button type="button" onClick={more}>Show more</button></p>;
}
