import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type SqlResult, type SqlValue } from "../api.js";
import { href, place, setParams } from "../router.js";
import { Copy, Empty, Head, Problem } from "../ui/parts.js";
import { count } from "../ui/value.js";

/** Statements that a new user can run. */
const EXAMPLES: readonly (readonly [string, string])[] = [
  ["Jobs that died, and why", "SELECT kind, last_error, count(*) AS jobs\nFROM jobs WHERE state = 'dead'\nGROUP BY kind, last_error ORDER BY jobs DESC"],
  ["Groups that are behind", "SELECT consumer_group, source, sum(lag) AS behind\nFROM lag GROUP BY consumer_group, source\nHAVING behind > 0 ORDER BY behind DESC"],
  ["Largest commits of the last hour", "SELECT position, iso(time_ms) AS time, entries, bytes\nFROM commits WHERE time_ms >= ago_ms('1 hour')\nORDER BY bytes DESC LIMIT 20"],
  ["Most frequent tags", "SELECT store, tag, count(*) AS events\nFROM event_tags GROUP BY store, tag\nORDER BY events DESC LIMIT 20"],
  ["Blocks of each kind", "SELECT graph, kind, count(*) AS blocks\nFROM blocks GROUP BY graph, kind ORDER BY blocks DESC"],
];

/** Rows that the page shows; a copy has all. */
const ROWS_SHOWN = 500;

/** A statement over the live data, in the address, so that a link is a report. */
export function Query() {
  const statement = place.value.params.get("sql") ?? "";
  const asOf = place.value.params.get("as_of") ?? "";
  const [text, setText] = useState(statement);
  const [position, setPosition] = useState(asOf);
  const [state, setState] = useState<{ result?: SqlResult; error?: Error; isRunning: boolean }>({ isRunning: false });
  const running = useRef<AbortController>();

  const run = async (sql: string, at: string): Promise<void> => {
    running.current?.abort();
    const ended = new AbortController();
    running.current = ended;
    setState({ isRunning: true });
    try {
      const options = { signal: ended.signal, ...(at === "" ? {} : { asOf: Number(at) }) };
      const result = await ask((quire) => quire.sql(sql, [], options));
      if (!ended.signal.aborted) setState({ result, isRunning: false });
    } catch (error) {
      if (!ended.signal.aborted) setState({ error: error as Error, isRunning: false });
    }
  };

  useEffect(() => {
    setText(statement);
    setPosition(asOf);
    if (statement !== "") void run(statement, asOf);
    else setState({ isRunning: false });
    return () => running.current?.abort();
  }, [statement, asOf]);

  const submit = (sql: string): void => {
    const wanted = sql.trim();
    if (wanted === "") return;
    // The same statement again reads again.
    if (wanted === statement && position === asOf) void run(wanted, position);
    else setParams({ sql: wanted, as_of: position });
  };

  return (
    <>
      <Head title="Query" />
      <form class="query" onSubmit={(event) => { event.preventDefault(); submit(text); }}>
        <label for="sql">SQL, read only</label>
        <textarea
          id="sql"
          rows={Math.min(16, Math.max(5, text.split("\n").length + 1))}
          spellcheck={false}
          value={text}
          placeholder="SELECT name, pending, dead FROM queues"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              submit(text);
            }
          }}
        />
        <div class="acts">
          <label class="filter">
            <span>As of position</span>
            <input type="number" min="1" value={position} placeholder="newest" onInput={(event) => setPosition(event.currentTarget.value)} />
          </label>
          {state.isRunning
            ? <button type="button" onClick={() => { running.current?.abort(); setState({ isRunning: false }); }}>Stop</button>
            : <button type="submit" class="solid" title="Ctrl+Enter">Run</button>}
          <button type="button" disabled={text.trim() === ""} onClick={() => submit(explained(text))}>Explain</button>
        </div>
      </form>
      {state.isRunning && <p class="faint" aria-busy="true">Running …</p>}
      {state.error !== undefined && <Problem error={state.error} />}
      {state.result !== undefined && <Result of={state.result} />}
      {state.result === undefined && !state.isRunning && <Examples choose={(sql) => setParams({ sql })} />}
    </>
  );
}

