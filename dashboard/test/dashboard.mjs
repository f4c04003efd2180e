// The dashboard in headless Chromium, on a server of its own with data that is meant to break it.
//
//   node test/dashboard.mjs QUIRE CHROMIUM [SHOTS]
//
// With SHOTS, a directory, it also takes a picture of each page in light and dark. With the variable BUNDLE, a directory, the
// browser gets the pages from there in place of those in the program QUIRE. With QUIRE_DASHBOARD_LARGE=1, it also opens the
// pages with 1,000,000 jobs and 10,000 topics.
import { execFileSync, spawn } from "node:child_process";
import { generateKeyPairSync, sign } from "node:crypto";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [quire, browserName, shots] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A text that would run as script, if a page took it for markup. */
const HOSTILE = `<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>`;
/** The store, queue and graph with such texts. Their own names can not have them. */
const HOSTILE_NAME = "shop/hostile";
/** The widths of a telephone, a tablet and a laptop. */
const WIDTHS = [400, 800, 1280];
/** The longest text of a table that must not break, in characters. */
const NAME_MAX = 24;
/** The files of another bundle than that of the program. */
const bundle = process.env.BUNDLE;
const KINDS = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };

const directory = mkdtempSync(join(tmpdir(), "quire-dashboard-"));

/** Starts a server, and returns its process, its address, and that for other nodes. */
async function serve(http, { data = "data", flags = ["--durability", "os"] } = {}) {
  const args = ["serve", "--data", join(directory, data), "--http", http, "--kafka", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--log", "error", ...flags];
  const server = spawn(quire, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: server.stdout });
  let peers;
  for await (const line of lines) {
    peers ??= /^cluster\s+node \d+ on (\S+)/.exec(line)?.[1];
    const address = /^http\s+(\S+)/.exec(line)?.[1];
    if (address !== undefined) {
      lines.close();
      server.stdout.resume();
      return { server, url: `http://${address}`, peers };
    }
  }
  throw new Error("the server ended before it listened");
}

/** Kills a server, and returns when its process has ended. */
async function kill({ server }) {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGKILL");
  await ended;
}

/** A context of the browser. */
async function contextOf(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  if (bundle !== undefined) {
    const isFile = ({ pathname }) => /^\/(ui(\/.*)?)?$/.test(pathname) && !/^\/ui\/(session|login)/.test(pathname);
    await context.route(isFile, (route) => {
      const { pathname } = new URL(route.request().url());
      const name = pathname.startsWith("/ui/assets/") ? pathname.slice("/ui/".length) : "index.html";
      return route.fulfill({ body: readFileSync(join(bundle, name)), contentType: KINDS[name.split(".").at(-1)] });
    });
  }
  return context;
}

async function post(url, body, headers = {}) {
  headers = { "content-type": "application/json", ...headers };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(response.ok, `${url}: ${JSON.stringify(answer)}`);
  return answer;
}

