import { useState } from "preact/hooks";
import { path, read, useRead, type Json, type Page, type Read } from "../api.js";
import { href } from "../router.js";
import { Badge, Head, Problem, Shown } from "../ui/parts.js";
import { Time } from "../ui/time.js";
import { Value, bytes, tagText } from "../ui/value.js";
import { Chip, MODEL_NAMES, isNaming, kindOf, linkOf, modelOf, objectOf, summary, type Commit as CommitReply, type Entry } from "./entries.js";
import { meaningOf } from "./kinds.js";

/** How many entries read their content by themselves. */
const OPENED = 24;

/** One commit as a strip: a card for each entry, joined by the line of the commit. */
export function Commit({ position }: { position: string }) {
  const request: Read = { route: path`/v1/commits/${position}`, query: { limit: 100 } };
  const commit = useRead<CommitReply>(request);
  const [rest, setRest] = useState<{ of: string; entries: Entry[]; next: number | null }>();
  const [error, setError] = useState<Error>();
  const further = rest?.of === position ? rest : undefined;
  const next = further === undefined ? commit.data?.next_entry : further.next;
  const more = (): void => {
    read<CommitReply>({ route: request.route, query: { entry: next as number, limit: 500 } }).then(
      (part) => setRest({ of: position, entries: [...(further?.entries ?? []), ...part.entries], next: part.next_entry }),
      (error: unknown) => setError(error as Error),
    );
  };
  const at = Number(position);
  return (
    <>
      <Head title={`Commit ${position}`} read={request}>
        {at > 1 && <a class="button" href={href("commits", at - 1)}>Previous</a>}
        <a class="button" href={href("commits", at + 1)}>Next</a>
      </Head>
      <Shown of={commit}>
        {(data) => {
          const entries = [...data.entries, ...(further?.entries ?? [])];
          const models = new Set(entries.map(modelOf));
          const names = entries.filter(isNaming);
          const main = entries.length === names.length ? entries : entries.filter((entry) => !isNaming(entry));
          return (
            <>
              <p class="lead">
                <Time ms={data.time_ms} /> · {entries.length}{next !== null && "+"} {entries.length === 1 ? "entry" : "entries"} in{" "}
                {models.size} {models.size === 1 ? "model" : "models"}, as one record of the log: no crash keeps a part of it.
              </p>
              <ol class="strip">
                {main.map((entry, index) => <EntryCard key={`${position}-${entry.entry}`} entry={entry} commit={at} isOpen={index < OPENED} />)}
              </ol>
              {main !== entries && names.length > 0 && (
                <section>
                  <h2>New names</h2>
                  <p class="chips">{names.map((entry) => <Chip key={entry.entry} entry={entry} />)}</p>
                </section>
              )}
              {error !== undefined && <Problem error={error} />}
              {next !== null && next !== undefined && <p class="more"><button type="button" onClick={more}>Show more entries</button></p>}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function EntryCard({ entry, commit, isOpen }: { entry: Entry; commit: number; isOpen: boolean }) {
  const [isShown, setShown] = useState(isOpen);
  const link = linkOf(entry);
  const object = objectOf(entry);
  const model = modelOf(entry);
  const title = summary(entry);
  return (
    <li class={`card model-${model}`}>
      <div class="card-head">
        <Badge kind={model}>{MODEL_NAMES[model]}</Badge>
        <span class="faint" title={meaningOf(entry.kind)}>{kindOf(entry)} · {bytes(entry.bytes)}</span>
      </div>
      <h2>{link === undefined ? title || kindOf(entry) : <a href={link} data-row>{title || object || kindOf(entry)}</a>}</h2>
      {object !== undefined && title !== "" && object !== title && <p class="object">{object}</p>}
      {entry.event !== undefined && entry.event.tags.length > 0 && (
        <p class="tags">{entry.event.tags.map((tag) => <code key={tagText(tag)}>{tagText(tag)}</code>)}</p>
      )}
      {isShown ? <Content entry={entry} commit={commit} /> : hasContent(entry) && <button type="button" class="quiet" onClick={() => setShown(true)}>Show content</button>}
    </li>
  );
}

function hasContent(entry: Entry): boolean {
  return contentOf(entry) !== undefined || entry.edge !== undefined;
}

/** The read of what the entry wrote. */
function contentOf(entry: Entry): Read | undefined {
  if (entry.event && entry.store !== undefined) {
    return { route: path`/v1/events/${entry.store}`, query: { as: "json", after: entry.event.position - 1, limit: 1 } };
  }
  if (entry.records !== undefined && entry.topic !== undefined) {
    const route = path`/v1/topics/${entry.topic}/partitions/${entry.partition as number}/records`;
    return { route, query: { as: "json", offset: entry.offset, limit: 1 } };
  }
  if (entry.jobs?.length === 1) return { route: path`/v1/jobs/${entry.jobs[0] as string}`, query: { as: "json" } };
  if (entry.kind === "block_put" && entry.graph !== undefined && entry.block !== undefined) {
    return { route: path`/v1/graphs/${entry.graph}/blocks/${entry.block}`, query: { as: "json", by: "id" } };
  }
  return undefined;
}

type Content = Page<{ [field: string]: Json }> & { [field: string]: Json };

function Content({ entry, commit }: { entry: Entry; commit: number }) {
  const found = useRead<Content>(contentOf(entry));
  if (entry.edge) return <Ends entry={entry} commit={commit} />;
  if (contentOf(entry) === undefined) return null;
  if (found.error) return <p class="faint">No longer readable: {found.error.message}</p>;
  if (found.data === undefined) return <p class="faint" aria-busy="true">Reading …</p>;
  const { data } = found;
  if (entry.event) {
    const event = data.data[0];
    if (event === undefined || event["position"] !== entry.event.position) return <p class="faint">The event was deleted.</p>;
    return <Value value={event["data"]} name="data" />;
  }
  if (entry.records !== undefined) {
    const record = data.data[0];
    if (record === undefined || record["offset"] !== entry.offset) return <p class="faint">The record was deleted.</p>;
    return (
      <>
        {entry.records > 1 && <p class="faint">The first of {entry.records} records</p>}
        {record["key"] !== null && <p class="tags"><code>key {String(record["key"])}</code></p>}
        <Value value={record["value"]} />
      </>
    );
  }
  if (entry.jobs) {
    return (
      <>
        <p class="tags"><Badge kind={`state-${String(data["state"])}`}>{String(data["state"])} now</Badge> attempt {String(data["attempt"])}</p>
        <Value value={data["payload"]} name="payload" />
      </>
    );
  }
  return (
    <>
      <p class="tags"><code>{String(data["kind"])}</code> <span class="faint">version {String(data["version"])} (current)</span></p>
      <Value value={data["content"]} name="content" />
    </>
  );
}

/** The names of the ends of an edge: the entry has their ids. */
function Ends({ entry, commit }: { entry: Entry; commit: number }) {
  const { edge, graph } = entry;
  const block = (id: string): Read | undefined =>
    graph === undefined ? undefined : { route: path`/v1/graphs/${graph}/blocks/${id}`, query: { as: "json", by: "id" } };
  const source = useRead<Content>(edge ? block(edge.source) : undefined);
  const target = useRead<Content>(edge ? block(edge.target) : undefined);
  if (!edge) return null;
  const name = (of: typeof source, id: string): string => String(of.data?.["name"] ?? id.slice(0, 8));
  return (
    <p class="edge" data-commit={commit}>
      <code>{name(source, edge.source)}</code> <span>─{edge.type}▶</span> <code>{name(target, edge.target)}</code>
    </p>
  );
}
