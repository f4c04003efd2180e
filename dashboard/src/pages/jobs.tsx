import { ask, path, usePages, useRead, type Json, type Page, type Read, type Schemas } from "../api.js";
import { go, href, place, setParams, withParams } from "../router.js";
import { Act, Badge, Empty, Facts, Filter, Head, More, Select, Shown, Table } from "../ui/parts.js";
import { Time } from "../ui/time.js";
import { Value, oneLine } from "../ui/value.js";
import { Bulk } from "./bulk.js";
import { STATES } from "./overview.js";
import { Attempts } from "./attempts.js";

type Job = Omit<Schemas["JobReply"], "payload" | "result" | "progress" | "checkpoint"> & {
  payload?: Json;
  result?: Json;
  progress?: Json;
  checkpoint?: Json;
};

type JobWithHistory = Job & Pick<Schemas["JobWithHistory"], "history" | "more">;

const ORIGIN = window.location.origin;

/** Jobs of all queues; the filters are in the address. */
export function Jobs() {
  const { params } = place.value;
  const of = (name: string): string => params.get(name) ?? "";
  const queues = useRead<Page<{ queue: string }>>({ route: "/v1/queues" });
  const request: Read = {
    route: "/v1/jobs",
    query: {
      as: "json",
      limit: 50,
      queue: of("queue") || undefined,
      state: of("state") || undefined,
      kind: of("kind") || undefined,
      tag: of("tag") || undefined,
      error: of("error") || undefined,
    },
  };
  const jobs = usePages<Job>(request);
  const names = queues.data?.data.map((queue) => queue.queue) ?? [];
  const known = of("queue") === "" || names.includes(of("queue")) ? names : [of("queue"), ...names];
  const isFiltered = ["queue", "state", "kind", "tag", "error"].some((name) => of(name) !== "");
  return (
    <>
      <Head title="Jobs" read={request}>
        <button type="button" onClick={jobs.reload}>Refresh</button>
        {isFiltered && <Bulk filter={{ queue: of("queue"), state: of("state"), kind: of("kind"), tag: of("tag"), error: of("error") }} done={jobs.reload} />}
      </Head>
      <p class="lead">A job waits in a queue until a worker leases it. A failed attempt is repeated; the last one leaves the job dead.</p>
      <div class="filters">
        <Select label="Queue" value={of("queue")} options={[["", "all queues"], ...known.map((name) => [name, name] as const)]} onChange={(queue) => setParams({ queue })} />
        <Select label="State" value={of("state")} options={[["", "all states"], ...STATES.map((state) => [state, state] as const)]} onChange={(state) => setParams({ state })} />
        <Filter label="Kind" value={of("kind")} onChange={(kind) => setParams({ kind })} />
        <Filter label="Tag" value={of("tag")} onChange={(tag) => setParams({ tag })} />
        <Filter label="Error contains" value={of("error")} onChange={(error) => setParams({ error })} />
      </div>
      <Shown of={jobs}>
        {(rows) => rows.length === 0 ? (isFiltered
          ? <Empty title="No job fits">Completed and cancelled jobs are found while their queue keeps them.</Empty>
          : <Empty title="No jobs yet" command={`curl -s ${ORIGIN}/v1/queues/mail/jobs --json '{"kind": "welcome", "payload": {"to": "ada"}}'`}>Enqueue the first one:</Empty>)
        : (
          <Table
            caption="Jobs"
            rows={rows}
            keyOf={(job) => job.job}
            columns={[
              { title: "Job", cell: (job) => <a href={href("jobs", job.job)} data-row>{job.job}</a> },
              { title: "State", cell: (job) => <State state={job.state} /> },
              { title: "Queue", cell: (job) => job.queue },
              { title: "Kind", cell: (job) => job.kind },
              { title: "Attempt", isNumber: true, cell: (job) => `${job.attempt} of ${job.attempts_max}` },
              { title: "Enqueued", cell: (job) => <Time ms={job.enqueued_at_ms} /> },
              { title: "Payload or error", cell: payloadOrError },
            ]}
          />
        )}
      </Shown>
      <More more={jobs.more} />
    </>
  );
}

/** One line of the last error, or of the payload; nothing for a job with neither. */
function payloadOrError({ last_error: error, payload }: Job) {
  if (error !== null && error !== undefined) return <span class="clip"><span class="bad">{oneLine(error)}</span></span>;
  const text = oneLine(payload);
  return text === "" ? null : <span class="clip">{text}</span>;
}

function State({ state }: { state: string }) {
  return <Badge kind={`state-${state}`}>{state}</Badge>;
}

/** Whether a state is final. */
const FINAL = new Set(["completed", "cancelled", "dead"]);

