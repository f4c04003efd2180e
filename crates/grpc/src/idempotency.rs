//! The metadata `idempotency-key`, by which a call that is sent again gets its first answer.
//!
//! The key is metadata and no field, so that each method takes it in one way, as each route of HTTP
//! does. A method either passes the key with its commit, or refuses it: a key is never ignored
//! where a call commits.

use quire::Commit;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Response, Status};

use crate::error::invalid_key;

/// The metadata of the key.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The metadata of a response that is the first answer to an earlier copy.
pub(crate) const IDEMPOTENT_REPLAY: &str = "idempotent-replay";

/// The methods that write and take no key. The others read, and ignore it.
const UNKEYED: [&str; 13] = [
    "Events/PutSubscription",
    "Events/DropSubscription",
    "Events/Forget",
    "Events/SetRetention",
    "Streams/Consume",
    "Streams/ResetOffsets",
    "Jobs/Fetch",
    "Jobs/Work",
    "Jobs/Change",
    "Jobs/BeginBulk",
    "Jobs/SetQueue",
    "Jobs/ClearQueue",
    "Jobs/DestroyQueue",
];

/// Checks the key of a call, before the method.
///
/// # Errors
/// When the method commits and takes no key.
pub(crate) fn check(path: &str, headers: &HeaderMap) -> Result<(), Status> {
    let method = path.strip_prefix("/quire.v1.").unwrap_or_default();
    if UNKEYED.contains(&method) && headers.contains_key(IDEMPOTENCY_KEY) {
        return Err(invalid_key(format!("{method} takes no `idempotency-key`: use Quire/Commit")));
    }
    Ok(())
}

/// The idempotency key of a call, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallKey(Option<String>);

impl CallKey {
    /// Reads the key of a call.
    ///
    /// # Errors
    /// When the call has several keys, or one that is no UTF-8 text.
    pub(crate) fn of(metadata: &MetadataMap) -> Result<Self, Status> {
        let mut keys = metadata.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = keys.next() else { return Ok(CallKey(None)) };
        if keys.next().is_some() {
            return Err(invalid_key("give one `idempotency-key`, not several"));
        }
        let text = str::from_utf8(key.as_encoded_bytes());
        let text = text.map_err(|_| invalid_key("`idempotency-key` must be UTF-8 text"))?;
        Ok(CallKey(Some(text.to_owned())))
    }

    /// Adds the key to a commit. Delays in messages are delays in commands, so the fingerprint of
    /// the commit is that of the call.
    pub(crate) fn on<'c>(&'c self, commit: Commit<'c>) -> Commit<'c> {
        match &self.0 {
            Some(key) => commit.idempotency_key(key.as_str()),
            None => commit,
        }
    }
}

/// The response to a commit, which names a replay in its metadata.
pub(crate) fn response<T>(message: T, is_replay: bool) -> Response<T> {
    let mut response = Response::new(message);
    if is_replay {
        response.metadata_mut().insert(IDEMPOTENT_REPLAY, MetadataValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    /// The methods that take a key: each answers with the replies of one commit.
    const KEYED: [&str; 14] = [
        "Quire/Commit",
        "Events/Append",
        "Streams/Produce",
        "Streams/CreateTopic",
        "Streams/AlterTopic",
        "Streams/DeleteTopic",
        "Streams/DeleteRecords",
        "Streams/DeleteGroup",
        "Streams/CommitOffset",
        "Streams/DeleteOffset",
        "Streams/ProtectUnread",
        "Jobs/Enqueue",
        "Jobs/Report",
        "Graph/Commit",
    ];

    /// The methods that only read.
    const READS: [&str; 32] = [
        "Quire/Refusals",
        "Quire/History",
        "Events/Read",
        "Events/Subscribe",
        "Events/Head",
        "Events/Upstream",
        "Events/ListSubscriptions",
        "Streams/Fetch",
        "Streams/ListTopics",
        "Streams/DescribeTopic",
        "Streams/ListGroups",
        "Streams/DescribeGroup",
        "Jobs/Get",
        "Jobs/Search",
        "Jobs/Bulks",
        "Jobs/Queues",
        "Jobs/Subscribe",
        "Graph/Describe",
        "Graph/GetBlocks",
        "Graph/Exists",
        "Graph/GetVersions",
        "Graph/ListBlocks",
        "Graph/GetEdge",
        "Graph/Degree",
        "Graph/Neighbours",
        "Graph/Walk",
        "Graph/Paths",
        "Graph/Order",
        "Graph/Components",
        "Graph/Missing",
        "Graph/Changes",
        "Sql/Query",
    ];

    #[test]
    fn each_method_takes_a_key_or_refuses_it_or_only_reads() {
        let files = FileDescriptorSet::decode(crate::services::DESCRIPTORS).expect("descriptors").file;
        let services = files.iter().filter(|file| file.package() == "quire.v1").flat_map(|file| &file.service);
        let mut methods: Vec<String> = services
            .flat_map(|service| service.method.iter().map(|method| format!("{}/{}", service.name(), method.name())))
            .collect();
        let mut known: Vec<String> = [&KEYED[..], &UNKEYED, &READS].concat().into_iter().map(str::to_owned).collect();
        methods.sort();
        known.sort();
        assert_eq!(methods, known);
    }
}
