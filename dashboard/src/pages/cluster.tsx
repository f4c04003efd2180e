import type { ComponentChildren } from "preact";
import { QuireError, ask, useRead, type Read, type Schemas } from "../api.js";
import { Act, Badge, Empty, Facts, Head, Shown, Table } from "../ui/parts.js";
import { count } from "../ui/value.js";

type View = Schemas["ClusterReply"];
type Member = Schemas["ClusterMemberReply"];

const CLUSTER: Read = { route: "/v1/cluster" };

/** How often the page reads. An election takes less than a second. */
const EVERY_MS = 1_000;

/** The three commands of `docs/cluster.md`. */
const FIRST_CLUSTER = `quire serve --data d1 --node 1 --cluster-listen 127.0.0.1:7081 --cluster-init \\
    --http 127.0.0.1:7011 --grpc 127.0.0.1:7021 --kafka 127.0.0.1:9011
quire serve --data d2 --node 2 --cluster-listen 127.0.0.1:7082 --cluster-join 127.0.0.1:7081 \\
    --http 127.0.0.1:7012 --grpc 127.0.0.1:7022 --kafka 127.0.0.1:9012
quire serve --data d3 --node 3 --cluster-listen 127.0.0.1:7083 --cluster-join 127.0.0.1:7081 \\
    --http 127.0.0.1:7013 --grpc 127.0.0.1:7023 --kafka 127.0.0.1:9013`;

/** The members, their roles and their positions; the leader hands over and removes. */
export function Cluster() {
  const cluster = useRead<View>(CLUSTER, EVERY_MS);
  if (cluster.data === undefined && cluster.error instanceof QuireError && cluster.error.code === "not_found") return <Alone />;
  return (
    <>
      <Head title="Cluster" read={CLUSTER}>
        {cluster.data?.role === "leader" && <Transfer view={cluster.data} done={cluster.reload} />}
      </Head>
      <Shown of={cluster}>
        {(view) => (
          <>
            <Standing view={view} />
            <Facts of={[
              ["This node", String(view.node)],
              ["Its role", <Role role={view.role} />],
              ["Leader", view.leader === undefined || view.leader === null ? "none" : `node ${view.leader}`],
              ["Term", count(view.term)],
              ["Appended here", count(view.appended)],
              ["Synced here", count(view.durable)],
              ["Agreed", count(view.published)],
              ["Elections won here", count(view.elections_won)],
            ]} />
            <section>
              <h2>Members</h2>
              <Members view={view} done={cluster.reload} />
              {view.role !== "leader" && <p class="faint">Only the leader knows the positions of the others, and changes the members.</p>}
            </section>
          </>
        )}
      </Shown>
    </>
  );
}

function Alone() {
  return (
    <>
      <Head title="Cluster" read={CLUSTER} />
      <Empty title="This server is not a node of a cluster" command={FIRST_CLUSTER}>
        Each of three nodes has every record, and the cluster continues without one of them. Run each command in a terminal of its own. To keep the records of this server, stop it, and start node 1 with its directory in place of <code>d1</code>: <code>--cluster-init</code> makes a database the first node, with its records. Nodes 2 and 3 start with empty directories.
      </Empty>
    </>
  );
}

/** Whether the cluster continues, and what it can lose. */
function Standing({ view }: { view: View }) {
  const voters = view.members.filter(({ role }) => role === "voter");
  const majority = Math.floor(voters.length / 2) + 1;
  const lost = view.members.filter(({ connected }) => !connected);
  if (view.leader === undefined || view.leader === null) {
    return <p class="problem" role="status">No leader is known to this node. Commits and reads wait until {majority} of {voters.length} voters elect one.</p>;
  }
  // A follower is connected to the leader only, so it does not know which others are lost.
  if (view.role !== "leader") {
    const leader = view.members.find(({ node }) => node === view.leader);
    return <p class="lead">Node {view.leader} serves commits and reads. {leader !== undefined && <Dashboard of={leader}>Open its dashboard</Dashboard>}</p>;
  }
  const spare = voters.filter(({ connected }) => connected).length - majority;
  if (lost.length === 0) return <p class="lead">{continues(spare)}</p>;
  return <p class="problem" role="status">No connection to {nodes(lost)}. {continues(spare)}</p>;
}

