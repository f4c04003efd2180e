import { useEffect, useMemo, useState } from "preact/hooks";
import { ConnectionError, ask, read, type Page, type Read } from "../api.js";
import { go, href, place, setParams, withParams } from "../router.js";
import { Copy, Empty, Filter, Head, More, Problem, curl } from "../ui/parts.js";
import { Time } from "../ui/time.js";
import { REFUSALS, Refusals } from "./refusals.js";
import { TryCommit } from "./trial.js";
import { Chip, MODELS, MODEL_NAMES, byInterest, modelOf, objectOf, summary, type Commit } from "./entries.js";

/** How many commits the page holds at most. */
const COMMITS_MAX = 1_000;

/** How many entries a row shows. */
const CHIPS_MAX = 6;

/** How long the server may wait for a commit. */
const WAIT_MS = 20_000;

/**
 * The number of reads before the page lets the server wait for a commit. A program that takes a picture of the page waits
 * for a time without requests.
 */
const TURNS = 10;

/** The pause before each of these reads. */
const TURN_MS = 1_000;

interface CommitPage extends Page<Commit> {
  head: number;
}

const NEWEST: Read = { route: "/v1/commits", query: { limit: 50 } };

/** The log: the newest commits, then new ones as they arrive. */
function useLog(isPaused: boolean) {
  const [commits, setCommits] = useState<Commit[]>();
  const [older, setOlder] = useState<string | number | null>(null);
  const [error, setError] = useState<Error>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (isPaused) return;
    const ended = new AbortController();
    const { signal } = ended;
    const follow = async (): Promise<void> => {
      const page = await read<CommitPage>(NEWEST, signal);
      setCommits(page.data);
      setOlder(page.next_cursor);
      setError(undefined);
      for (let after = page.head, turn = 0; ; turn++) {
        const waitMs = turn < TURNS ? 0 : WAIT_MS;
        if (waitMs === 0) await new Promise((resolve) => setTimeout(resolve, TURN_MS));
        const next = await ask((quire) =>
          quire.get<CommitPage>("/v1/commits", { after, wait_ms: waitMs, limit: 200 }, { waitMs, signal }));
        const last = next.data.at(-1)?.position ?? after;
        after = next.has_more ? Math.max(after, last) : next.head;
        const arrived = next.data.toReversed();
        if (arrived.length > 0) setCommits((commits = []) => [...arrived, ...commits].slice(0, COMMITS_MAX));
      }
    };
    const run = async (): Promise<void> => {
      while (!signal.aborted) {
        try {
          await follow();
        } catch (error) {
          if (signal.aborted) return;
          setError(error as Error);
          if (!(error instanceof ConnectionError)) return;
          await new Promise((resolve) => setTimeout(resolve, 2_000));
        }
      }
    };
    void run();
    return () => ended.abort();
  }, [isPaused, turn]);
  const more = older === null ? undefined : (): void => {
    read<CommitPage>({ route: "/v1/commits", query: { cursor: older, limit: 100 } }).then(
      (page) => {
        setCommits((commits = []) => [...commits, ...page.data]);
        setOlder(page.next_cursor);
      },
      (error: unknown) => setError(error as Error),
    );
  };
  return { commits, older, error, more, reload: () => setTurn((turn) => turn + 1) };
}

/** The views of the page, by their parameter. */
const VIEWS = [["", "Log"], ["refusals", "Refusals"], ["try", "Try a commit"]] as const;

export function Commits() {
  const view = place.value.params.get("view") ?? "";
  if (view === "refusals") {
    return (
      <>
        <Head title="Commits" read={REFUSALS} />
        <Views current={view} />
        <p class="lead">The last commits that the server refused, and what they conflicted with.</p>
        <Refusals />
      </>
    );
  }
  if (view === "try") {
    return (
      <>
        <Head title="Commits" />
        <Views current={view} />
        <p class="lead">Would this commit pass now, and what would it write?</p>
        <TryCommit />
      </>
    );
  }
  return <Log />;
}

function Views({ current }: { current: string }) {
  return (
    <div class="views" role="navigation" aria-label="Views of the commits">
      {VIEWS.map(([view, name]) => (
        <a key={view} href={withParams(href("commits"), { view })} aria-current={view === current ? "page" : undefined}>{name}</a>
      ))}
    </div>
  );
}

