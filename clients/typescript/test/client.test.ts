import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import {
  append, ConnectionError, enqueue, failIfMatches, Outcome, produce, putBlock, putEdge, Quire, QuireError,
  type Job, type StoredEvent,
} from "quire-client";

import { Server } from "./server.js";

let server: Server;
let quire: Quire;

before(async () => {
  server = await Server.start();
  quire = new Quire(server.url);
});
after(() => server.stop());

test("a commit over all models happens whole, and a refusal has its facts", async () => {
  const parts = [
    append("all/events", [{ type: "Placed", tags: ["order:1"], data: { n: 1 } }], [failIfMatches({ tags: ["order:1"] })]),
    enqueue("all/jobs", { order: 1 }),
    produce("all", new Uint8Array([0, 255]), { key: "1" }),
    putBlock("all/graph", "a", "thing"),
    putBlock("all/graph", "b", "thing", { content: "text" }),
    putEdge("all/graph", "a", "likes", "b", { since: 2013 }),
  ];
  const { replies } = await quire.commit(parts);
  assert.deepEqual(replies[0]?.appended, { first: 1, last: 1, duplicate: false });
  assert.deepEqual(replies[2]?.produced, { partition: 0, offset: 0 });
  const refused = await quire.commit(parts).then(() => undefined, (error: unknown) => error);
  assert(refused instanceof QuireError);
  assert.equal(refused.code, "condition_failed");
  assert.equal(refused.problem["position"], 1);
  assert.match(refused.requestId ?? "", /./);
  assert.deepEqual(await events(quire.store("all/events").read()), ["Placed"]);
  assert.equal((await quire.queue("all/jobs").fetch({ count: 10 })).length, 1);
  const values = [];
  for await (const record of quire.topic("all").records(0)) values.push([record.key, record.value]);
  assert.equal(values.length, 1);
  const graph = quire.graph("all/graph");
  assert.equal((await graph.get("b"))?.content, "text");
  assert.equal(await graph.get("c"), undefined);
  const names = [];
  for await (const neighbour of graph.neighbours("a", { type: ["likes"] })) names.push(neighbour.name);
  assert.deepEqual(names, ["b"]);
  assert.deepEqual((await graph.walk("a", { depth: 2 })).visits.map((visit) => visit.name), ["a", "b"]);
  assert.deepEqual((await graph.paths("a", "b"))[0]?.map((visit) => visit.name), ["a", "b"]);
});

test("a statement has parameters, rows and a position", async () => {
  await quire.store("asked").append([{ type: "Asked", data: { n: 17 } }, { type: "Told" }]);
  const text = "SELECT position, data ->> '$.n', ?2 FROM events WHERE store = ?1 AND type = 'Asked'";
  const result = await quire.sql(text, ["asked", new Uint8Array([255, 0])]);
  assert.deepEqual(result.rows, [[1, 17, new Uint8Array([255, 0])]]);
  assert.equal(result.columns[0], "position");
  assert.equal(result.scanned, 1);
  const named = await quire.sql("SELECT count(*) FROM events WHERE store = :store", { store: "asked" }, { asOf: result.as_of });
  assert.deepEqual([named.rows, named.as_of], [[[2]], result.as_of]);
  const refused = await quire.sql("SELECT FROM").then(() => undefined, (error: unknown) => error);
  assert(refused instanceof QuireError && refused.code === "invalid");
});

test("a dry run commits nothing, and the server lists its refusals and samples", async () => {
  const parts = [
    enqueue("tried/jobs", 1),
    append("tried", [{ type: "Registered", tags: ["username:ada"] }], [failIfMatches({ tags: ["username:ada"] })]),
  ];
  const tried = await quire.dryRun(parts);
  assert.equal(tried.dry_run, true);
  assert(tried.entries.some(({ model, kind, bytes }) => model === "events" && kind === "event_appended" && bytes > 0));
  assert.deepEqual(await events(quire.store("tried").read()).catch(() => []), []);
  const { position, replies } = await quire.commit(parts);
  assert.deepEqual([tried.position, tried.replies.length], [position, replies.length]);
  const refusalsBefore = await quire.refusals();
  const tryRefused = await quire.dryRun(parts).then(() => undefined, (error: unknown) => error);
  assert(tryRefused instanceof QuireError && tryRefused.code === "condition_failed");
  assert.deepEqual(await quire.refusals(), refusalsBefore);
  const refused = await quire.commit(parts).then(() => undefined, (error: unknown) => error);
  assert(refused instanceof QuireError && refused.message === tryRefused.message);
  const [newest] = await quire.refusals();
  assert.equal(newest?.problem.detail, refused.message);
  assert.deepEqual(newest?.resources, [{ kind: "store", name: "tried" }]);
  assert.equal((await quire.history()).interval_ms, 10_000);
  assert.deepEqual((await quire.history(99_000_000_000_000)).samples, []);
});

