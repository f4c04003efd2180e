//! Reads of a cluster: before a call that reads begins, a majority of the nodes confirms that this
//! node still leads. So the response has each commit that was acknowledged before the call, on any
//! node. A commit is acknowledged by a majority itself.

use quire::ClusterChange;

use crate::app::ServiceComponents;

/// The calls that read.
const READS: [&str; 32] = [
    "Events/Head",
    "Events/ListSubscriptions",
    "Events/Read",
    "Events/Subscribe",
    "Events/Upstream",
    "Graph/Changes",
    "Graph/Components",
    "Graph/Degree",
    "Graph/Describe",
    "Graph/Exists",
    "Graph/GetBlocks",
    "Graph/GetEdge",
    "Graph/GetVersions",
    "Graph/ListBlocks",
    "Graph/Missing",
    "Graph/Neighbours",
    "Graph/Order",
    "Graph/Paths",
    "Graph/Walk",
    "Jobs/Bulks",
    "Jobs/Get",
    "Jobs/Queues",
    "Jobs/Search",
    "Jobs/Subscribe",
    "Quire/History",
    "Quire/Refusals",
    "Sql/Query",
    "Streams/DescribeGroup",
    "Streams/DescribeTopic",
    "Streams/Fetch",
    "Streams/ListGroups",
    "Streams/ListTopics",
];

/// Whether the call of this path reads.
pub(crate) fn is_read(path: &str) -> bool {
    path.strip_prefix("/quire.v1.").is_some_and(|method| READS.contains(&method))
}

/// Waits until a call may read. `None` for a database alone, and for calls that do not read.
pub(crate) fn confirmation(components: &ServiceComponents, path: &str) -> Option<ClusterChange> {
    let control = components.served().owner().cluster_control()?;
    is_read(path).then(|| control.confirm())
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::READS;
    use crate::services::DESCRIPTORS;

    /// The calls that commit, and the one that continues from an offset that its group committed.
    const COMMITS: [&str; 27] = [
        "Events/Append",
        "Events/DropSubscription",
        "Events/Forget",
        "Events/PutSubscription",
        "Events/SetRetention",
        "Graph/Commit",
        "Jobs/BeginBulk",
        "Jobs/Change",
        "Jobs/ClearQueue",
        "Jobs/DestroyQueue",
        "Jobs/Enqueue",
        "Jobs/Fetch",
        "Jobs/Report",
        "Jobs/SetQueue",
        "Jobs/Work",
        "Quire/Commit",
        "Streams/AlterTopic",
        "Streams/CommitOffset",
        "Streams/Consume",
        "Streams/CreateTopic",
        "Streams/DeleteGroup",
        "Streams/DeleteOffset",
        "Streams/DeleteRecords",
        "Streams/DeleteTopic",
        "Streams/Produce",
        "Streams/ProtectUnread",
        "Streams/ResetOffsets",
    ];

    #[test]
    fn each_call_reads_or_commits() {
        let files = FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors").file;
        let services = files.iter().flat_map(|file| &file.service);
        let calls = services.flat_map(|service| {
            let name = service.name();
            service.method.iter().map(move |method| format!("{name}/{}", method.name()))
        });
        let mut calls: Vec<_> = calls.collect();
        calls.sort();
        let mut known: Vec<_> = READS.into_iter().chain(COMMITS).collect();
        known.sort_unstable();
        assert_eq!(calls, known);
    }
}
