import { signal } from "@preact/signals";
import { times } from "./settings.js";

/** The time by the clock of this machine, every second. */
const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);

const STEPS: readonly [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]];

/** A duration in one unit: `3 min`. */
export function duration(ms: number): string {
  const [size, unit] = STEPS.find(([size]) => Math.abs(ms) >= size) ?? [1_000, "s"];
  return `${Math.floor(Math.abs(ms) / size)} ${unit}`;
}

function age(ms: number): string {
  // The clocks of two machines differ a little.
  if (Math.abs(ms) < 2_000) return "now";
  return ms > 0 ? `${duration(ms)} ago` : `in ${duration(ms)}`;
}

function absolute(time: Date): string {
  const part = (number: number, digits = 2): string => String(number).padStart(digits, "0");
  const day = `${time.getFullYear()}-${part(time.getMonth() + 1)}-${part(time.getDate())}`;
  return `${day} ${part(time.getHours())}:${part(time.getMinutes())}:${part(time.getSeconds())}.${part(time.getMilliseconds(), 3)}`;
}

/** The time of day: `14:05`. */
export function clock(ms: number): string {
  return absolute(new Date(ms)).slice(11, 16);
}

/** A point in time, as an age or as such; the other form is its tooltip. */
export function Time({ ms }: { ms: number }) {
  const time = new Date(ms);
  const forms = [age(now.value - ms), absolute(time)] as const;
  const isRelative = times.value === "relative";
  return (
    <time dateTime={time.toISOString()} title={isRelative ? forms[1] : forms[0]}>
      {isRelative ? forms[0] : forms[1]}
    </time>
  );
}
