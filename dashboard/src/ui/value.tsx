import type { Json } from "../api.js";

/** The largest text that is shown at once. */
const TEXT_MAX = 20_000;

/** A value of any model: JSON with its parts in colour, or text. Nothing in it is ever markup. `name` says what it is. */
export function Value({ value, name = "value" }: { value: Json | undefined; name?: string }) {
  if (value === undefined || value === null) return <p class="faint">No {name}</p>;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (text === "") return <p class="faint">Empty {name}</p>;
  const shown = text.slice(0, TEXT_MAX);
  return (
    <>
      <pre class="value" tabIndex={0}>{typeof value === "string" ? shown : coloured(shown)}</pre>
      {shown.length < text.length && <p class="faint">The first {TEXT_MAX} of {text.length} characters.</p>}
    </>
  );
}

const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function coloured(text: string) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    const [token, string, colon] = match;
    const kind = string === undefined ? "json-other" : colon === undefined ? "json-text" : "json-name";
    parts.push(text.slice(end, match.index), <span class={kind}>{string ?? token}</span>, colon ?? "");
    end = match.index + token.length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** A value on one line. */
export function oneLine(value: Json | undefined, length = 120): string {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

export function tagText(tag: string | { base64: string }): string {
  return typeof tag === "string" ? tag : `base64:${tag.base64}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count: number): string {
  const unit = count < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(count) / 10));
  const number = count / 1024 ** unit;
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${UNITS[unit]}`;
}

export function count(number: number): string {
  return number.toLocaleString("en-US");
}
