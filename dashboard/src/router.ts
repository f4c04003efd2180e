import { computed, signal } from "@preact/signals";

/** The prefix of all pages. */
const BASE = "/ui";

export interface Place {
  /** The segments of the path behind the prefix, decoded. */
  segments: string[];
  params: URLSearchParams;
}

const address = signal(window.location.pathname + window.location.search);

export const place = computed<Place>(() => {
  const url = new URL(address.value, window.location.origin);
  const segments = url.pathname.slice(url.pathname.startsWith(BASE) ? BASE.length : 0).split("/").filter((segment) => segment !== "");
  return { segments: segments.map(decoded), params: url.searchParams };
});

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The address of a page: `href("queues", "shop/orders")`. */
export function href(...segments: (string | number)[]): string {
  return [BASE, ...segments.map((segment) => encodeURIComponent(segment))].join("/");
}

/** An address with parameters; those that are empty are left out. */
export function withParams(address: string, params: Record<string, string | number | undefined>): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") pairs.set(name, String(value));
  }
  const text = pairs.toString();
  return text === "" ? address : `${address}?${text}`;
}

export function go(to: string, { replace = false } = {}): void {
  if (replace) window.history.replaceState(null, "", to);
  else window.history.pushState(null, "", to);
  address.value = to;
}

/** Sets parameters of this page in its address. */
export function setParams(params: Record<string, string | undefined>): void {
  const now = new URLSearchParams(place.value.params);
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === "") now.delete(name);
    else now.set(name, value);
  }
  const text = now.toString();
  go(window.location.pathname + (text === "" ? "" : `?${text}`), { replace: true });
}

/** Follows links within the dashboard without a new page, and the buttons of the browser. */
export function startRouter(): void {
  window.addEventListener("popstate", () => {
    address.value = window.location.pathname + window.location.search;
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest("a");
    if (link === null || link === undefined || link.target !== "" || link.origin !== window.location.origin) return;
    if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
    event.preventDefault();
    go(link.pathname + link.search);
    window.scrollTo(0, 0);
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  });
}
