import { useEffect, useState } from "preact/hooks";
import { QuireError, read, type Schemas } from "../api.js";
import { Chart, type Line } from "../ui/chart.js";
import { Problem } from "../ui/parts.js";
import { bytes, count } from "../ui/value.js";

type History = Schemas["HistoryReply"];
type Sample = Schemas["HistorySample"];

const HOUR_MS = 3_600_000;

/** How many intervals may pass without a sample before a line breaks. */
const GAP = 2.5;

/** The samples of the last hour: all at first, then the new ones. */
function useHistory() {
  const [history, setHistory] = useState<History>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let known: Sample[] = [];
    let wait = 10_000;
    const load = async (): Promise<void> => {
      try {
        const after = known.at(-1)?.time_ms ?? 0;
        const next = document.hidden ? undefined : await read<History>({ route: "/v1/history", query: { after } }, ended.signal);
        if (ended.signal.aborted) return;
        if (next !== undefined) {
          // The server keeps an hour, also after it was away for a while.
          const oldest = (next.samples.at(-1)?.time_ms ?? after) - HOUR_MS;
          known = [...known, ...next.samples].filter(({ time_ms }) => time_ms > oldest);
          wait = next.interval_ms;
          setHistory({ interval_ms: next.interval_ms, samples: known });
          setError(undefined);
        }
      } catch (error) {
        if (ended.signal.aborted) return;
        setError(error as Error);
        // The reader may not see it.
        if (error instanceof QuireError && error.status === 403) return;
      }
      timer = setTimeout(load, wait);
    };
    void load();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, []);
  return { history, error };
}

/** Charts of the last hour. */
export function HistoryCharts() {
  const { history, error } = useHistory();
  if (history === undefined) return error === undefined ? null : <Problem error={error} />;
  const { samples, interval_ms: interval } = history;
  const last = samples.at(-1);
  return (
    <section>
      <h2>The last hour</h2>
      {last === undefined
        ? <p class="faint">The server takes its first sample {interval / 1_000} seconds after its start.</p>
        : <Charts samples={samples} interval={interval} to={last.time_ms} />}
    </section>
  );
}

function Charts({ samples, interval, to }: { samples: readonly Sample[]; interval: number; to: number }) {
  const times = samples.map(({ time_ms }) => time_ms);
  const common = { times, from: to - HOUR_MS, to, gap: interval * GAP };
  /** The count of each sample as a rate. */
  const rates = (of: (sample: Sample) => number): number[] => samples.map((sample, index) => {
    const before = times[index - 1];
    const span = before === undefined || sample.time_ms - before > common.gap ? interval : sample.time_ms - before;
    return (of(sample) * 1_000) / span;
  });
  const line = (name: string, kind: Line["kind"], values: Line["values"]): Line => ({ name, kind, values });
  const gauge = (name: string, kind: Line["kind"], of: (sample: Sample) => number | null | undefined): Line =>
    line(name, kind, samples.map((sample) => of(sample) ?? null));
  return (
    <div class="charts">
      <Chart {...common} title="Commits a second" format={number} lines={[
        line("commits", "jobs", rates((sample) => sample.commits)),
        line("refused", "bad", rates((sample) => sample.refusals)),
      ]} />
      <Chart {...common} title="99th percentile, in milliseconds" format={number} lines={[
        gauge("commit", "jobs", (sample) => sample.commit_p99_ms),
        gauge("sync", "graph", (sample) => sample.sync_p99_ms),
      ]} />
      <Chart {...common} title="Written a second" format={(value) => bytes(Math.round(value))} lines={[line("written", "streams", rates((sample) => sample.log_bytes))]} />
      <Chart {...common} title="Requests a second" format={number} lines={[line("requests", "events", rates((sample) => sample.requests))]} />
      <Chart {...common} title="Lag of all groups" format={(value) => count(Math.round(value))} lines={[gauge("lag", "streams", (sample) => sample.lag)]} />
      <Chart {...common} title="Age of the oldest pending job" format={seconds} lines={[gauge("age", "jobs", (sample) => sample.oldest_pending_ms)]} />
      <Chart {...common} title="Open connections" format={(value) => count(Math.round(value))} lines={[gauge("connections", "graph", (sample) => sample.connections)]} />
      <Chart {...common} title="Memory of requests" format={(value) => bytes(Math.round(value))} lines={[gauge("memory", "events", (sample) => sample.client_bytes)]} />
    </div>
  );
}

function number(value: number): string {
  return value >= 100 ? count(Math.round(value)) : value === 0 ? "0" : value < 0.1 ? value.toFixed(2) : value.toFixed(1);
}

function seconds(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 120_000 ? `${(ms / 1_000).toFixed(1)} s` : ms < 7_200_000 ? `${(ms / 60_000).toFixed(1)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}
