import { useRef, useState } from "preact/hooks";
import { ask, path, type Schemas } from "../api.js";
import { Problem, Select } from "../ui/parts.js";
import { count } from "../ui/value.js";

type Group = Schemas["GroupWithOffsets"];

/** An offset of a group, in the source that it names. */
export type Offset = Group["offsets"][number] & { topic?: string; store?: string; queue?: string };

type Target = "start" | "end" | "offset";

/** The name of the source of an offset. */
export function sourceOf({ topic, store, queue }: Offset): string {
  return topic ?? store ?? queue ?? "";
}

/** Sets the offsets of a group in one source, after it has shown what will be read again or skipped. */
export function Reset({ group, offsets, isRead, done }: { group: string; offsets: readonly Offset[]; isRead: boolean; done: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [source, setSource] = useState("");
  const [target, setTarget] = useState<Target>("start");
  const [number, setNumber] = useState("");
  const [error, setError] = useState<Error>();
  const [isRunning, setRunning] = useState(false);

  const sources = [...new Set(offsets.map(sourceOf))];
  const chosen = sources.includes(source) ? source : sources[0] ?? "";
  const given = /^\d+$/.test(number) ? Number(number) : undefined;
  const next = (offset: Offset): number | undefined => {
    if (target === "start") return offset.start;
    if (target === "end") return offset.next;
    return given;
  };
  const rows = offsets.filter((offset) => sourceOf(offset) === chosen).map((offset) => ({ offset, to: next(offset) }));
  const changes = rows.filter((row): row is { offset: Offset; to: number } => row.to !== undefined && row.to !== row.offset.offset);
  const beyond = changes.find(({ offset, to }) => to > offset.next);

  const run = async (): Promise<void> => {
    setRunning(true);
    setError(undefined);
    try {
      await ask((quire) => reset(quire, group, changes));
      dialog.current?.close();
      done();
    } catch (error) {
      setError(error as Error);
    } finally {
      setRunning(false);
    }
  };

  return (
    <>
      <button type="button" onClick={() => { setError(undefined); dialog.current?.showModal(); }}>Reset offsets …</button>
      <dialog ref={dialog} aria-label="Reset offsets">
        <h2>Reset the offsets of {group}?</h2>
        <div class="filters">
          <Select label="Source" value={chosen} options={sources.map((name) => [name, name] as const)} onChange={setSource} />
          <Select label="To" value={target} options={[["start", "the first record"], ["end", "the end"], ["offset", "an offset"]]} onChange={(target) => setTarget(target as Target)} />
          {target === "offset" && (
            <label class="filter"><span>Offset</span><input type="number" min="0" value={number} onInput={(event) => setNumber(event.currentTarget.value)} /></label>
          )}
        </div>
        <div class="table" tabIndex={0} role="region" aria-label="What changes">
          <table>
            <thead><tr><th scope="col" class="number">Partition</th><th scope="col" class="number">Now</th><th scope="col" class="number">Then</th><th scope="col">What this does</th></tr></thead>
            <tbody>
              {rows.map(({ offset, to }) => (
                <tr key={offset.partition}>
                  <td class="number">{offset.partition}</td>
                  <td class="number">{count(offset.offset)}</td>
                  <td class="number">{to === undefined ? "" : count(to)}</td>
                  <td>{effect(offset, to)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div class="prose">
          <p>{isRead
            ? <b>The group has members. Stop them first: a running consumer keeps its own offset, and commits it again.</b>
            : "A consumer that starts after this reads from the new offsets."}</p>
        </div>
        {beyond !== undefined && <p class="bad" role="alert">Offset {count(beyond.to)} is beyond the end of partition {beyond.offset.partition}, {count(beyond.offset.next)}.</p>}
        {error !== undefined && <Problem error={error} />}
        <div class="acts">
          <button type="button" onClick={() => dialog.current?.close()}>Keep them as they are</button>
          <button type="button" class="danger solid" disabled={isRunning || changes.length === 0 || beyond !== undefined} onClick={() => void run()}>
            Reset {changes.length} {changes.length === 1 ? "offset" : "offsets"}
          </button>
        </div>
      </dialog>
    </>
  );
}

/** What a reader sees of a new offset. */
function effect({ offset, start }: Offset, to: number | undefined): string {
  if (to === undefined) return "";
  // Records before the first one are deleted already.
  const [from, until] = [Math.max(start, Math.min(offset, to)), Math.max(start, offset, to)];
  const records = `${count(until - from)} ${until - from === 1 ? "record is" : "records are"}`;
  if (to === offset) return "nothing";
  return to < offset ? `${records} read again` : `${records} skipped`;
}

/** The offsets in a topic change in one commit. */
async function reset(quire: { send<T>(method: "POST", route: string, body?: unknown): Promise<T> }, group: string, changes: readonly { offset: Offset; to: number }[]): Promise<void> {
  const parts = changes.flatMap(({ offset, to }) => offset.topic === undefined ? [] : [{ commit_offset: { group, topic: offset.topic, partition: offset.partition, offset: to } }]);
  if (parts.length > 0) await quire.send("POST", "/v1/commit", { parts });
  for (const { offset, to } of changes) {
    if (offset.store !== undefined) await quire.send("POST", path`/v1/groups/${group}/stores/${offset.store}`, { offset: to });
    if (offset.queue !== undefined) await quire.send("POST", path`/v1/groups/${group}/queues/${offset.queue}`, { offset: to });
  }
}
