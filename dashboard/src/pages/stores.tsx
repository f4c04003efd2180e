import { path, usePages, useRead, type Json, type Page, type Read, type Schemas } from "../api.js";
import { href, place, setParams } from "../router.js";
import { Empty, Facts, Filter, Head, More, Select, Shown, Table } from "../ui/parts.js";
import { Time, duration } from "../ui/time.js";
import { Value, count, oneLine, tagText } from "../ui/value.js";
import { ConditionTester } from "./tester.js";

interface StoredEvent {
  position: number;
  id: string;
  type: string;
  tags: (string | { base64: string })[];
  time_ms: number;
  metadata: Json;
  data: Json;
}

const ORIGIN = window.location.origin;

export function Stores() {
  const request: Read = { route: "/v1/events" };
  const stores = useRead<Page<{ store: string; head: number }>>(request, 5_000);
  return (
    <>
      <Head title="Event stores" read={request} />
      <p class="lead">A store keeps facts in order. An append may have a condition: it fails when events match that its decision did not see.</p>
      <Shown of={stores}>
        {({ data }) => data.length === 0 ? (
          <Empty title="No event stores yet" command={`curl -s ${ORIGIN}/v1/events/shop%2Forders/append --json '{"events": [{"type": "OrderPlaced", "tags": ["order:17"], "data": {"item": "lamp"}}]}'`}>Append the first event:</Empty>
        ) : (
          <Table
            caption="Event stores"
            rows={data}
            keyOf={(store) => store.store}
            columns={[
              { title: "Store", cell: (store) => <a href={href("stores", store.store)} data-row>{store.store}</a> },
              { title: "Last position", isNumber: true, cell: (store) => count(store.head) },
            ]}
          />
        )}
      </Shown>
    </>
  );
}

export function StorePage({ name }: { name: string }) {
  const { params } = place.value;
  const of = (param: string): string => params.get(param) ?? "";
  const at = /^\d+$/.test(of("at")) ? Number(of("at")) : undefined;
  const isOldest = of("order") === "oldest" || at !== undefined;
  const tags = of("tag").split(/[\s,]+/).filter((tag) => tag !== "");
  const request: Read = {
    route: path`/v1/events/${name}`,
    query: {
      as: "json",
      limit: 50,
      type: of("type") || undefined,
      tag: tags,
      ...(at !== undefined ? { after: Math.max(0, at - 1) } : {}),
      ...(isOldest ? {} : { backwards: true }),
    },
  };
  const events = usePages<StoredEvent>(request);
  const stats = useRead<Schemas["StatsReply"]>({ route: path`/v1/events/${name}/stats` });
  const subscriptions = useRead<Page<Schemas["SubscriptionReply"]>>({ route: path`/v1/events/${name}/subscriptions` });
  return (
    <>
      <Head title={name} read={request}>
        <button type="button" onClick={events.reload}>Refresh</button>
      </Head>
      {stats.data !== undefined && (
        <Facts of={[
          ["Last position", count(stats.data.head)],
          ["Deleted up to position", count(stats.data.trimmed)],
          ["Retention", stats.data.retention_ms === null ? "none" : duration(stats.data.retention_ms)],
          ["Forgotten tags", count(stats.data.forgotten)],
          ["Sources that it reads", count(stats.data.sources)],
          ["Subscriptions", count(stats.data.subscriptions)],
          ["Saved projections", count(stats.data.projections)],
        ]} />
      )}
      <div class="filters">
        <Filter label="Type" value={of("type")} placeholder="OrderPlaced" onChange={(type) => setParams({ type })} />
        <Filter label="Tags" value={of("tag")} placeholder="order:17 customer:ada" onChange={(tag) => setParams({ tag })} />
        <Filter label="From position" value={of("at")} placeholder={isOldest ? "start" : "newest"} onChange={(at) => setParams({ at })} />
        <Select label="Order" value={isOldest ? "oldest" : ""} options={[["", "newest first"], ["oldest", "oldest first"]]} onChange={(order) => setParams({ order, at: undefined })} />
      </div>
      <ConditionTester store={name} type={of("type")} tags={tags} />
      <Shown of={events}>
        {(rows) => rows.length === 0 ? (
          <Empty title="No event matches">An append with the condition “fail if events match” on this query would pass.</Empty>
        ) : (
          <ol class="records">
            {rows.map((event) => (
              <li key={event.position}>
                <details open={event.position === at}>
                  <summary>
                    <span class="log-position">{event.position}</span>
                    <Time ms={event.time_ms} />
                    <b>{event.type}</b>
                    <span class="tags">{event.tags.map((tag) => <code key={tagText(tag)}>{tagText(tag)}</code>)}</span>
                    <span class="clip">{oneLine(event.data)}</span>
                  </summary>
                  <Value value={event.data} name="data" />
                  {event.metadata !== null && <><h3>Metadata</h3><Value value={event.metadata} /></>}
                  <p class="faint">id {event.id}</p>
                </details>
              </li>
            ))}
          </ol>
        )}
      </Shown>
      <More more={events.more} />
      {(subscriptions.data?.data.length ?? 0) > 0 && (
        <section>
          <h2>Subscriptions</h2>
          <ul class="names">
            {subscriptions.data?.data.map((subscription) => (
              <li key={subscription.name}><a href={`${href("jobs")}?queue=${encodeURIComponent(subscription.name)}`}>{subscription.name}</a><span class="faint">position {count(subscription.position)}</span></li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}