export function Job({ id }: { id: string }) {
  const request: Read = { route: path`/v1/jobs/${id}`, query: { as: "json" } };
  const job = useRead<JobWithHistory>(request, 3_000);
  const change = (change: { [change: string]: Json }) => () => ask((quire) => quire.send("POST", path`/v1/jobs/${id}/change`, change));
  return (
    <>
      <Head title={`Job ${id}`} read={request}>
        {job.data !== undefined && <Acts job={job.data} change={change} done={job.reload} />}
      </Head>
      <Shown of={job}>
        {(data) => (
          <>
            <Facts of={[
              ["State", <State state={data.state} />],
              ["Queue", <a href={withParams(href("jobs"), { queue: data.queue })}>{data.queue}</a>],
              ["Kind", data.kind],
              ["Attempt", `${data.attempt} of ${data.attempts_max}`],
              ["Priority", data.priority],
              ["Group", data.group],
              ["Worker", data.worker],
              ["Enqueued", <Time ms={data.enqueued_at_ms} />],
              ["Runs at", data.state === "scheduled" && <Time ms={data.run_at_ms} />],
              ["Retried at", data.retry_at_ms && <Time ms={data.retry_at_ms} />],
              ["Lease ends", data.deadline_ms && <Time ms={data.deadline_ms} />],
              ["Finished", data.finished_at_ms && <Time ms={data.finished_at_ms} />],
              ["Reason", data.reason],
              ["Commit", <a href={href("commits", data.job.split("-")[0] ?? "")}>{data.job.split("-")[0]}</a>],
              ["Tags", data.tags.length > 0 && <span class="tags">{data.tags.map((tag) => <code key={tag}>{tag}</code>)}</span>],
            ]} />
            {data.last_error !== null && data.last_error !== undefined && (
              <section><h2>Last error</h2><pre class="value bad" tabIndex={0}>{data.last_error}</pre></section>
            )}
            <div class="columns">
              <section><h2>Payload</h2><Value value={data.payload} name="payload" /></section>
              {data.result !== undefined && data.result !== null && <section><h2>Result</h2><Value value={data.result} /></section>}
              {data.progress !== undefined && data.progress !== null && <section><h2>Progress</h2><Value value={data.progress} /></section>}
              {data.checkpoint !== undefined && data.checkpoint !== null && <section><h2>Checkpoint</h2><Value value={data.checkpoint} /></section>}
            </div>
            <Attempts history={data.history} isActive={data.state === "active"} />
            <section>
              <h2>History</h2>
              {data.more && <p class="faint">Older steps are not shown.</p>}
              <ol class="steps">
                {data.history.map((step, index) => (
                  <li key={index}>
                    <a href={href("commits", step.position)}>{step.position}</a>
                    <Time ms={step.time_ms} />
                    <b>{step.what.replaceAll("_", " ")}</b>
                    {step.state !== undefined && step.state !== null && <State state={step.state} />}
                    <span>
                      {step.attempt ? `attempt ${step.attempt} ` : ""}
                      {step.worker ? `by ${step.worker} ` : ""}
                      {step.error ?? step.reason ?? ""}
                    </span>
                  </li>
                ))}
              </ol>
            </section>
          </>
        )}
      </Shown>
    </>
  );
}

function Acts({ job, change, done }: { job: JobWithHistory; change: (change: { [change: string]: Json }) => () => Promise<unknown>; done: () => void }) {
  return (
    <>
      {job.state === "dead" && (
        <Act label="Retry" title={`Retry job ${job.job}?`} confirm="Retry the job" act={change({ retry: {} })} done={done}>
          <p>The job returns to <b>{job.queue}</b> with new attempts. A worker may lease it at once.</p>
        </Act>
      )}
      {["pending", "scheduled", "retrying"].includes(job.state) && (
        <Act label="Hold" title={`Hold job ${job.job}?`} confirm="Hold the job" act={change({ hold: { reason: "held in the dashboard" } })} done={done}>
          <p>No worker gets the job until it is released.</p>
        </Act>
      )}
      {job.state === "held" && (
        <Act label="Release" title={`Release job ${job.job}?`} confirm="Release the job" act={change({ release: {} })} done={done}>
          <p>A worker may lease the job again.</p>
        </Act>
      )}
      {!FINAL.has(job.state) && (
        <Act label="Cancel" title={`Cancel job ${job.job}?`} confirm="Cancel the job" isDangerous act={change({ cancel: { reason: "cancelled in the dashboard" } })} done={done}>
          <p>The job of kind <b>{job.kind || "(none)"}</b> in <b>{job.queue}</b> will not run again.{job.state === "active" && " Its worker loses the lease, and what it has done outside stays done."}</p>
        </Act>
      )}
      {FINAL.has(job.state) && (
        <Act label="Delete" title={`Delete job ${job.job}?`} confirm="Delete the job" isDangerous act={change({ delete: {} })} done={() => go(href("jobs"))}>
          <p>Its payload, result, error and history can not be found any more.</p>
        </Act>
      )}
    </>
  );
}
