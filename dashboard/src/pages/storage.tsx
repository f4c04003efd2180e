import { useState } from "preact/hooks";
import { ask, useRead, type Page, type Read, type Schemas } from "../api.js";
import { Act, Badge, Empty, Facts, Head, Shown, Table } from "../ui/parts.js";
import { Time } from "../ui/time.js";
import { bytes, count } from "../ui/value.js";

export function Storage() {
  const request: Read = { route: "/v1/stats" };
  const stats = useRead<Schemas["Stats"]>(request, 3_000);
  const [done, setDone] = useState<Schemas["CompactionReply"]>();
  const compact = (): Promise<void> => ask((quire) => quire.send<Schemas["CompactionReply"]>("POST", "/v1/compact").then(setDone));
  return (
    <>
      <Head title="Storage" read={request}>
        <Act label="Compact" title="Compact the log now?" confirm="Compact" act={compact} done={stats.reload}>
          <p>Rewrites the segments with the most deleted and expired records, and frees their space. Reads and writes go on.</p>
        </Act>
      </Head>
      {done !== undefined && (
        <p class="notice" role="status">Compacted {count(done.segments)} segments: {bytes(done.bytes_before)} became {bytes(done.bytes_after)}.</p>
      )}
      <Shown of={stats}>
        {(data) => (
          <>
            <Facts of={[
              ["Position", count(data.position)],
              ["Segments", count(data.segments)],
              ["Written since the start", bytes(data.log_bytes)],
              ["Checkpoints since the start", count(data.checkpoints)],
              ["Syncs since the start", count(data.syncs)],
              ["Durability", data.durability],
              ["Damaged places", count(data.damaged)],
              ["Unpacked in memory", bytes(data.unpacked_bytes)],
            ]} />
            <section>
              <h2>Limits</h2>
              <Table
                caption="Limits"
                rows={data.limits}
                keyOf={(limit) => limit.limit}
                columns={[
                  { title: "Setting", cell: (limit) => <code>{limit.limit}</code> },
                  { title: "Used", isNumber: true, cell: (limit) => count(limit.count) },
                  { title: "Most", isNumber: true, cell: (limit) => count(limit.most) },
                  { title: "Share", cell: (limit) => <progress max={Math.max(1, limit.most)} value={limit.count} aria-label={limit.limit} /> },
                ]}
              />
            </section>
            <section>
              <h2>Backup</h2>
              <p>A backup is a file of the whole database, made while it is written:</p>
              <pre class="value" tabIndex={0}>{`curl -s ${window.location.origin}/v1/backup -o quire.tar`}</pre>
            </section>
          </>
        )}
      </Shown>
    </>
  );
}

export function Access() {
  const self: Read = { route: "/v1/access/self" };
  const caller = useRead<Schemas["AccessSelfReply"]>(self);
  return (
    <>
      <Head title="Access" read={self} />
      <Shown of={caller}>
        {(data) => data.enabled ? (
          <>
            <Facts of={[["You are", data.principal ?? "the owner"], ["Your key", data.key]]} />
            <Lists />
          </>
        ) : (
          <Empty title="Access control is not enabled" command={`curl -s ${window.location.origin}/v1/access/init --json '{"user": "root"}'`}>
            Every client may do everything. Create the first administrator on the server's machine; its key is shown once.
          </Empty>
        )}
      </Shown>
    </>
  );
}

function Lists() {
  const users = useRead<Page<Schemas["UserReply"]>>({ route: "/v1/access/users" });
  const keys = useRead<Page<Schemas["ApiKeyReply"]>>({ route: "/v1/access/keys" });
  const rules = useRead<Page<Schemas["RuleReply"]>>({ route: "/v1/access/rules" });
  const enabled = (is: boolean) => <Badge kind={is ? "state-completed" : "state-dead"}>{is ? "enabled" : "disabled"}</Badge>;
  return (
    <>
      <section>
        <h2>Users</h2>
        <Shown of={users}>
          {({ data }) => (
            <Table caption="Users" rows={data} keyOf={(user) => user.user} columns={[
              { title: "User", cell: (user) => user.user },
              { title: "State", cell: (user) => enabled(user.enabled) },
              { title: "Roles", cell: (user) => user.roles.join(", ") },
            ]} />
          )}
        </Shown>
      </section>
      <section>
        <h2>API keys</h2>
        <Shown of={keys}>
          {({ data }) => (
            <Table caption="API keys" rows={data} keyOf={(key) => key.id} columns={[
              { title: "Key", cell: (key) => <code>{key.id}</code> },
              { title: "User", cell: (key) => key.user },
              { title: "State", cell: (key) => enabled(key.enabled) },
              { title: "Expires", cell: (key) => (key.expires_ms === null ? "never" : <Time ms={key.expires_ms} />) },
              { title: "Note", cell: (key) => key.note },
            ]} />
          )}
        </Shown>
      </section>
      <section>
        <h2>Rules</h2>
        <Shown of={rules}>
          {({ data }) => (
            data.length === 0 ? (
              <Empty title="No rules yet" command={`quire access grant user:billing write on topic prefix pay. \\\n    --http ${window.location.origin} --key-file root.key`}>
                A user has the rights of its roles. A rule allows or denies a user, a role or everyone one operation on some resources:
              </Empty>
            ) : <Table caption="Rules" rows={data} keyOf={(rule) => `${rule.subject} ${rule.rule}`} columns={[
              { title: "Subject", cell: (rule) => rule.subject },
              { title: "Rule", cell: (rule) => <code>{rule.rule}</code> },
            ]} />
          )}
        </Shown>
      </section>
    </>
  );
}
