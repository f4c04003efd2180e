import { path, useRead, usePages, useSql, type Json, type Page, type Read, type Schemas } from "../api.js";
import { href, place, setParams, withParams } from "../router.js";
import { Empty, Facts, Filter, Head, More, Select, Shown, Table } from "../ui/parts.js";
import { Time, duration } from "../ui/time.js";
import { Value, bytes, count } from "../ui/value.js";
import { Reset, sourceOf, type Offset } from "./reset.js";

type Topic = Schemas["TopicWithPartitions"];
type Group = Schemas["GroupWithOffsets"];

interface TopicRecord {
  offset: number;
  timestamp_ms: number;
  key: Json;
  value: Json;
  headers: { key: string; value?: Json }[];
}

export function Topics() {
  const request: Read = { route: "/v1/topics" };
  const topics = useRead<Page<{ topic: string; partitions: number }>>(request, 5_000);
  const text = (place.value.params.get("text") ?? "").toLowerCase();
  return (
    <>
      <Head title="Topics" read={request} />
      <p class="lead">A topic is a log of records, in partitions. Kafka clients read and write the same topics.</p>
      <div class="filters"><Filter label="Contains" value={text} onChange={(text) => setParams({ text })} /></div>
      <Shown of={topics}>
        {({ data }) => data.length === 0 ? (
          <Empty title="No topics yet" command={`curl -s ${window.location.origin}/v1/topics --json '{"name": "orders", "partitions": 3}'`}>Create the first one:</Empty>
        ) : (
          <Table
            caption="Topics"
            rows={data.filter((topic) => topic.topic.toLowerCase().includes(text))}
            keyOf={(topic) => topic.topic}
            columns={[
              { title: "Topic", cell: (topic) => <a href={href("topics", topic.topic)} data-row>{topic.topic}</a> },
              { title: "Partitions", isNumber: true, cell: (topic) => topic.partitions },
            ]}
          />
        )}
      </Shown>
    </>
  );
}

export function TopicPage({ name }: { name: string }) {
  const { params } = place.value;
  const request: Read = { route: path`/v1/topics/${name}` };
  const topic = useRead<Topic>(request, 3_000);
  return (
    <>
      <Head title={name} read={request} />
      <Shown of={topic}>
        {(data) => {
          const partition = data.partitions.find((one) => String(one.partition) === params.get("partition")) ?? data.partitions[0];
          const records = data.partitions.reduce((sum, one) => sum + one.next - one.start, 0);
          const { settings } = data;
          return (
            <>
              <Facts of={[
                ["Records", count(records)],
                ["Ever written", count(data.written)],
                ["Size", bytes(data.partitions.reduce((sum, one) => sum + one.bytes, 0))],
                ["Cleanup", settings.cleanup],
                ["Retention", settings.retention_ms === null ? "none" : duration(settings.retention_ms)],
                ["Compression", settings.compression],
                ["Kept for groups", data.protected_for.join(", ")],
              ]} />
              <section>
                <h2>Partitions</h2>
                <Table
                  caption="Partitions"
                  rows={data.partitions}
                  keyOf={(one) => String(one.partition)}
                  columns={[
                    { title: "Partition", cell: (one) => <a href={withParams(href("topics", name), { partition: one.partition })} aria-current={one === partition ? "true" : undefined} data-row>{one.partition}</a> },
                    { title: "First offset", isNumber: true, cell: (one) => count(one.start) },
                    { title: "Next offset", isNumber: true, cell: (one) => count(one.next) },
                    { title: "Records", isNumber: true, cell: (one) => count(one.next - one.start) },
                    { title: "Size", isNumber: true, cell: (one) => bytes(one.bytes) },
                  ]}
                />
              </section>
              {partition !== undefined && <Records key={partition.partition} topic={name} partition={partition} all={data.partitions} />}
            </>
          );
        }}
      </Shown>
    </>
  );
}

/** How many records are read at a time. */
const RECORDS = 50;

function Records({ topic, partition, all }: { topic: string; partition: Topic["partitions"][number]; all: Topic["partitions"] }) {
  const { params } = place.value;
  const given = params.get("offset");
  const text = (params.get("text") ?? "").toLowerCase();
  // Without an offset: the newest records.
  const newest = Math.max(partition.start, partition.next - RECORDS);
  const offset = given === null || !/^\d+$/.test(given) ? newest : Number(given);
  const request: Read = {
    route: path`/v1/topics/${topic}/partitions/${partition.partition}/records`,
    query: { as: "json", offset: Math.min(Math.max(offset, partition.start), partition.next), limit: RECORDS },
  };
  const records = usePages<TopicRecord>(request);
  return (
    <section>
      <h2>Records of partition {partition.partition}</h2>
      <div class="filters">
        <Select label="Partition" value={String(partition.partition)} options={all.map((one) => [String(one.partition), String(one.partition)] as const)} onChange={(partition) => setParams({ partition, offset: undefined })} />
        {given === null && newest > partition.start && <button type="button" onClick={() => setParams({ offset: String(Math.max(partition.start, newest - RECORDS)) })}>Older</button>}
        <Filter label="From offset" value={given ?? ""} placeholder="newest" onChange={(offset) => setParams({ offset })} />
        <Filter label="Contains" value={text} placeholder="key or value" onChange={(text) => setParams({ text })} />
      </div>
      <Shown of={records}>
        {(rows) => {
          const fits = (record: TopicRecord): boolean => text === "" || JSON.stringify([record.key, record.value]).toLowerCase().includes(text);
          // Without an offset, the newest come first.
          const shown = (given === null ? rows.toReversed() : rows).filter(fits);
          if (shown.length === 0) return <Empty title={rows.length === 0 ? "No records here" : "No record fits"}>{rows.length === 0 ? `Offsets ${partition.start} to ${partition.next} exist.` : `None of the ${rows.length} records that were read.`}</Empty>;
          return (
            <ol class="records">
              {shown.map((record) => (
                <li key={record.offset}>
                  <details open={shown.length === 1 || String(record.offset) === given}>
                    <summary>
                      <span class="log-position">{record.offset}</span>
                      <Time ms={record.timestamp_ms} />
                      <code>{record.key === null ? "no key" : String(record.key)}</code>
                      <span class="clip">{record.value === null ? <span class="faint">no value</span> : JSON.stringify(record.value)}</span>
                    </summary>
                    <Value value={record.value} name="value" />
                    {record.headers.length > 0 && <p class="tags">{record.headers.map((header) => <code key={header.key}>{header.key}: {String(header.value ?? "")}</code>)}</p>}
                  </details>
                </li>
              ))}
            </ol>
          );
        }}
      </Shown>
      {given !== null && <More more={records.more} />}
    </section>
  );
}