test("a local client reads at its position, and commits by the leader", async () => {
  const local = quire.local();
  const { position } = await local.commit([produce("local", { order: 17 })]);
  assert.equal(local.shownPosition, 0);
  assert.equal((await local.get<{ topics: unknown[] }>("/v1/stats")).topics.length > 0, true);
  assert(local.shownPosition >= position);
  const values = [];
  for await (const record of quire.local(position).topic("local").records(0)) values.push(record.value);
  assert.deepEqual(values, [{ order: 17 }]);
  const ahead = await quire.local(local.shownPosition + 1_000).get("/v1/stats").then(() => undefined, (error: unknown) => error);
  assert(ahead instanceof QuireError && ahead.code === "ahead_of_log");
  const refused = await local.store("local").subscribe().next().then(() => undefined, (error: unknown) => error);
  assert(refused instanceof QuireError && refused.code === "invalid");
});

test("pages of a read are joined", async () => {
  const store = quire.store("pages");
  await store.append(Array.from({ length: 25 }, (_, n) => ({ type: "Counted", data: n })));
  const seen: unknown[] = [];
  for await (const event of store.read({ limit: 10 })) seen.push(event.data);
  assert.deepEqual(seen, Array.from({ length: 25 }, (_, n) => n));
  const last: number[] = [];
  for await (const event of store.read({ backwards: true, limit: 10 })) last.push(event.position);
  assert.deepEqual(last, Array.from({ length: 25 }, (_, n) => 25 - n));
});

test("a commit whose answers are lost happens once", async () => {
  let sent = 0;
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    sent += 1;
    if (sent < 4) {
      await response.arrayBuffer();
      throw new TypeError("the connection broke");
    }
    return response;
  };
  const client = new Quire(server.url, { fetch: losing });
  const { appended } = (await client.commit([append("lost", [{ type: "Once" }]), enqueue("lost", 1)])).replies[0] ?? {};
  assert.deepEqual(appended, { first: 1, last: 1, duplicate: false });
  assert.equal(sent, 4);
  assert.equal(await quire.store("lost").head(), 1);
  const dead = new Quire("http://127.0.0.1:1", { attempts: 2 });
  await assert.rejects(dead.commit([enqueue("lost", 1)]), ConnectionError);
});

test("of many clients that decide at once, as many succeed as there are seats", async () => {
  const store = quire.store("seats");
  const subscribe = (student: number) =>
    store.decide({ taken: { query: { items: [{ types: ["Subscribed"] }] }, fold: "count" } }, ({ taken }) =>
      (taken as number) < 5 ? [{ type: "Subscribed", tags: [`student:${student}`] }] : [],
    );
  const decided = await Promise.all(Array.from({ length: 12 }, (_, student) => subscribe(student)));
  assert.equal(decided.filter((appended) => appended.first !== null).length, 5);
  assert.equal(await store.head(), 5);
});

test("a worker acknowledges with a commit, fails, snoozes, and keeps long jobs", async () => {
  const queue = quire.queue("work");
  const stop = new AbortController();
  for (const task of ["commit", "throw", "snooze", "long"]) await queue.enqueue({ task });
  let left = 4;
  const runs: string[] = [];
  const leaseMs = 2_000;
  await queue.work(
    async (job, context) => {
      const { task } = job.payload as { task: string };
      runs.push(task);
      left -= 1;
      if (left === 0) stop.abort();
      if (task === "commit") return Outcome.commit([append("work", [{ type: "Done" }])], { ok: true });
      if (task === "throw") throw new Error("no paper");
      if (task === "snooze") return Outcome.snooze(3_600_000);
      await context.save({ page: 3 });
      await new Promise((resolve) => setTimeout(resolve, 1.5 * leaseMs));
      assert.equal(context.signal.aborted, false);
      return { pages: 7 };
    },
    { worker: "w1", concurrency: 4, leaseMs, signal: stop.signal, onError: (error) => assert.fail(String(error)) },
  );
  assert.deepEqual(runs.sort(), ["commit", "long", "snooze", "throw"]);
  assert.equal(await quire.store("work").head(), 1);
  const counts = (await (await fetch(`${server.url}/v1/queues/work`)).json()) as { [state: string]: number };
  assert.deepEqual([counts["completed"], counts["retrying"], counts["scheduled"], counts["active"]], [2, 1, 1, 0]);
});

test("a worker that lost its job is told, and reports nothing", async () => {
  const queue = quire.queue("cancelled");
  const { job } = await queue.enqueue(1);
  const stop = new AbortController();
  let reason: unknown;
  await queue.work(
    async (_job: Job, context) => {
      stop.abort();
      await quire.commit([{ change: { job, change: { cancel: { reason: "recalled" } } } }]);
      await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      reason = context.signal.reason;
    },
    { leaseMs: 300, signal: stop.signal, onError: (error) => assert.fail(String(error)) },
  );
  assert(reason instanceof QuireError);
  assert.equal(reason.code, "stale_lease");
});

