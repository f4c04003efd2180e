import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path, read, type Json, type Schemas } from "../api.js";
import { Problem } from "../ui/parts.js";
import { count } from "../ui/value.js";

/** What the list of jobs is filtered by. */
export interface JobFilter {
  queue: string;
  state: string;
  kind: string;
  tag: string;
  error: string;
}

interface BulkAct {
  name: string;
  title: string;
  what: string;
  isDangerous: boolean;
  /** The states of the jobs that it changes; the server refuses it for others, and counts them. */
  states: readonly string[];
  change: { [change: string]: Json };
}

const ACTS: readonly BulkAct[] = [
  { name: "Retry", title: "Retry these jobs?", what: "They return to their queues with new attempts.", isDangerous: false, states: ["dead", "cancelled"], change: { retry: {} } },
  { name: "Hold", title: "Hold these jobs?", what: "No worker gets them until they are released.", isDangerous: false, states: ["pending", "scheduled", "retrying"], change: { hold: { reason: "held in the dashboard" } } },
  { name: "Release", title: "Release these jobs?", what: "Workers may lease them again.", isDangerous: false, states: ["held"], change: { release: {} } },
  { name: "Cancel", title: "Cancel these jobs?", what: "They will not run again. Workers that run one lose its lease, and what they have done outside stays done.", isDangerous: true, states: ["pending", "scheduled", "retrying", "active", "held"], change: { cancel: { reason: "cancelled in the dashboard" } } },
  { name: "Delete", title: "Delete these jobs?", what: "Their payloads, results, errors and histories can not be found any more.", isDangerous: true, states: ["completed", "cancelled", "dead"], change: { delete: {} } },
];

/** How often the progress is read. */
const PROGRESS_MS = 500;

type Progress = Schemas["BulkReply"];

/** Changes every job that the filters of the list select. The count comes first. */
export function Bulk({ filter, done }: { filter: JobFilter; done: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [act, setAct] = useState<BulkAct>();
  const [selected, setSelected] = useState<number>();
  const [progress, setProgress] = useState<Progress>();
  const [error, setError] = useState<Error>();
  const opened = useRef(0);

  const states = (act: BulkAct): string[] => (filter.state === "" ? [...act.states] : act.states.filter((state) => state === filter.state));

  const open = (chosen: BulkAct): void => {
    const turn = ++opened.current;
    setAct(chosen);
    setSelected(undefined);
    setProgress(undefined);
    setError(undefined);
    dialog.current?.showModal();
    countJobs(filter, states(chosen)).then(
      (jobs) => turn === opened.current && setSelected(jobs),
      (error: unknown) => turn === opened.current && setError(error as Error),
    );
  };

  const begin = async (chosen: BulkAct): Promise<void> => {
    setError(undefined);
    try {
      const wanted = Object.fromEntries(Object.entries({ queue: filter.queue, kind: filter.kind, error: filter.error }).filter(([, value]) => value !== ""));
      const body = { filter: { ...wanted, states: states(chosen), ...(filter.tag === "" ? {} : { tags: [filter.tag] }) }, change: chosen.change };
      const answer = await ask((quire) => quire.send<{ replies: { bulk_begun: { bulk: string } }[] }>("POST", "/v1/bulks", body));
      const bulk = answer.replies[0]?.bulk_begun.bulk ?? "";
      setProgress({ bulk, looked_at: 0, changed: 0, refused: 0, done: false, stopped: false });
    } catch (error) {
      setError(error as Error);
    }
  };

  const bulk = progress?.bulk;
  const isDone = progress?.done ?? false;
  useEffect(() => {
    if (bulk === undefined || isDone) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ended = new AbortController();
    const look = async (): Promise<void> => {
      try {
        const now = await read<Progress>({ route: path`/v1/bulks/${bulk}` }, ended.signal);
        if (ended.signal.aborted) return;
        setProgress(now);
        if (now.done) return done();
      } catch (error) {
        if (ended.signal.aborted) return;
        setError(error as Error);
      }
      timer = setTimeout(look, PROGRESS_MS);
    };
    void look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [bulk, isDone]);

  const possible = ACTS.filter((act) => states(act).length > 0);
  return (
    <>
      <span class="bulk" role="group" aria-label="All jobs of this list">
        {possible.map((act) => (
          <button key={act.name} type="button" class={act.isDangerous ? "danger" : ""} onClick={() => open(act)}>{act.name} all …</button>
        ))}
      </span>
      <dialog ref={dialog} aria-label={act?.title ?? "Change jobs"}>
        {act !== undefined && (
          <>
            <h2>{act.title}</h2>
            <div class="prose">
              <p>{selected === undefined ? (error === undefined ? "Counting …" : "The jobs could not be counted.") : <><b>{count(selected)}</b> {selected === 1 ? "job is" : "jobs are"} selected: {described(filter, states(act))}.</>}</p>
              <p>{act.what} Jobs that come to match meanwhile may be changed, too.</p>
            </div>
            {progress !== undefined && (
              <p role="status">
                {isDone ? "Done: " : "Running: "}{count(progress.changed)} changed, {count(progress.refused)} refused, {count(progress.looked_at)} looked at.
                {!isDone && " It goes on when this page is closed."}
              </p>
            )}
            {error !== undefined && <Problem error={error} />}
            <div class="acts">
              <button type="button" onClick={() => dialog.current?.close()}>{progress === undefined ? "Keep them as they are" : "Close"}</button>
              {progress === undefined && (
                <button type="button" class={act.isDangerous ? "danger solid" : "solid"} disabled={selected === undefined || selected === 0} onClick={() => void begin(act)}>
                  {act.name} {selected === undefined ? "the jobs" : `${count(selected)} ${selected === 1 ? "job" : "jobs"}`}
                </button>
              )}
            </div>
          </>
        )}
      </dialog>
    </>
  );
}

async function countJobs(filter: JobFilter, states: readonly string[]): Promise<number> {
  const where = [`state IN (${states.map((state) => `'${state}'`).join(", ")})`];
  const values: { [name: string]: string } = {};
  const add = (name: "queue" | "kind" | "tag" | "error", condition: string): void => {
    if (filter[name] === "") return;
    where.push(condition);
    values[name] = filter[name];
  };
  add("queue", "queue = :queue");
  add("kind", "kind = :kind");
  add("error", "instr(last_error, :error) > 0");
  add("tag", "EXISTS (SELECT 1 FROM json_each(tags) WHERE value = :tag)");
  const result = await ask((quire) => quire.sql(`SELECT count(*) FROM jobs WHERE ${where.join(" AND ")}`, values));
  return Number(result.rows[0]?.[0] ?? 0);
}

/** The selection in words. */
function described({ queue, kind, tag, error }: JobFilter, states: readonly string[]): string {
  const parts = [
    queue === "" ? "in all queues" : `in ${queue}`,
    kind === "" ? "" : `of kind ${kind}`,
    tag === "" ? "" : `with the tag ${tag}`,
    error === "" ? "" : `with an error that contains “${error}”`,
    `${states.join(", ").replace(/, ([^,]*)$/, " or $1")}`,
  ];
  return parts.filter((part) => part !== "").join(", ");
}
