import type { Schemas } from "../api.js";
import { Badge } from "../ui/parts.js";
import { Time } from "../ui/time.js";

type Step = Schemas["StepReply"];

interface Attempt {
  number: number;
  worker: string;
  from: number;
  /** Absent while the attempt runs. */
  to?: number;
  outcome: string;
  error: string;
}

const WIDTH = 1_000;

/** The attempts of a history: each begins with a lease, and ends with the step that leaves the state `active`. */
function attemptsOf(history: readonly Step[]): Attempt[] {
  const attempts: Attempt[] = [];
  for (const step of history) {
    const open = attempts.at(-1);
    if (step.what === "leased") {
      attempts.push({ number: step.attempt ?? attempts.length + 1, worker: step.worker ?? "", from: step.time_ms, outcome: "running", error: "" });
    } else if (open !== undefined && open.to === undefined && step.state !== undefined && step.state !== null && step.state !== "active") {
      Object.assign(open, { to: step.time_ms, outcome: step.what.replaceAll("_", " "), error: step.error ?? step.reason ?? "" });
    }
  }
  return attempts;
}

function took(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : ms < 3_600_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

/** When each attempt ran, from the first step of the history to the last one. */
export function Attempts({ history, isActive }: { history: readonly Step[]; isActive: boolean }) {
  const attempts = attemptsOf(history);
  const [first, last] = [history[0], history.at(-1)];
  if (attempts.length === 0 || first === undefined || last === undefined) return null;
  const end = isActive ? Math.max(Date.now(), last.time_ms) : last.time_ms;
  const span = Math.max(1, end - first.time_ms);
  return (
    <section>
      <h2>Attempts</h2>
      <ol class="attempts">
        {attempts.map(({ number, worker, from, to, outcome, error }) => {
          const [start, stop] = [from, to ?? end].map((ms) => ((ms - first.time_ms) / span) * WIDTH) as [number, number];
          const kind = outcome === "running" ? "active" : outcome === "completed" ? "completed" : "dead";
          return (
            <li key={`${number}-${from}`}>
              <span><b>{number}</b> {worker}</span>
              <svg viewBox={`0 0 ${WIDTH} 14`} preserveAspectRatio="none" role="img" aria-label={`Attempt ${number} ran ${took((to ?? end) - from)}`}>
                <rect class="attempt-track" x={0} y={6} width={WIDTH} height={2} />
                <rect class={`attempt-${kind}`} x={Math.min(start, WIDTH - 4)} y={0} width={Math.max(4, stop - start)} height={14} />
              </svg>
              <span class="attempt-end"><Badge kind={`state-${kind}`}>{outcome}</Badge> {took((to ?? end) - from)} <span class="faint"><Time ms={from} /></span></span>
              {error !== "" && <span class="attempt-error bad">{error}</span>}
            </li>
          );
        })}
      </ol>
    </section>
  );
}
