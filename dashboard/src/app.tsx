import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { findSession, isOffline, isReady, isSignedIn, LOGIN, needsKey, principal, provider, signIn, signOut } from "./api.js";
import { PAGES } from "./keys.js";
import { go, href, place, setParams } from "./router.js";
import { Command, Empty, Head } from "./ui/parts.js";
import { THEMES, theme, times } from "./ui/settings.js";
import { Cluster } from "./pages/cluster.js";
import { Commit } from "./pages/commit.js";
import { Commits } from "./pages/commits.js";
import { GraphPage, Graphs } from "./pages/graphs.js";
import { Job, Jobs } from "./pages/jobs.js";
import { Overview } from "./pages/overview.js";
import { Query } from "./pages/query.js";
import { Access, Storage } from "./pages/storage.js";
import { StorePage, Stores } from "./pages/stores.js";
import { GroupPage, Groups, TopicPage, Topics } from "./pages/topics.js";

/** The page of an address: its list, or with a name one of its objects. */
function page(segments: string[]): ComponentChildren {
  const [kind, name] = segments;
  if (segments.length > 2) return <Unknown />;
  switch (kind) {
    case undefined:
    case "commits":
      return name === undefined ? <Commits /> : <Commit key={name} position={name} />;
    case "overview":
      return <Overview />;
    case "jobs":
      return name === undefined ? <Jobs /> : <Job key={name} id={name} />;
    case "topics":
      return name === undefined ? <Topics /> : <TopicPage key={name} name={name} />;
    case "groups":
      return name === undefined ? <Groups /> : <GroupPage key={name} name={name} />;
    case "stores":
      return name === undefined ? <Stores /> : <StorePage key={name} name={name} />;
    case "graphs":
      return name === undefined ? <Graphs /> : <GraphPage key={name} name={name} />;
    case "query":
      return name === undefined ? <Query /> : <Unknown />;
    case "storage":
      return <Storage />;
    case "cluster":
      return name === undefined ? <Cluster /> : <Unknown />;
    case "access":
      return <Access />;
    default:
      return <Unknown />;
  }
}

function Unknown() {
  return (
    <>
      <Head title="No such page" />
      <Empty title="This address has no page"><a href={href("commits")}>Go to the commits</a></Empty>
    </>
  );
}

export function App() {
  const { segments } = place.value;
  const current = segments[0] ?? "commits";
  const name = PAGES.find((page) => page.segment === current)?.name ?? "Quire";
  useEffect(() => void findSession(), []);
  useEffect(() => {
    document.title = segments[1] === undefined ? `${name} · Quire` : `${segments[1]} · ${name} · Quire`;
  }, [name, segments[1]]);
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <header class="top">
        <a class="brand" href={href("commits")}><Mark />Quire</a>
        {!needsKey.value && <Pages current={current} />}
        <Settings />
      </header>
      {isOffline.value && <p class="banner" role="status">The server does not answer. This page shows what it read last, and tries again.</p>}
      <main id="main" tabIndex={-1}>{needsKey.value ? <Login /> : isReady.value ? page(segments) : <p class="faint" aria-busy="true">Reading …</p>}</main>
      <Help />
    </>
  );
}

/** The links to the pages, on one line. The line scrolls in a narrow window. */
function Pages({ current }: { current: string }) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    const showCurrent = (): void => {
      const link = bar.current?.querySelector<HTMLElement>("[aria-current]");
      if (link) bar.current?.scrollTo({ left: link.offsetLeft - (bar.current.clientWidth - link.offsetWidth) / 2 });
    };
    showCurrent();
    window.addEventListener("resize", showCurrent);
    return () => window.removeEventListener("resize", showCurrent);
  }, [current]);
  return (
    <nav ref={bar} aria-label="Pages">
      {PAGES.map((page) => (
        <a key={page.segment} href={href(page.segment)} aria-current={page.segment === current ? "page" : undefined} title={`g ${page.key}`}>{page.name}</a>
      ))}
    </nav>
  );
}

/** A menu. `Escape` and a click outside close it. */
function Settings() {
  return (
    <div class="tools">
      <button type="button" class="quiet" popovertarget="settings">Settings</button>
      <div id="settings" popover="auto" class="menu">
        <button type="button" class="quiet" onClick={() => (times.value = times.value === "relative" ? "absolute" : "relative")}>
          Times: {times.value === "relative" ? "ages" : "exact"}
        </button>
        <button type="button" class="quiet" onClick={() => (theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto")}>
          Theme: {theme.value}
        </button>
        <button type="button" class="quiet" popovertarget="settings" popovertargetaction="hide" onClick={() => document.querySelector<HTMLDialogElement>("#help")?.showModal()}>Keys</button>
        {isSignedIn() && (
          <>
            {principal.value !== null && <p class="faint">Signed in as {principal.value}</p>}
            <button type="button" class="quiet" popovertarget="settings" popovertargetaction="hide" onClick={() => { void signOut().then(() => go(href("commits"))); }}>Log out</button>
          </>
        )}
      </div>
    </div>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <path class="line-events" d="M2 3h16" /><path class="line-jobs" d="M2 7.6h16" /><path class="line-streams" d="M2 12.2h16" /><path class="line-graph" d="M2 16.8h16" />
    </svg>
  );
}

/** Why a sign-in at the provider failed, by the parameter `login` of the address. */
const FAILURES: Record<string, string> = {
  refused: "The sign-in did not succeed. Try again, or ask an administrator: the log of the server has the reason.",
  unavailable: "The server could not use the sign-in provider. Try again later: the log of the server has the reason.",
};

function Login() {
  const failure = FAILURES[place.value.params.get("login") ?? ""];
  const [message, setMessage] = useState(failure ?? (isSignedIn() ? "Your session has ended. Sign in again." : ""));
  return (
    <form
      class="login"
      onSubmit={(event) => {
        event.preventDefault();
        const key = new FormData(event.currentTarget).get("key");
        signIn(String(key).trim()).then(
          (problem) => {
            if (problem === undefined) setParams({ login: undefined });
            setMessage(problem ?? "");
          },
          (error: unknown) => setMessage((error as Error).message),
        );
      }}
    >
      <h1>API key</h1>
      <p>This server has access control. You stay signed in for 12 hours, and for 30 minutes without a request, and see what the key may read.</p>
      <label for="key">API key</label>
      <input id="key" name="key" type="password" autocomplete="off" required />
      {message !== "" && <p class="bad" role="alert">{message}</p>}
      <button type="submit" class="solid">Log in</button>
      {/* A target, because the server answers this address, and not a page of the dashboard. */}
      {provider.value !== undefined && <a class="button" href={LOGIN} target="_self">Sign in with {provider.value}</a>}
      <p class="faint">You have no key? An administrator creates one. The first administrator has the key of <code>quire access init</code>.</p>
      <Command text={`quire access key new USER \\\n    --http ${window.location.origin} \\\n    --key-file root.key`} />
    </form>
  );
}

function Help() {
  return (
    <dialog id="help" aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {PAGES.map((page) => <div key={page.key}><dt><kbd>g</kbd> <kbd>{page.key}</kbd></dt><dd>{page.name}</dd></div>)}
        <div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next and previous row</dd></div>
        <div><dt><kbd>Enter</kbd></dt><dd>open the row</dd></div>
        <div><dt><kbd>/</kbd></dt><dd>first filter</dd></div>
        <div><dt><kbd>?</kbd></dt><dd>this help</dd></div>
      </dl>
      <form method="dialog"><button type="submit" class="solid">Close</button></form>
    </dialog>
  );
}