function continues(spare: number): string {
  if (spare < 0) return "Too few voters are connected: no commit can succeed.";
  if (spare === 0) return "When one more voter is lost, commits and reads stop.";
  return `The cluster continues when it loses ${spare === 1 ? "one voter" : `${spare} voters`}.`;
}

function nodes(members: readonly Member[]): string {
  return `${members.length === 1 ? "node" : "nodes"} ${members.map(({ node }) => node).join(", ")}`;
}

function Role({ role }: { role: string }) {
  const kind = role === "leader" ? "streams" : role === "candidate" ? "state-dead" : role === "learner" ? "graph" : "jobs";
  return <Badge kind={kind}>{role}</Badge>;
}

/** A link to the dashboard of a node. */
function Dashboard({ of, children }: { of: Member; children: ComponentChildren }) {
  return <a href={`${window.location.protocol}//${of.http}/ui/cluster`} rel="noreferrer" class="whole">{children}</a>;
}

function Members({ view, done }: { view: View; done: () => void }) {
  const isLeader = view.role === "leader";
  return (
    <Table
      caption="Members"
      rows={view.members}
      keyOf={({ node }) => String(node)}
      columns={[
        { title: "Node", cell: (member) => member.node === view.node ? <strong class="whole">{member.node} (this node)</strong> : member.node },
        { title: "Role", cell: (member) => <Role role={member.node === view.leader ? "leader" : member.role} /> },
        { title: "Connection", cell: (member) => <Badge kind={member.connected ? "state-completed" : "state-dead"}>{member.connected ? "connected" : "not connected"}</Badge> },
        ...(isLeader ? [
          { title: "Has up to", isNumber: true, cell: (member: Member) => (member.acknowledged === undefined || member.acknowledged === null ? "–" : count(member.acknowledged)) },
          { title: "Lag", isNumber: true, cell: (member: Member) => (member.lag === undefined || member.lag === null ? "–" : count(member.lag)) },
          { title: "Change", cell: (member: Member) => (member.node === view.leader ? "" : <Remove view={view} member={member} done={done} />) },
        ] : []),
        { title: "HTTP", cell: (member) => <Dashboard of={member}>{member.http}</Dashboard> },
        { title: "Kafka", cell: (member) => <code class="whole">{member.kafka}</code> },
        { title: "Cluster", cell: (member) => <code class="whole">{member.cluster}</code> },
      ]}
    />
  );
}

function Transfer({ view, done }: { view: View; done: () => void }) {
  if (!view.members.some(({ node, role, connected }) => role === "voter" && connected && node !== view.node)) return null;
  return (
    <Act label="Transfer leadership" title={`Transfer the leadership of node ${view.node}?`} confirm="Transfer the leadership" act={() => ask((quire) => quire.send("POST", "/v1/cluster/transfer"))} done={done}>
      <p>The voter with the most records becomes the leader. Commits and reads wait for about a tenth of a second, or get <code>not_leader</code>. No acknowledged commit is lost.</p>
    </Act>
  );
}

function Remove({ view, member, done }: { view: View; member: Member; done: () => void }) {
  const voters = view.members.filter(({ role, node }) => role === "voter" && node !== member.node).length;
  const spare = Math.ceil(voters / 2) - 1;
  return (
    <Act
      label="Remove"
      title={`Remove node ${member.node}?`}
      confirm={`Remove node ${member.node}`}
      isDangerous
      act={() => ask((quire) => quire.send("POST", `/v1/cluster/remove?node=${member.node}`))}
      done={done}
    >
      <p>Node {member.node} stops serving, and no node ever gets its number again. Its directory stays on its disk. To have it back, start it with an empty directory and a new number.</p>
      <p>{voters} {voters === 1 ? "voter remains" : "voters remain"}. {spare === 0 ? "The cluster then stops when it loses one." : `The cluster then continues when it loses ${spare === 1 ? "one" : spare}.`}</p>
    </Act>
  );
}