function Log() {
  const { params } = place.value;
  const isPaused = params.get("paused") === "1";
  const text = params.get("text") ?? "";
  const hide = params.get("hide") ?? "";
  const isSystemShown = params.get("system") === "1";
  const hidden = useMemo(() => new Set([...hide.split(",").filter((model) => model !== ""), ...(isSystemShown ? [] : ["system"])]), [hide, isSystemShown]);
  const { commits, older, error, more, reload } = useLog(isPaused);
  const shown = useMemo(() => {
    const words = text.toLowerCase();
    const fits = (commit: Commit): boolean => commit.entries.some((entry) =>
      !hidden.has(modelOf(entry)) &&
      (words === "" || `${entry.kind} ${summary(entry)} ${objectOf(entry) ?? ""} ${entry.event?.tags.join(" ") ?? ""}`.toLowerCase().includes(words)));
    return commits?.filter(fits);
  }, [commits, text, hidden]);
  const toggle = (model: string): void => {
    if (model === "system") return setParams({ system: isSystemShown ? undefined : "1" });
    const next = new Set(hide.split(","));
    if (!next.delete(model)) next.add(model);
    setParams({ hide: [...next].filter((model) => model !== "").join(",") });
  };
  // A new cluster has entries of its own, and no data.
  const isOnlySystem = !isSystemShown && older === null && commits?.every((commit) => commit.entries.every((entry) => modelOf(entry) === "system")) === true;
  return (
    <>
      <Head title="Commits">
        <button type="button" aria-pressed={isPaused} onClick={() => setParams({ paused: isPaused ? undefined : "1" })}>
          {isPaused ? "Resume" : "Pause"}
        </button>
        <Copy label="Copy as curl" text={() => curl(NEWEST)} />
      </Head>
      <Views current="" />
      <p class="lead">The log of the database, {isPaused ? "paused" : "live"}. A commit writes to any models at once: all of it, or nothing.</p>
      <div class="filters">
        <Filter label="Contains" value={text} placeholder="type, tag, name, job …" onChange={(text) => setParams({ text })} />
        <JumpTo />
        <fieldset class="toggles">
          <legend>Models</legend>
          {MODELS.map((model) => (
            <button key={model} type="button" class={`toggle model-${model}`} aria-pressed={!hidden.has(model)} title={model === "system" ? "Entries of Quire itself: idempotency keys, users, rules, terms" : undefined} onClick={() => toggle(model)}>
              {MODEL_NAMES[model]}
            </button>
          ))}
        </fieldset>
      </div>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {shown === undefined ? error === undefined && <p class="faint" aria-busy="true">Reading …</p>
        : isOnlySystem ? <NoCommits title={commits?.length === 0 ? "The log is empty" : "No data yet"} />
        : shown.length === 0 ? <Empty title="No commit fits">Of the {commits?.length} newest commits, none fits the filters.{!isSystemShown && " Entries of the system are hidden."}</Empty>
        : <ol class="log">{shown.map((commit) => <Row key={commit.position} commit={commit} hidden={hidden} />)}</ol>}
      <More more={shown === undefined ? undefined : more} />
    </>
  );
}

function Row({ commit, hidden }: { commit: Commit; hidden: Set<string> }) {
  const entries = byInterest(commit.entries.filter((entry) => !hidden.has(modelOf(entry))));
  const rest = entries.length - CHIPS_MAX;
  return (
    <li>
      <a href={href("commits", commit.position)} data-row>
        <span class="log-position">{commit.position}</span>
        <span class="log-time"><Time ms={commit.time_ms} /></span>
        <span class="chips">
          {entries.slice(0, CHIPS_MAX).map((entry) => <Chip key={entry.entry} entry={entry} />)}
          {(rest > 0 || commit.next_entry !== null) && <span class="chip">+{Math.max(rest, 0)}{commit.next_entry !== null ? " and more" : ""}</span>}
        </span>
      </a>
    </li>
  );
}

function JumpTo() {
  return (
    <form
      class="filter"
      onSubmit={(event) => {
        event.preventDefault();
        const position = new FormData(event.currentTarget).get("position");
        if (typeof position === "string" && position !== "") go(href("commits", position));
      }}
    >
      <label for="jump">Go to position</label>
      <input id="jump" name="position" type="number" min="1" inputMode="numeric" placeholder="17" />
    </form>
  );
}

function NoCommits({ title }: { title: string }) {
  const origin = window.location.origin;
  return (
    <Empty
      title={title}
      command={`curl -s ${origin}/v1/commit --json '{"parts": [\n  {"append": {"store": "shop/orders", "events": [{"type": "OrderPlaced", "tags": ["order:17"]}]}},\n  {"enqueue": {"queue": "shop/charges", "payload": {"order": 17}}}]}'`}
    >
      Make the first commit: an event and a job, in one step. It appears here at once.
    </Empty>
  );
}