/** An order in all four models, dead and completed jobs, and hostile names and values everywhere. */
async function fill(url) {
  const bills = Array.from({ length: 7 }, (_, bill) => ({ enqueue: { queue: "shop/bulk", kind: "send-bill", payload: { bill } } }));
  await post(`${url}/v1/commit`, { parts: bills });
  const order = await post(`${url}/v1/commit`, {
    parts: [
      { create_topic: { name: "orders", partitions: 2 } },
      { append: { store: "shop/orders", events: [{ type: "OrderPlaced", tags: ["order:17", "customer:ada"], data: { item: "lamp", cents: 4900 } }] } },
      { enqueue: { queue: "shop/payments", kind: "take-payment", tags: ["order:17"], payload: { order: 17, cents: 4900 } } },
      { put_block: { graph: "shop/items", block: "ada", kind: "customer", content: { city: "London" } } },
      { put_block: { graph: "shop/items", block: "lamp", kind: "item", tags: ["sale"], content: { cents: 4900 } } },
      { put_edge: { graph: "shop/items", source: "ada", type: "bought", target: "lamp" } },
    ],
  });
  const produced = await post(`${url}/v1/commit`, {
    parts: [
      { produce: { topic: "orders", partition: 0, key: "17", value: { order: 17 } } },
      { append: { store: "shop/orders", events: [{ type: "OrderPaid", tags: ["order:17"] }] } },
      { enqueue: { queue: "shop/mails", kind: "receipt", payload: { to: "ada" } } },
      { put_edge: { graph: "shop/items", source: "ada", type: "reviewed", target: "lamp" } },
    ],
  });
  const { jobs } = await post(`${url}/v1/queues/shop%2Fpayments/fetch`, { worker: "payer-1" });
  const [{ job, token }] = jobs;
  await post(`${url}/v1/jobs/${job}/fail`, { token, error: `card declined ${HOSTILE}`, retry: "never" });
  await post(`${url}/v1/commit`, { parts: [{ commit_offset: { group: "billing", topic: "orders", partition: 0, offset: 0 } }] }, { "idempotency-key": "billing-0" });
  const hostile = await post(`${url}/v1/commit`, {
    parts: [
      { append: { store: HOSTILE_NAME, events: [{ type: HOSTILE, tags: [HOSTILE], data: HOSTILE, metadata: { note: HOSTILE } }] } },
      { enqueue: { queue: HOSTILE_NAME, kind: HOSTILE, tags: [HOSTILE], payload: { note: HOSTILE } } },
      { produce: { topic: "orders", partition: 1, key: HOSTILE, value: { note: HOSTILE }, headers: [{ key: HOSTILE, value: HOSTILE }] } },
      { put_block: { graph: HOSTILE_NAME, block: HOSTILE, kind: HOSTILE, tags: [HOSTILE], content: HOSTILE } },
      { put_block: { graph: HOSTILE_NAME, block: "safe", kind: HOSTILE } },
      { put_edge: { graph: HOSTILE_NAME, source: HOSTILE, type: HOSTILE, target: "safe" } },
    ],
  });
  for (const parts of [
    [
      { enqueue: { queue: "shop/mails", payload: HOSTILE } },
      { append: { store: "shop/orders", events: [{ type: "OrderPlaced", tags: ["order:17"] }], conditions: [{ fail_if_events_match: { items: [{ tags: ["customer:ada"] }] } }] } },
    ],
    [{ put_edge: { graph: HOSTILE_NAME, source: `missing ${HOSTILE}`, type: HOSTILE, target: "safe" } }],
  ]) {
    const { status } = await fetch(`${url}/v1/commit`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ parts }) });
    assert.ok(status === 404 || status === 409, `a commit is refused, got ${status}`);
  }
  return { order: order.position, produced: produced.position, hostile: hostile.position, job };
}

/** An hour of figures, with a restart of the server in it. A server that just started has none. */
function hour() {
  const now = Date.now();
  const samples = Array.from({ length: 360 }, (_, index) => {
    const wave = Math.sin(index / 23) + 1;
    return {
      time_ms: now - (359 - index) * 10_000, commits: Math.round(4_000 * wave), refusals: index % 60 === 0 ? 900 : 3, entries: 9_000, log_bytes: Math.round(1_900_000 * wave),
      syncs: 300, requests: Math.round(5_200 * wave), commit_p99_ms: 2.5 + wave, sync_p99_ms: index % 90 < 5 ? null : 1.1 + wave / 2, connections: 12 + (index % 40),
      client_bytes: 65_536 * (1 + (index % 7)), lag: Math.max(0, 30_000 - index * 100), oldest_pending_ms: index % 120 < 60 ? 1_000 * (index % 120) : null, disk_free_bytes: 8e10,
    };
  });
  return { interval_ms: 10_000, samples: samples.filter((_, index) => index < 200 || index > 212) };
}

const HOUR = hour();

const checks = [];

/** Adds a check: a page, what must appear on it, and what else to do there. */
function check(name, path, text, act = async () => {}) {
  checks.push({ name, path, text, act });
}

