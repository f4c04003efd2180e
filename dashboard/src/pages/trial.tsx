import { useEffect, useState } from "preact/hooks";
import { QuireError, ask, type Schemas } from "../api.js";
import { go, href, place, setParams, withParams } from "../router.js";
import { Act, Copy, Empty, Problem, quoted } from "../ui/parts.js";
import { Value, bytes, count } from "../ui/value.js";
import { Chip, byInterest, type Entry } from "./entries.js";

type DryRun = Schemas["DryRunReply"];

/** A body that a new user can try: an event under a condition, a message and a job. */
const EXAMPLE = `{
  "parts": [
    {"append": {
      "store": "shop/orders",
      "events": [{"type": "OrderPlaced", "tags": ["order:17"], "data": {"item": "lamp"}}],
      "conditions": [{"fail_if_events_match": {"items": [{"types": ["OrderPlaced"], "tags": ["order:17"]}]}}]
    }},
    {"produce": {"topic": "orders", "key": "17", "value": {"order": 17}}},
    {"enqueue": {"queue": "shop/payments", "kind": "take-payment", "payload": {"order": 17}}}
  ]
}`;

/** The longest body that the address keeps, in characters. */
const ADDRESS_MAX = 8_000;

interface Tried {
  /** The body. */
  of: string;
  answer?: DryRun;
  error?: Error;
}

/** Decides a commit that the reader writes, and commits nothing. */
export function TryCommit() {
  const given = place.value.params.get("commit");
  const [text, setText] = useState(given ?? EXAMPLE);
  const [tried, setTried] = useState<Tried>();
  const [isRunning, setRunning] = useState(false);
  useEffect(() => setText(given ?? EXAMPLE), [given]);
  const run = async (): Promise<void> => {
    setRunning(true);
    try {
      const body: unknown = JSON.parse(text);
      setTried({ of: text, answer: await ask((quire) => quire.send<DryRun>("POST", "/v1/commit?dry_run=true", body)) });
      if (text.length <= ADDRESS_MAX) setParams({ commit: text === EXAMPLE ? undefined : text });
    } catch (error) {
      setTried({ of: text, error: error as Error });
    } finally {
      setRunning(false);
    }
  };
  const current = tried?.of === text ? tried : undefined;
  return (
    <>
      <form class="query" onSubmit={(event) => { event.preventDefault(); void run(); }}>
        <label for="commit">The body of <code>POST /v1/commit</code></label>
        <textarea
          id="commit"
          rows={Math.min(24, Math.max(8, text.split("\n").length + 1))}
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              void run();
            }
          }}
        />
        <div class="acts">
          <button type="submit" class="solid" disabled={isRunning} title="Ctrl+Enter">Dry run</button>
          {current?.answer !== undefined && <CommitIt text={text} answer={current.answer} />}
          <Copy label="Copy as curl" text={() => curl(text)} />
        </div>
      </form>
      <div aria-live="polite">
        {current === undefined
          ? <Empty title="A dry run changes nothing">It decides the commit as the server would now, and shows what would be written, or what the commit conflicts with.</Empty>
          : current.answer !== undefined ? <Accepted answer={current.answer} />
          : current.error !== undefined && <Refused error={current.error} text={text} />}
      </div>
    </>
  );
}

function curl(text: string): string {
  return `curl -s ${quoted(`${window.location.origin}/v1/commit?dry_run=true`)} --json ${quoted(text)}`;
}

/** Commits what was tried. Another commit may have come first. */
function CommitIt({ text, answer }: { text: string; answer: DryRun }) {
  const entries = answer.entries.length;
  const act = async (): Promise<void> => {
    const { position } = await ask((quire) => quire.send<Schemas["CommitReply"]>("POST", "/v1/commit", JSON.parse(text)));
    go(href("commits", position));
  };
  return (
    <Act label="Commit it" title="Commit it" confirm="Commit" act={act} done={() => undefined}>
      <p>This writes {entries === 0 ? "nothing, because the commit changes nothing" : `${count(entries)} ${entries === 1 ? "entry" : "entries"}`}. If another commit came first, it can be refused.</p>
    </Act>
  );
}

function Accepted({ answer }: { answer: DryRun }) {
  const entries = answer.entries.map((entry, index): Entry => ({ ...entry, entry: index }));
  const size = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  return (
    <>
      <p class="notice" role="status">
        The commit would pass{entries.length === 0 ? ", and write nothing" : `, as commit ${count(answer.position)}`}. Nothing was committed.
      </p>
      {entries.length > 0 && (
        <section>
          <h2>It would write {count(entries.length)} {entries.length === 1 ? "entry" : "entries"}, {bytes(size)}</h2>
          <div class="chips">{byInterest(entries).map((entry) => <Chip key={entry.entry} entry={entry} />)}</div>
        </section>
      )}
      <section>
        <h2>Replies</h2>
        <p class="faint">Positions, offsets and ids are those of this moment. Another commit can take them.</p>
        <ol class="replies" start={0}>
          {answer.replies.map((reply, part) => {
            const [kind, fields] = Object.entries(reply)[0] ?? ["", {}];
            return <li key={part}><b>{kind.replaceAll("_", " ")}</b> <code>{JSON.stringify(fields)}</code></li>;
          })}
        </ol>
      </section>
    </>
  );
}

function Refused({ error, text }: { error: Error; text: string }) {
  if (error instanceof SyntaxError) return <div class="problem" role="alert"><p>This is no JSON: {error.message}</p></div>;
  if (!(error instanceof QuireError)) return <Problem error={error} />;
  const part = error.problem["part"];
  const parts = (JSON.parse(text) as { parts?: unknown[] }).parts;
  const refused = typeof part === "number" ? parts?.[part] : undefined;
  return (
    <>
      <div class="problem" role="alert">
        <p>The commit would be refused{typeof part === "number" && <>, because of part {part}</>}. Nothing was committed.</p>
        <p><code>{error.code}</code> {error.message}</p>
        <Conflict problem={error.problem} stores={storesOf(refused)} />
      </div>
      {refused !== undefined && <section><h2>Part {String(part)}</h2><Value value={refused as never} /></section>}
    </>
  );
}

/** The store of an append. */
function storesOf(part: unknown): string[] {
  const store = (part as { append?: { store?: unknown } } | undefined)?.append?.store;
  return typeof store === "string" ? [store] : [];
}

/** A link to the event that a condition conflicts with. */
export function Conflict({ problem, stores }: { problem: { readonly [fact: string]: unknown }; stores: readonly string[] }) {
  const { code, position } = problem;
  const [store] = stores;
  if (code !== "condition_failed" || typeof position !== "number" || position === 0 || store === undefined) return null;
  return <p><a href={withParams(href("stores", store), { at: position })}>Look at event {position} of {store}</a></p>;
}