test("a follower of a topic gets later records", async () => {
  const topic = quire.topic("followed");
  await topic.produce("first");
  assert.equal(await topic.committed("readers", 0), 0);
  await quire.commit([{ commit_offset: { group: "readers", topic: "followed", partition: 0, offset: 1 } }]);
  assert.equal(await topic.committed("readers", 0), 1);
  const stop = new AbortController();
  const seen: unknown[] = [];
  for await (const record of topic.records(0, { follow: true, signal: stop.signal })) {
    seen.push(record.value);
    if (seen.length === 1) await topic.produce("second");
    if (seen.length === 2) stop.abort();
  }
  assert.deepEqual(seen, ["first", "second"]);
});

test("a subscription goes on after the server was killed, without a gap or a repetition", async () => {
  const store = quire.store("resumed");
  await store.append([{ type: "A" }, { type: "A" }]);
  const positions: number[] = [];
  let caughtUp = 0;
  for await (const event of store.subscribe({ onCaughtUp: () => (caughtUp += 1) })) {
    positions.push(event.position);
    if (event.position === 2 || event.position === 4) {
      await server.kill();
      await server.run();
      await store.append([{ type: "A" }, { type: "A" }]);
    }
    if (event.position === 6) break;
  }
  assert.deepEqual(positions, [1, 2, 3, 4, 5, 6]);
  assert(caughtUp <= 1);
});

test("the example of orders runs, and does each step once", async () => {
  const program = fileURLToPath(new URL("../examples/orders.js", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program, server.url]);
  assert.match(stdout, /^the second attempt: .*condition.*\nmails: 1, events: 2\n$/);
});

test("a key gives the rights of its user, and a missing key or permission is a refusal with its code", async () => {
  const locked = await Server.start();
  try {
    const init = await fetch(`${locked.url}/v1/access/init`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ user: "root" }),
    });
    const { key } = (await init.json()) as { key: string };
    const commit = (client: Quire): Promise<unknown> => client.commit([append("s", [{ type: "A" }])]);
    await assert.rejects(commit(new Quire(locked.url)), { name: "QuireError", status: 401, code: "unauthenticated" });
    const wrong = new Quire(locked.url, { apiKey: `${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}` });
    await assert.rejects(commit(wrong), { name: "QuireError", status: 401 });
    const root = new Quire(locked.url, { apiKey: key });
    await commit(root);
    assert.equal(await root.store("s").head(), 1);
    for await (const event of root.store("s").subscribe()) {
      assert.equal(event.type, "A");
      break;
    }
    const post = async (path: string, body: unknown): Promise<{ key: string }> => {
      const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
      const answer = await fetch(`${locked.url}/v1/access/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      assert.equal(answer.status, 200);
      return (await answer.json()) as { key: string };
    };
    await post("users", { user: "ann", roles: ["reader"] });
    const ann = new Quire(locked.url, { apiKey: (await post("keys", { user: "ann", lifetime_ms: 60_000 })).key });
    assert.equal(await ann.store("s").head(), 1);
    await assert.rejects(commit(ann), { name: "QuireError", status: 403, code: "not_permitted" });
  } finally {
    await locked.stop();
  }
});

test("over TLS, a client works with a server whose authority its process trusts, and with no other", async () => {
  const secure = await Server.startWithTls();
  try {
    const program = fileURLToPath(new URL("../examples/orders.js", import.meta.url));
    const run = (env: NodeJS.ProcessEnv) => promisify(execFile)(process.execPath, [program, secure.url], { env });
    const { stdout } = await run({ ...process.env, NODE_EXTRA_CA_CERTS: secure.certificate });
    assert.match(stdout, /\nmails: 1, events: 2\n$/);
    await assert.rejects(run(process.env), (error: Error & { stderr: string }) => /certificate/.test(error.stderr));
    await assert.rejects(fetch(secure.url.replace("https", "http")), TypeError);
  } finally {
    await secure.stop();
  }
});

test("an address with more than a server, and a key that is no header, are refused without their secrets", () => {
  for (const url of ["ftp://secret", "http://me:secret@127.0.0.1:1", "http://127.0.0.1:1?key=secret", "secret"]) {
    assert.throws(() => new Quire(url), (error) => error instanceof TypeError && !error.message.includes("secret"));
  }
  assert.throws(() => new Quire("http://127.0.0.1:1", { apiKey: "secret\n" }), (error) => {
    return error instanceof TypeError && !error.message.includes("secret");
  });
});

async function events(read: AsyncIterable<StoredEvent>): Promise<string[]> {
  const types = [];
  for await (const event of read) types.push(event.type);
  return types;
}