/** The lag of each group. A server with too many offsets for one statement refuses it, and the list has no lag then. */
const LAGS = "SELECT consumer_group, sum(lag) FROM lag GROUP BY consumer_group";

/** The commands that make the first group. */
const FIRST_GROUP = `quire produce orders 'order 1' --http ${window.location.origin}
kcat -b ${window.location.hostname}:9092 -G billing -X auto.offset.reset=earliest -c 1 orders`;

export function Groups() {
  const request: Read = { route: "/v1/groups" };
  const groups = useRead<Page<Schemas["GroupReply"]>>(request, 5_000);
  const read = useSql((groups.data?.data.length ?? 0) > 0 ? LAGS : "", 5_000);
  const lags = new Map(read.data?.rows.map(([group, lag]) => [group, Number(lag)]));
  return (
    <>
      <Head title="Consumer groups" read={request} />
      <p class="lead">A group remembers how far it has read each partition. Its lag is the number of records that it has not read.</p>
      <Shown of={groups}>
        {({ data }) => data.length === 0 ? (
          <Empty title="No groups yet" command={FIRST_GROUP}>
            A group appears when a consumer commits its first offset. Produce a message, and read it as a Kafka client in the group <code>billing</code>; 9092 is the port of <code>--kafka</code>:
          </Empty>
        ) : (
          <Table
            caption="Consumer groups"
            rows={data}
            keyOf={(group) => group.group}
            columns={[
              { title: "Group", cell: (group) => <a href={href("groups", group.group)} data-row>{group.group}</a> },
              { title: "Lag", isNumber: true, cell: (group) => <Lag records={lags.get(group.group)} /> },
              { title: "Partitions", isNumber: true, cell: (group) => group.partitions },
              { title: "Members", isNumber: true, cell: (group) => group.members },
              { title: "Generation", isNumber: true, cell: (group) => group.generation },
            ]}
          />
        )}
      </Shown>
    </>
  );
}

function Lag({ records }: { records: number | undefined }) {
  if (records === undefined) return <span class="faint">–</span>;
  return <b class={records > 0 ? "" : "faint"}>{count(records)}</b>;
}

export function GroupPage({ name }: { name: string }) {
  const request: Read = { route: path`/v1/groups/${name}` };
  const group = useRead<Group>(request, 2_000);
  const source = (offset: Offset) => {
    if (offset.topic !== undefined) return <a href={withParams(href("topics", offset.topic), { partition: offset.partition, offset: offset.offset })} data-row>{offset.topic}</a>;
    if (offset.store !== undefined) return <a href={withParams(href("stores", offset.store), { at: offset.offset })} data-row>{offset.store}</a>;
    return offset.queue ?? "";
  };
  return (
    <>
      <Head title={name} read={request}>
        {(group.data?.offsets.length ?? 0) > 0 && <Reset group={name} offsets={group.data?.offsets as Offset[]} isRead={(group.data?.members.length ?? 0) > 0 || group.data?.protocol !== ""} done={group.reload} />}
      </Head>
      <Shown of={group}>
        {(data) => (
          <>
            <Facts of={[
              ["Lag", count(data.offsets.reduce((sum, offset) => sum + offset.lag, 0))],
              ["Generation", data.generation],
              ["Protocol", data.protocol],
              ["Members by lease", data.members.length],
              ["Records kept in", data.protected_in.join(", ")],
            ]} />
            <section>
              <h2>Offsets</h2>
              <Table
                caption="Offsets"
                rows={data.offsets as Offset[]}
                keyOf={(offset) => `${sourceOf(offset)}/${offset.partition}`}
                columns={[
                  { title: "Source", cell: source },
                  { title: "Partition", isNumber: true, cell: (offset) => offset.partition },
                  { title: "Committed", isNumber: true, cell: (offset) => count(offset.offset) },
                  { title: "End", isNumber: true, cell: (offset) => count(offset.next) },
                  { title: "Lag", isNumber: true, cell: (offset) => <Lag records={offset.lag} /> },
                  { title: "Read", cell: (offset) => <progress max={Math.max(1, offset.next - offset.start)} value={offset.next - offset.start - offset.lag} aria-label={`Read of ${offset.topic ?? ""} ${offset.partition}`} /> },
                  { title: "When", cell: (offset) => <Time ms={offset.time_ms} /> },
                ]}
              />
            </section>
          </>
        )}
      </Shown>
    </>
  );
}
