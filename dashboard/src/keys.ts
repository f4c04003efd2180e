import { go, href } from "./router.js";

/** The keys of the pages, after `g`. */
export const PAGES: readonly { key: string; name: string; segment: string }[] = [
  { key: "c", name: "Commits", segment: "commits" },
  { key: "o", name: "Overview", segment: "overview" },
  { key: "j", name: "Jobs", segment: "jobs" },
  { key: "t", name: "Topics", segment: "topics" },
  { key: "u", name: "Groups", segment: "groups" },
  { key: "e", name: "Stores", segment: "stores" },
  { key: "g", name: "Graphs", segment: "graphs" },
  { key: "q", name: "Query", segment: "query" },
  { key: "s", name: "Storage", segment: "storage" },
  { key: "n", name: "Cluster", segment: "cluster" },
  { key: "a", name: "Access", segment: "access" },
];

/** How long `g` waits for the key of a page. */
const CHORD_MS = 1_500;

/** The keyboard: `g` and a page, `j` and `k` between rows, `/` to the first filter, `?` for help. */
export function startKeys(): void {
  let begun = 0;
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = target.matches("input, select, textarea") || document.querySelector("dialog[open]") !== null;
    if (event.key === "Escape" && target.matches("input")) target.blur();
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = PAGES.find((page) => page.key === event.key);
    if (performance.now() - begun < CHORD_MS && page !== undefined) {
      begun = 0;
      go(href(page.segment));
    } else if (event.key === "g") {
      begun = performance.now();
    } else if (event.key === "j" || event.key === "k") {
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "/") {
      document.querySelector<HTMLElement>(".filters input")?.focus();
    } else if (event.key === "?") {
      document.querySelector<HTMLDialogElement>("#help")?.showModal();
    } else {
      return;
    }
    event.preventDefault();
  });
}

function move(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[at === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}
