import { path, usePages, useRead, type Json, type Page, type Read, type Schemas } from "../api.js";
import { go, href, place, setParams, withParams } from "../router.js";
import { Badge, Empty, Facts, Filter, Head, More, Select, Shown, Table } from "../ui/parts.js";
import { Time } from "../ui/time.js";
import { Value, count } from "../ui/value.js";

interface Block {
  id: string;
  name: string | null;
  version: number;
  kind: string;
  source: string;
  tags: string[];
  time_ms: number;
  metadata: Json;
  content: Json;
}

type Neighbour = Schemas["NeighbourReply"];

export function Graphs() {
  const request: Read = { route: "/v1/graphs" };
  const graphs = useRead<Page<Schemas["GraphReply"]>>(request, 5_000);
  return (
    <>
      <Head title="Graphs" read={request} />
      <p class="lead">A graph has blocks of content, and typed edges between them. Every earlier state can be read.</p>
      <Shown of={graphs}>
        {({ data }) => data.length === 0 ? (
          <Empty title="No graphs yet" command={`curl -s ${window.location.origin}/v1/graphs/shop%2Fitems/blocks/lamp --json '{"kind": "item", "content": {"price": 40}}'`}>Put the first block:</Empty>
        ) : (
          <Table
            caption="Graphs"
            rows={data}
            keyOf={(graph) => graph.graph}
            columns={[
              { title: "Graph", cell: (graph) => <a href={href("graphs", graph.graph)} data-row>{graph.graph}</a> },
              { title: "Blocks", isNumber: true, cell: (graph) => count(graph.blocks) },
              { title: "Edges", isNumber: true, cell: (graph) => count(graph.edges) },
            ]}
          />
        )}
      </Shown>
    </>
  );
}

/** The address of a block's page. A block without a name has its id. */
function blockHref(graph: string, block: { id: string; name: string | null }): string {
  return withParams(href("graphs", graph), block.name === null ? { block: block.id, by: "id" } : { block: block.name });
}

export function GraphPage({ name }: { name: string }) {
  const { params } = place.value;
  const block = params.get("block");
  return (
    <>
      {block === null ? <Blocks graph={name} /> : <BlockView graph={name} block={block} by={params.get("by") === "id" ? "id" : "name"} />}
    </>
  );
}

function Blocks({ graph }: { graph: string }) {
  const { params } = place.value;
  const of = (name: string): string => params.get(name) ?? "";
  const request: Read = {
    route: path`/v1/graphs/${graph}/blocks`,
    query: { as: "json", limit: 50, kind: of("kind") || undefined, tag: of("tag") || undefined, source_prefix: of("source") || undefined },
  };
  const blocks = usePages<Block>(request);
  const facts = useRead<Schemas["OneGraph"]>({ route: path`/v1/graphs/${graph}` });
  return (
    <>
      <Head title={graph} read={request} />
      {facts.data !== undefined && <Facts of={[["Blocks", count(facts.data.blocks)], ["Edges", count(facts.data.edges)], ["Readable from commit", count(facts.data.history_from)]]} />}
      <div class="filters">
        <Filter label="Open the block" value="" placeholder="name" onChange={(block) => block !== "" && go(withParams(href("graphs", graph), { block }))} />
        <Filter label="Kind" value={of("kind")} onChange={(kind) => setParams({ kind })} />
        <Filter label="Tag" value={of("tag")} onChange={(tag) => setParams({ tag })} />
        <Filter label="Source begins with" value={of("source")} onChange={(source) => setParams({ source })} />
      </div>
      <Shown of={blocks}>
        {(rows) => rows.length === 0 ? <Empty title="No block fits" /> : (
          <Table
            caption="Blocks"
            rows={rows}
            keyOf={(block) => block.id}
            columns={[
              { title: "Block", cell: (block) => <a href={blockHref(graph, block)} data-row>{block.name ?? block.id}</a> },
              { title: "Kind", cell: (block) => block.kind },
              { title: "Version", isNumber: true, cell: (block) => block.version },
              { title: "Tags", cell: (block) => block.tags.length > 0 && <span class="tags">{block.tags.map((tag) => <code key={tag}>{tag}</code>)}</span> },
              { title: "Put", cell: (block) => <Time ms={block.time_ms} /> },
            ]}
          />
        )}
      </Shown>
      <More more={blocks.more} />
    </>
  );
}