/** The statement that shows how another one is read. */
function explained(sql: string): string {
  return /^\s*explain\b/i.test(sql) ? sql : `EXPLAIN QUERY PLAN ${sql.trim()}`;
}

function Examples({ choose }: { choose: (sql: string) => void }) {
  return (
    <section aria-label="Examples">
      <Empty title="Ask the log">
        Events, messages, jobs, groups, graphs and commits are tables. A statement sees each commit that was acknowledged before it.
      </Empty>
      <ul class="examples">
        {EXAMPLES.map(([name, sql]) => (
          <li key={name}><button type="button" onClick={() => choose(sql)}>{name}</button><pre tabIndex={0}>{sql}</pre></li>
        ))}
      </ul>
    </section>
  );
}

function Result({ of }: { of: SqlResult }) {
  const shown = of.rows.slice(0, ROWS_SHOWN);
  const isNumber = of.columns.map((_, at) => of.rows.length > 0 && of.rows.every((row) => row[at] === null || typeof row[at] === "number"));
  return (
    <section aria-label="Result">
      <p class="faint" role="status">
        {count(of.rows.length)} {of.rows.length === 1 ? "row" : "rows"}, as of position{" "}
        {of.as_of === 0 ? "0" : <a href={href("commits", of.as_of)}>{of.as_of}</a>}, {count(of.scanned)} scanned
        {shown.length < of.rows.length && `; the first ${count(shown.length)} are shown, and a copy has all`}
      </p>
      <div class="acts">
        <Copy label="Copy as CSV" text={() => csv(of)} />
        <Copy label="Copy as JSON" text={() => JSON.stringify(of.rows.map((row) => Object.fromEntries(of.columns.map((name, at) => [name, plain(row[at])]))), null, 2)} />
      </div>
      {of.rows.length > 0 && (
        <div class="table" tabIndex={0} role="region" aria-label="Rows">
          <table>
            <thead><tr>{of.columns.map((name, at) => <th key={at} scope="col" class={isNumber[at] ? "number" : ""}>{name}</th>)}</tr></thead>
            <tbody>
              {shown.map((row, number) => (
                <tr key={number}>{row.map((value, at) => <td key={at} class={isNumber[at] ? "number" : ""}><Cell name={of.columns[at] ?? ""} value={value} /></td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The length in characters from which on a value is text, which breaks into lines. Names, ids and numbers do not. */
const NAME_MAX = 64;

/** The columns whose values have a page. */
const PAGES: Readonly<Record<string, string>> = { commit_position: "commits", job: "jobs", topic: "topics", store: "stores", graph: "graphs", consumer_group: "groups" };

function Cell({ name, value }: { name: string; value: SqlValue }) {
  if (value === null) return <span class="faint">NULL</span>;
  if (value instanceof Uint8Array) return <span class="faint">{count(value.length)} bytes</span>;
  const page = PAGES[name];
  if (page !== undefined && value !== "") return <a href={href(page, value)}>{value}</a>;
  if (typeof value === "string" && (value.length > NAME_MAX || value.includes("\n"))) return <LongText text={value} />;
  return <>{value}</>;
}

/** A text that breaks into lines: after commas, so that the names and values of JSON stay whole. */
function LongText({ text }: { text: string }) {
  return <span class="text">{text.split(/(?<=,)/).map((part, at) => <span key={at} class={part.length <= NAME_MAX ? "whole" : ""}>{part}<wbr /></span>)}</span>;
}

function plain(value: SqlValue | undefined): null | number | string {
  if (value === undefined || value === null) return null;
  return value instanceof Uint8Array ? btoa(String.fromCharCode(...value)) : value;
}

/** RFC 4180. */
function csv(of: SqlResult): string {
  const field = (value: null | number | string): string => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [of.columns, ...of.rows.map((row) => row.map(plain))].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}
