import { useState } from "preact/hooks";
import { clock } from "./time.js";

/** The size of a chart in its own units. It is drawn as wide as its place. */
const WIDTH = 600;
const HEIGHT = 120;

/** The space above the highest point, so that its line is whole. */
const ABOVE = 4;

/** One line of a chart. A value is `null` where there was nothing to measure. */
export interface Line {
  name: string;
  kind: "jobs" | "events" | "streams" | "graph" | "bad";
  values: readonly (number | null)[];
}

/**
 * Lines over time. `times` are in milliseconds, `from` and `to` the ends of the axis, and a longer pause than `gap` breaks a
 * line. Point at the chart, or use the arrow keys, to read the values of a time.
 */
export function Chart({ title, times, from, to, gap, lines, format }: {
  title: string;
  times: readonly number[];
  from: number;
  to: number;
  gap: number;
  lines: readonly Line[];
  format: (value: number) => string;
}) {
  const [pointed, setPointed] = useState<number>();
  const most = Math.max(0, ...lines.flatMap(({ values }) => values.filter((value) => value !== null)));
  const x = (time: number): number => ((time - from) / Math.max(1, to - from)) * WIDTH;
  const y = (value: number): number => HEIGHT - (most === 0 ? 0 : (value / most) * (HEIGHT - ABOVE));
  const last = times.length - 1;
  const at = pointed === undefined ? last : Math.min(pointed, last);
  const shown = (line: Line): string => {
    const value = line.values[at];
    return value === null || value === undefined ? "–" : format(value);
  };
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    setPointed(nearest(times, time));
  };
  const step = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    setPointed(Math.max(0, Math.min(last, at + by)));
  };
  const time = times[at];
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-values">
          {lines.map((line) => <span key={line.name} class={`chart-value line-of-${line.kind}`}>{lines.length > 1 && `${line.name} `}<b>{shown(line)}</b></span>)}
        </span>
      </figcaption>
      <span class="chart-most" aria-hidden="true">{format(most)}</span>
      <div
        class="chart-area"
        tabIndex={0}
        role="img"
        aria-label={`${title}: ${lines.map((line) => `${line.name} ${shown(line)}`).join(", ")}, at most ${format(most)}`}
        onPointerMove={point}
        onPointerLeave={() => setPointed(undefined)}
        onKeyDown={step}
        onBlur={() => setPointed(undefined)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <path class="chart-grid" d={`M0 ${HEIGHT - 0.5}H${WIDTH}M0 ${y(most / 2)}H${WIDTH}M0 ${ABOVE}H${WIDTH}`} />
          {lines.map((line) => <path key={line.name} class={`chart-line line-of-${line.kind}`} d={path(line.values, times, x, y, gap)} />)}
          {pointed !== undefined && time !== undefined && <path class="chart-pointer" d={`M${x(time)} 0V${HEIGHT}`} />}
        </svg>
      </div>
      <div class="chart-axis"><span>{clock(from)}</span><span>{pointed !== undefined && time !== undefined ? clock(time) : ""}</span><span>now</span></div>
    </figure>
  );
}

/** The index of the time that is nearest. */
function nearest(times: readonly number[], time: number): number {
  const found = times.findIndex((known) => known >= time);
  if (found === -1) return times.length - 1;
  const [before, after] = [times[found - 1], times[found] as number];
  return before !== undefined && time - before < after - time ? found - 1 : found;
}

/** The line, broken where there is no value, and where times are far apart. A point alone is a short line. */
function path(values: readonly (number | null)[], times: readonly number[], x: (time: number) => number, y: (value: number) => number, gap: number): string {
  let line = "";
  let before: number | undefined;
  for (const [index, value] of values.entries()) {
    const time = times[index] as number;
    if (value === null) {
      before = undefined;
      continue;
    }
    const isNext = before !== undefined && time - before <= gap;
    line += isNext ? `L${x(time).toFixed(1)} ${y(value).toFixed(1)}` : `M${x(time).toFixed(1)} ${y(value).toFixed(1)}h.1`;
    before = time;
  }
  return line;
}