function BlockView({ graph, block, by }: { graph: string; block: string; by: "id" | "name" }) {
  const direction = place.value.params.get("direction") ?? "both";
  const request: Read = { route: path`/v1/graphs/${graph}/blocks/${block}`, query: { as: "json", by } };
  const found = useRead<Block>(request);
  const neighbours = usePages<Neighbour>({ route: path`/v1/graphs/${graph}/blocks/${block}/neighbours`, query: { by, direction, limit: 60 } });
  const versions = useRead<Page<Schemas["VersionReply"]>>({ route: path`/v1/graphs/${graph}/blocks/${block}/versions`, query: { by, limit: 20 } });
  return (
    <>
      <Head title={found.data?.name ?? block} read={request}><a class="button" href={href("graphs", graph)}>All of {graph}</a></Head>
      <Shown of={found}>
        {(data) => (
          <>
            <Facts of={[
              ["Kind", data.kind],
              ["Version", data.version],
              ["Put", <Time ms={data.time_ms} />],
              ["Source", data.source],
              ["Tags", data.tags.length > 0 && <span class="tags">{data.tags.map((tag) => <code key={tag}>{tag}</code>)}</span>],
              ["Id", <code>{data.id}</code>],
            ]} />
            <div class="columns">
              <section><h2>Content</h2><Value value={data.content} name="content" /></section>
              {data.metadata !== null && <section><h2>Metadata</h2><Value value={data.metadata} /></section>}
            </div>
          </>
        )}
      </Shown>
      <section>
        <h2>Neighbours</h2>
        <div class="filters">
          <Select label="Direction" value={direction} options={[["both", "both"], ["outgoing", "outgoing"], ["incoming", "incoming"]]} onChange={(direction) => setParams({ direction })} />
        </div>
        <Shown of={neighbours}>
          {(rows) => rows.length === 0 ? <p class="faint">No edges.</p> : (
            <div class="columns">
              <Wheel graph={graph} centre={found.data?.name ?? block} neighbours={rows} />
              <ul class="names">
                {rows.map((neighbour) => (
                  <li key={`${neighbour.id} ${neighbour.type} ${neighbour.end}`}>
                    <a href={blockHref(graph, neighbour as { id: string; name: string | null })} data-row>{neighbour.name ?? neighbour.id.slice(0, 12)}</a>
                    <span class="faint">{neighbour.end === "target" ? `─${neighbour.type}▶` : `◀${neighbour.type}─`}</span>
                  </li>
                ))}
              </ul>
            </div>
          )}
        </Shown>
        <More more={neighbours.more} />
      </section>
      {(versions.data?.data.length ?? 0) > 0 && (
        <section>
          <h2>Versions</h2>
          <ul class="names">
            {versions.data?.data.map((version) => {
              const { position, time_ms } = "put" in version ? version.put : version.deleted;
              return (
                <li key={position}>
                  <a href={href("commits", position)}>commit {position}</a>
                  <span>{"put" in version ? <Badge kind="graph">version {version.put.version}</Badge> : <Badge kind="state-dead">deleted</Badge>} <Time ms={time_ms} /></span>
                </li>
              );
            })}
          </ul>
        </section>
      )}
    </>
  );
}

/** How many neighbours the picture has at most. */
const WHEEL_MAX = 20;

const WIDTH = 560;
const HEIGHT = 380;

/** A picture of a block with its neighbours around it. The list beside it has the same links. */
function Wheel({ graph, centre, neighbours }: { graph: string; centre: string; neighbours: Neighbour[] }) {
  const shown = neighbours.slice(0, WHEEL_MAX);
  const [cx, cy] = [WIDTH / 2, HEIGHT / 2];
  const clipped = (text: string): string => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
  return (
    <svg class="wheel" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${centre} and ${shown.length} of its neighbours`}>
      <defs>
        <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker>
      </defs>
      {shown.map((neighbour, index) => {
        const angle = (index / shown.length) * 2 * Math.PI;
        const [x, y] = [cx + Math.cos(angle) * (cx - 90), cy + Math.sin(angle) * (cy - 34)];
        const at = (part: number): [number, number] => [cx + (x - cx) * part, cy + (y - cy) * part];
        const [from, to] = neighbour.end === "target" ? [at(0.24), at(0.82)] : [at(0.82), at(0.24)];
        const [labelX, labelY] = at(0.55);
        return (
          <g key={`${neighbour.id} ${neighbour.type} ${neighbour.end}`}>
            <line x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} marker-end="url(#tip)" />
            {shown.length <= 10 && <text class="wheel-type" x={labelX} y={labelY - 5}>{clipped(neighbour.type)}</text>}
            <text class="wheel-node" x={x} y={y + 4} onClick={() => go(blockHref(graph, neighbour as { id: string; name: string | null }))}>{clipped(neighbour.name ?? neighbour.id.slice(0, 8))}</text>
          </g>
        );
      })}
      <text class="wheel-centre" x={cx} y={cy + 5}>{clipped(centre)}</text>
    </svg>
  );
}