function addChecks({ order, produced, hostile: hostileCommit, job }) {
  const hostile = encodeURIComponent(HOSTILE_NAME);
  check("commits", "", "OrderPlaced", async (page, url) => {
    // A new commit appears by itself.
    await post(`${url}/v1/commit`, { parts: [{ append: { store: "shop/orders", events: [{ type: "OrderShipped" }] } }] });
    await page.getByText("OrderShipped").first().waitFor();
    // The row leads to the commit, with the keyboard alone.
    await page.getByLabel("Contains").fill("OrderPaid");
    await page.locator(".log li").nth(1).waitFor({ state: "detached" });
    await page.locator("h1").focus();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `Commit ${produced}` }).waitFor();
  });
  check("commit", `/commits/${order}`, "OrderPlaced", async (page) => {
    for (const model of ["Events", "Jobs", "Graphs"]) await page.locator(".card .badge", { hasText: model }).first().waitFor();
    await page.locator(".chip", { hasText: "topic created" }).waitFor();
    await page.locator(".card", { hasText: "OrderPlaced" }).getByText("4900").waitFor();
    await page.locator(".card", { hasText: "─bought▶" }).getByText("lamp", { exact: true }).waitFor();
  });
  check("commits with system entries", "", "OrderPlaced", async (page) => {
    // Entries of the system are hidden until the reader asks for them, and the address has that.
    await page.getByText("commit answered").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "System" }).click();
    await page.waitForURL(/system=1/);
    await page.locator(".chip[title*='idempotency key']", { hasText: "commit answered" }).first().waitFor();
    await page.reload();
    await page.getByText("commit answered").first().waitFor();
  });
  check("commits with exact times", "", "OrderPlaced", async (page) => {
    await page.getByRole("button", { name: "Settings" }).focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Times: exact" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Times: exact" }).waitFor({ state: "hidden" });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 860 });
      const apart = await page.locator(".log a").evaluateAll((rows) => rows.every((row) => {
        const [time, chips] = [row.querySelector("time"), row.querySelector(".chips")].map((part) => part.getBoundingClientRect());
        return time.right <= chips.left || time.bottom <= chips.top;
      }));
      assert.ok(apart, `at ${width}, a time runs into the entries`);
      await fits(page, `commits with exact times at ${width}`);
    }
    await page.evaluate(() => localStorage.clear());
  });
  check("commit with a block", `/commits/${hostileCommit}`, "version 1 (current)", async (page) => {
    const [version, none] = [page.getByText("version 1 (current)").last(), page.getByText("No content")];
    const [above, below] = [await version.boundingBox(), await none.boundingBox()];
    assert.ok(above.y + above.height <= below.y, "the version and the content are two lines");
  });
  check("refusals", "/commits?view=refusals", "condition_failed", async (page, url) => {
    await page.getByText("missing <img").first().waitFor();
    await page.locator(".records li", { hasText: "condition_failed" }).last().locator("summary").click();
    await page.getByText("A condition does not hold.").waitFor();
    assert.deepEqual(await page.locator("details[open] .facts div", { hasText: "Part" }).locator("dd").allTextContents(), ["1"]);
    await withoutViolations(page, "an open refusal");
    // A new one appears by itself, and a dry run does not.
    const refused = { parts: [{ ack: { job: "1-0", token: "1-0" } }] };
    for (const query of ["?dry_run=true", ""]) {
      await fetch(`${url}/v1/commit${query}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(refused) });
    }
    await page.locator(".records li").nth(2).waitFor();
    assert.equal(await page.locator(".records li").count(), 3);
    await page.getByRole("link", { name: "Look at event 1 of shop/orders" }).click();
    await page.getByRole("heading", { name: "shop/orders" }).waitFor();
  });
  check("try a commit", "/commits?view=try", "A dry run changes nothing", async (page) => {
    const body = page.getByLabel("The body of POST /v1/commit");
    // The order of the example is there.
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByRole("alert").getByText("The commit would be refused, because of part 0").waitFor();
    await page.getByRole("link", { name: "Look at event 1 of shop/orders" }).waitFor();
    await withoutViolations(page, "a refused dry run");
    await fitsEverywhere(page, "a refused dry run");
    await body.fill("{");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("alert").getByText("This is no JSON").waitFor();
    await body.fill(JSON.stringify({ parts: [
      { append: { store: "shop/tried", events: [{ type: HOSTILE, tags: [HOSTILE] }] } },
      { enqueue: { queue: "shop/tried", payload: { note: HOSTILE } } },
      { put_block: { graph: "shop/tried", block: HOSTILE, kind: "tried" } },
    ] }, null, 2));
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByRole("status").getByText("The commit would pass").waitFor();
    await page.locator(".chip", { hasText: "event appended" }).waitFor();
    assert.equal(await page.locator(".replies li").count(), 3);
    await withoutViolations(page, "a dry run");
    await fitsEverywhere(page, "a dry run");
    if (shots !== undefined) await page.screenshot({ path: join(shots, "dry-run.png"), fullPage: true });
    // The address has the commit, and nothing was committed.
    await page.reload();
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByRole("status").getByText("The commit would pass").waitFor();
    await page.getByRole("button", { name: "Commit it" }).click();
    await page.locator("dialog[open]").getByText("This writes").waitFor();
    await page.getByRole("button", { name: "Commit", exact: true }).click();
    await page.getByRole("heading", { name: /^Commit \d+$/ }).waitFor();
    await page.locator(".card", { hasText: "shop/tried" }).first().waitFor();
  });
  check("overview", "/overview", "shop/payments", async (page) => {
    const chart = page.locator(".chart", { hasText: "Lag of all groups" });
    assert.equal(await page.locator(".chart").count(), 8);
    await chart.locator(".chart-area").hover({ position: { x: 1, y: 20 } });
    await chart.locator(".chart-value", { hasText: "30,000" }).waitFor();
    await chart.locator(".chart-area").focus();
    await page.keyboard.press("ArrowRight");
    await chart.locator(".chart-value", { hasText: "29,900" }).waitFor();
  });
  check("jobs", "/jobs", "take-payment", async (page) => {
    await page.getByLabel("State").selectOption("dead");
    await page.waitForURL(/state=dead/);
    await page.getByText("card declined").first().waitFor();
    await page.reload();
    await page.getByText("card declined").first().waitFor();
    assert.equal(await page.locator("tbody tr").count(), 1);
  });
  check("bulk", "/jobs?queue=shop%2Fbulk", "send-bill", async (page) => {
    await page.getByRole("button", { name: "Hold all" }).click();
    await page.locator("dialog[open]").getByText("7 jobs are selected: in shop/bulk, pending").waitFor();
    await page.getByRole("button", { name: "Hold 7 jobs" }).click();
    await page.locator("dialog[open]").getByText("Done: 7 changed, 0 refused").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.locator("tbody .badge", { hasText: "held" }).nth(6).waitFor();
  });
  check("job", `/jobs/${job}`, "card declined", async (page) => {
    await page.getByText("4900").first().waitFor();
    await page.locator(".attempts li", { hasText: "payer-1" }).locator(".badge", { hasText: "failed" }).waitFor();
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByRole("button", { name: "Keep as it is" }).click();
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByRole("button", { name: "Retry the job" }).click();
    await page.locator(".facts .badge", { hasText: "pending" }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.locator(".facts .badge", { hasText: "cancelled" }).waitFor();
  });
  check("topics", "/topics", "orders");
  check("topic", "/topics/orders?partition=0", "Records of partition 0", async (page) => {
    // A record alone is open.
    await page.locator("pre.value", { hasText: `"order"` }).waitFor();
    await page.getByRole("combobox", { name: "Partition" }).selectOption("1");
    await page.getByText("window.harmed").first().waitFor();
  });
  check("groups", "/groups", "billing", (page) => page.getByRole("cell", { name: "1", exact: true }).first().waitFor());
  check("group", "/groups/billing", "Offsets", async (page) => {
    await page.getByRole("button", { name: "Reset offsets" }).click();
    const dialog = page.locator("dialog[open]");
    await dialog.getByRole("combobox", { name: "To" }).selectOption("end");
    await dialog.getByText(/records? (is|are) skipped/).first().waitFor();
    await dialog.getByRole("button", { name: /Reset \d+ offset/ }).click();
    await page.locator("dialog[open]").waitFor({ state: "detached" });
    await page.locator(".facts div", { hasText: "Lag" }).getByText("0", { exact: true }).waitFor();
  });
  check("stores", "/stores", "shop/orders");
  check("store", "/stores/shop%2Forders", "OrderPaid", async (page) => {
    await page.getByLabel("Tags").fill("customer:ada");
    await page.getByText("OrderPaid").waitFor({ state: "detached" });
    await page.getByText("OrderPlaced").waitFor();
    await page.getByText("Test a condition").click();
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await page.getByText("The condition fails").waitFor();
    await page.locator(".tester").getByRole("link", { name: "event 1" }).waitFor();
    await page.getByLabel("Ignore events up to").fill("1");
    await page.waitForURL(/after=1/);
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await page.getByText("The condition holds").waitFor();
  });
  check("graphs", "/graphs", "shop/items");
  check("graph", "/graphs/shop%2Fitems", "lamp", async (page) => {
    await page.getByRole("link", { name: "ada" }).click();
    await page.getByRole("heading", { name: "ada" }).waitFor();
    await page.locator(".names").getByRole("link", { name: "lamp" }).first().waitFor();
  });
  check("storage", "/storage", "partitions_max", async (page) => {
    await page.getByRole("button", { name: "Compact" }).click();
    await page.locator("dialog[open]").getByRole("button", { name: "Compact" }).click();
    await page.getByRole("status").getByText("Compacted").waitFor();
  });
  check("query", `/query?sql=${encodeURIComponent("SELECT store, type, data FROM events ORDER BY position")}`, "OrderPlaced", async (page) => {
    await page.getByRole("link", { name: "shop/orders" }).first().waitFor();
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("VIRTUAL TABLE").waitFor();
    await page.getByLabel("SQL, read only").fill("SELECT name FROM nowhere");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("alert").getByText("nowhere").waitFor();
    await page.goBack();
  });
  check("query examples", "/query", "Ask the log", async (page) => {
    await page.getByRole("button", { name: "Jobs that died, and why" }).click();
    await page.getByText("scanned").waitFor();
  });
  check("hostile query", `/query?sql=${encodeURIComponent("SELECT * FROM events")}`, "window.harmed");
  check("no cluster", "/cluster", "makes a database the first node, with its records");
  check("access", "/access", "Access control is not enabled");
  check("none", "/nothing/here", "No such page");
  check("hostile store", `/stores/${hostile}`, "window.harmed", (page) => page.locator(".records summary").first().click());
  check("hostile jobs", `/jobs?queue=${hostile}`, "window.harmed");
  check("hostile graph", `/graphs/${hostile}?block=safe`, "window.harmed");
}

/** Waits until nothing on the page changes by itself, as far as a reader notices. */
async function settled(page) {
  await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
}

/** Checks that the page does not scroll sideways, that the header has no wrapped line, and that no name breaks in a table. */
async function fits(page, name) {
  const found = await page.evaluate((longest) => {
    const lines = (rects) => [...rects].filter(({ width }) => width > 0).reduce((tops, { top }) => (tops.some((known) => Math.abs(known - top) < 4) ? tops : [...tops, top]), []).length;
    const broken = [...document.querySelectorAll("td")].flatMap((cell) => {
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      const texts = [];
      while (walker.nextNode()) texts.push(walker.currentNode);
      return texts.filter(({ data }) => data.length <= longest && !/\s/.test(data)).filter((text) => {
        const range = document.createRange();
        range.selectNodeContents(text);
        return lines(range.getClientRects()) > 1;
      }).map(({ data }) => data);
    });
    const links = [...document.querySelectorAll(".top nav a")].map((link) => link.getBoundingClientRect());
    const { scrollWidth, clientWidth } = document.documentElement;
    return { broken, links: lines(links), sideways: scrollWidth - clientWidth };
  }, NAME_MAX);
  const { broken, links, sideways } = found;
  assert.deepEqual(broken, [], `${name}: texts break inside`);
  assert.ok(links <= 1, `${name}: the header has ${links} lines of links`);
  assert.ok(sideways <= 0, `${name}: the page is ${sideways} pixels wider than the window`);
}

/** Checks a page at each width. */
async function fitsEverywhere(page, name) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 860 });
    await fits(page, `${name} at ${width}`);
  }
}

/** Each kind of entry has a meaning in plain words. */
function meanings() {
  const [known, pageText] = ["../src/pages/kinds.ts", "../../docs/file-format.md"].map((name) => readFileSync(new URL(name, import.meta.url), "utf8"));
  const tables = pageText.split("\n\n").filter((part) => /^\| \w+ \| kind \| tags \|/.test(part));
  const causes = /The causes: ([^.]*)\./.exec(pageText)[1].split(/,\s+/).map((cause) => cause.replace(/^\d+\s+/, ""));
  const rows = tables.flatMap((table) => table.split("\n").slice(2).map((row) => row.split("|")[1].trim()));
  const kinds = [...causes, ...rows.filter((kind) => kind !== "steps")].map((kind) => kind.replaceAll(/\s/g, "_"));
  assert.ok(kinds.length > 60, "the kinds are on the page of the file format");
  assert.deepEqual(kinds.filter((kind) => !known.includes(`  ${kind}: "`)), [], "kinds without a meaning in kinds.ts");
}

async function withoutViolations(page, name) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map((node) => node.html).slice(0, 3).join("\n  ")}`);
  assert.deepEqual(found, [], `${name}: axe found\n${found.join("\n")}`);
}

async function run(browser, url) {
  const facts = await fill(url);
  addChecks(facts);
  for (const theme of ["light", "dark"]) {
    // The policy of the page stays in force; axe runs outside of it.
    const context = await contextOf(browser, { colorScheme: theme });
    await context.route("**/v1/history*", (route) => {
      const after = Number(new URL(route.request().url()).searchParams.get("after"));
      return route.fulfill({ json: { ...HOUR, samples: HOUR.samples.filter(({ time_ms }) => time_ms > after) } });
    });
    const page = await context.newPage();
    const failures = [];
    page.on("pageerror", (error) => failures.push(String(error)));
    page.on("console", (message) => message.text().includes("Content Security Policy") && failures.push(message.text()));
    for (const { name, path, text, act } of checks) {
      await page.goto(`${url}/ui${path}`);
      await page.getByText(text).first().waitFor().catch((error) => {
        throw new Error(`${name}: ${JSON.stringify(text)} is not on ${path}`, { cause: error });
      });
      await settled(page);
      if (shots !== undefined) await page.screenshot({ path: join(shots, `${name.replaceAll(" ", "-")}-${theme}.png`) });
      await withoutViolations(page, `${name} in ${theme}`);
      if (theme === "light") {
        await fitsEverywhere(page, name);
        await act(page, url);
      }
      assert.equal(await page.evaluate(() => window.harmed), undefined, `${name}: a text ran as script`);
      assert.deepEqual(failures, [], name);
      console.log(`ok ${theme} ${name}`);
    }
    await context.close();
  }
}

/** No page keeps the browser busy for a tenth of a second, with 1,000,000 jobs and 10,000 topics. */
async function large(browser) {
  const running = await serve("127.0.0.1:0", { data: "large" });
  const { url } = running;
  const range = (count) => Array.from({ length: count }, (_, number) => number);
  for (const thousand of range(10)) {
    await post(`${url}/v1/commit`, { parts: range(1_000).map((number) => ({ create_topic: { name: `topic-${thousand}-${number}`, partitions: 1 } })) });
  }
  for (const batch of range(100)) {
    await post(`${url}/v1/commit`, { parts: range(10_000).map((number) => ({ enqueue: { queue: `large/${batch}`, kind: "large", payload: { number } } })) });
  }
  const context = await contextOf(browser);
  const page = await context.newPage();
  await page.addInitScript(() => {
    window.longest = 0;
    const note = (list) => list.getEntries().forEach(({ duration }) => (window.longest = Math.max(window.longest, duration)));
    new PerformanceObserver(note).observe({ type: "longtask", buffered: true });
  });
  const visit = async (path, text, act) => {
    await page.goto(`${url}/ui${path}`);
    await page.getByText(text).first().waitFor();
    for (const _ of range(10)) await page.mouse.wheel(0, 800);
    await act();
    // Until the page has read its data again.
    await page.waitForResponse((response) => response.url().includes("/v1/"));
    await settled(page);
    const longest = await page.evaluate(() => window.longest);
    console.log(`ok ${path} with much data: the longest task took ${Math.round(longest)} ms`);
    assert.ok(longest < 100, `${path}: a task took ${longest} ms`);
  };
  await visit("/topics", "topic-0-0", async () => {
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByText("400 of 10,000 rows").waitFor();
    await page.getByLabel("Contains").fill("topic-9-999");
    await page.getByText("rows", { exact: false }).waitFor({ state: "detached" });
  });
  await visit("/jobs", "large", async () => {
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByLabel("State").selectOption("pending");
  });
  await visit("/overview", "large/0", async () => {});
  await context.close();
  await kill(running);
}

/** A page that is open while its server is killed shows that, and goes on when the server is back. */
async function killed(browser, running) {
  const { url } = running;
  const context = await contextOf(browser);
  const page = await context.newPage();
  await page.goto(`${url}/ui/overview`);
  await page.getByText("shop/payments").first().waitFor();
  // The server has taken samples by now.
  await page.locator(".chart", { hasText: "Commits a second" }).waitFor();
  await kill(running);
  await page.getByText("The server does not answer").first().waitFor();
  await page.getByText("shop/payments").first().waitFor();
  const next = await serve(new URL(url).host);
  await page.getByText("The server does not answer").first().waitFor({ state: "detached" });
  await context.close();
  console.log("ok the server is killed under a page");
  return next;
}

/** With access control, the page asks for a key, and shows what the key may read. */
async function locked(browser, { url }) {
  const { key } = await post(`${url}/v1/access/init`, { user: "root" });
  const context = await contextOf(browser);
  const page = await context.newPage();
  const requests = [];
  page.on("request", (request) => requests.push(new URL(request.url()).pathname));
  await page.goto(`${url}/ui/commits`);
  await page.getByLabel("API key").waitFor();
  await page.getByText("quire access key new").waitFor();
  await fitsEverywhere(page, "login");
  // Without a session, the page sends no request that the server would refuse.
  assert.deepEqual(requests.filter((path) => path.startsWith("/v1/")), []);
  await page.getByLabel("API key").fill("qk_wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("refused this key").waitFor();
  await withoutViolations(page, "login");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("OrderPlaced").first().waitFor();
  // No script can read the key or the session.
  const stored = () => [document.cookie, ...Object.values(localStorage), ...Object.values(sessionStorage)].join();
  assert.doesNotMatch(await page.evaluate(stored), /qk_|quire-session/);
  const [cookie] = await context.cookies(url);
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.secure, cookie.sameSite], ["__Host-quire-session", true, true, "Strict"]);
  await page.reload();
  await page.getByText("OrderPlaced").first().waitFor();
  await page.goto(`${url}/ui/access`);
  await page.getByRole("cell", { name: "root" }).first().waitFor();
  await page.getByText("quire access grant").waitFor();
  await settled(page);
  await fitsEverywhere(page, "access");
  await page.getByRole("button", { name: "Settings" }).click();
  await withoutViolations(page, "settings");
  await page.getByText("Signed in as root").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(await context.cookies(url), []);
  await context.close();
  console.log("ok access control");
}

/** An OpenID provider, where a person accepts or refuses each sign-in. It is another site than the server. */
async function provide() {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const key = { ...publicKey.export({ format: "jwk" }), kid: "one", use: "sig" };
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const nonces = new Map();
  const provider = createServer(async (request, response) => {
    const issuer = `http://localhost:${provider.address().port}`;
    const { pathname, searchParams: asked } = new URL(request.url, issuer);
    const json = (value) => response.setHeader("content-type", "application/json").end(JSON.stringify(value));
    if (pathname === "/.well-known/openid-configuration") {
      json({ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` });
    } else if (pathname === "/authorize") {
      const code = `code-${nonces.size}`;
      nonces.set(code, asked.get("nonce"));
      const back = (answer) => `${asked.get("redirect_uri")}?${new URLSearchParams({ ...answer, state: asked.get("state") })}`;
      response.setHeader("content-type", "text/html");
      response.end(`<a href="${back({ code }).replaceAll("&", "&amp;")}">Accept</a> <a href="${back({ error: "access_denied" }).replaceAll("&", "&amp;")}">Refuse</a>`);
    } else if (pathname === "/token") {
      const body = await new Response(request).text();
      const nonce = nonces.get(new URLSearchParams(body).get("code"));
      const claims = { iss: issuer, aud: "dashboard", sub: "ann", exp: Math.floor(Date.now() / 1000) + 60, nonce };
      const signed = `${encode({ alg: "EdDSA", kid: "one" })}.${encode(claims)}`;
      json({ token_type: "Bearer", id_token: `${signed}.${sign(null, Buffer.from(signed), privateKey).toString("base64url")}` });
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => provider.listen(0, "localhost", resolve));
  return { provider, issuer: `http://localhost:${provider.address().port}`, keys: { keys: [key] } };
}

/** A free port of this machine. */
async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A person signs in at a provider, comes back, and has a session. */
async function provided(browser) {
  const { provider, issuer, keys } = await provide();
  const file = join(directory, "keys.json");
  writeFileSync(file, JSON.stringify(keys));
  const data = join(directory, "provided");
  execFileSync(quire, ["access", "init", "root", "--data", data, "--save-key", join(directory, "root.key")]);
  execFileSync(quire, ["access", "user", "add", "ann", "--role", "admin", "--data", data]);
  const address = `127.0.0.1:${await freePort()}`;
  const flags = ["--durability", "os", "--oidc-issuer", issuer, "--oidc-audience", "api", "--oidc-keys", file, "--oidc-client-id", "dashboard", "--oidc-public-url", `http://${address}`];
  const running = await serve(address, { data: "provided", flags });
  try {
    const context = await contextOf(browser);
    const page = await context.newPage();
    await page.goto(`${running.url}/ui/overview`);
    const button = page.getByRole("link", { name: "Sign in with localhost" });
    await button.waitFor();
    await fitsEverywhere(page, "login at a provider");
    await withoutViolations(page, "login at a provider");
    await button.click();
    await page.getByRole("link", { name: "Refuse" }).click();
    await page.getByText("The sign-in did not succeed").waitFor();
    await button.click();
    await page.getByRole("link", { name: "Accept" }).click();
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByText("Signed in as ann").waitFor();
    assert.deepEqual((await context.cookies(running.url)).map(({ name, sameSite }) => [name, sameSite]), [["__Host-quire-session", "Strict"]]);
    await page.goto(`${running.url}/ui/access`);
    await page.getByRole("cell", { name: "ann" }).first().waitFor();
    await context.close();
  } finally {
    await kill(running);
    provider.closeAllConnections();
    provider.close();
  }
  console.log("ok a sign-in at a provider");
}

/** The pages of a cluster: of its leader, of a follower, with a lost node, and after changes. */
async function clustered(browser) {
  const node = (number, ...flags) => serve("127.0.0.1:0", { data: `node-${number}`, flags: ["--node", String(number), "--cluster-listen", "127.0.0.1:0", ...flags] });
  const nodes = [await node(1, "--cluster-init")];
  try {
    const [{ url, peers }] = nodes;
    for (const number of [2, 3]) nodes.push(await node(number, "--cluster-join", peers));
    for (const theme of ["light", "dark"]) {
      const context = await contextOf(browser, { colorScheme: theme });
      const page = await context.newPage();
      const look = async (name) => {
        await settled(page);
        for (const width of shots === undefined ? [] : [1280, 800, 400]) {
          await page.setViewportSize({ width, height: 860 });
          await page.screenshot({ path: join(shots, `${name.replaceAll(" ", "-")}-${theme}-${width}.png`) });
        }
        await fitsEverywhere(page, name);
        await withoutViolations(page, `${name} in ${theme}`);
        console.log(`ok ${theme} ${name}`);
      };
      // There is no data yet: the log has entries of the cluster only. A page without requests is one that is complete.
      await page.goto(`${url}/ui/commits`, { waitUntil: "networkidle" });
      await page.getByText("No data yet").waitFor();
      await look("no commits");
      await page.goto(`${url}/ui/groups`);
      await page.getByText("-G billing").waitFor();
      await look("no groups");
      await page.goto(`${url}/ui/cluster`);
      await page.getByText("The cluster continues when it loses one voter").waitFor();
      await look("cluster leader");
      await page.getByRole("button", { name: "Remove" }).last().click();
      await page.locator("dialog[open]").getByText("2 voters remain. The cluster then stops when it loses one.").waitFor();
      await look("cluster removal");
      await page.getByRole("button", { name: "Keep as it is" }).click();
      // A follower serves the page of the cluster. The others have the leader's answers, or a link to the leader.
      await page.goto(`${nodes[2].url}/ui/overview`);
      await page.getByRole("link", { name: "Open this page on node 1" }).or(page.getByText("No queues yet")).waitFor();
      await page.getByText("The database is").waitFor({ state: "detached" });
      await look("overview of a follower");
      await page.getByRole("navigation").getByRole("link", { name: "Cluster" }).click();
      await page.getByText("Node 1 serves commits and reads").waitFor();
      await look("cluster follower");
      await page.getByRole("link", { name: "Open its dashboard" }).click();
      await page.waitForURL(`${url}/ui/cluster`);
      await context.close();
    }
    const context = await contextOf(browser);
    const page = await context.newPage();
    await page.goto(`${url}/ui/cluster`);
    await page.getByRole("button", { name: "Transfer leadership" }).click();
    await page.locator("dialog[open]").getByRole("button", { name: "Transfer the leadership" }).click();
    await page.getByText(/Node [23] serves commits and reads/).waitFor();
    // The new leader loses node 1 and removes it.
    await page.getByRole("link", { name: "Open its dashboard" }).click();
    await kill(nodes[0]);
    await page.getByText("No connection to node 1. When one more voter is lost, commits and reads stop.").waitFor();
    await page.getByRole("row", { name: "not connected" }).getByRole("button", { name: "Remove" }).click();
    await page.locator("dialog[open]").getByRole("button", { name: "Remove node 1" }).click();
    await page.getByRole("row", { name: "not connected" }).waitFor({ state: "detached" });
    assert.equal(await page.locator("tbody tr").count(), 2);
    await context.close();
    console.log("ok the leadership is transferred, and a lost node removed");
  } finally {
    for (const { server } of nodes) server.kill("SIGKILL");
  }
}

meanings();
if (shots !== undefined) mkdirSync(shots, { recursive: true });
let running = await serve("127.0.0.1:0");
// Playwright takes a path, and no name to search for.
const executablePath = execFileSync("sh", ["-c", 'command -v "$0"', browserName], { encoding: "utf8" }).trim();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  if (process.env.QUIRE_DASHBOARD_LARGE === "1") await large(browser);
  await run(browser, running.url);
  running = await killed(browser, running);
  await locked(browser, running);
  await provided(browser);
  await clustered(browser);
  console.log("the dashboard works");
} finally {
  await browser.close();
  running.server.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
}
