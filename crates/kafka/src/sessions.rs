//! Fetch sessions (KIP-227): a client names its partitions once, and later responses list only
//! those that changed.
//!
//! A session belongs to its connection and ends with it. A client that reconnects gets "unknown
//! session" and names all its partitions again, as after a restart of a broker. So no session
//! outlives its client, and none is evicted (`docs/decisions`, 8).
//!
//! A partition that returned records moves to the end of the order. If responses are small, every
//! partition gets its turn.

use std::collections::{BTreeMap, HashMap};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::FetchTopic;
use kafka_protocol::messages::{FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire_access::budget::{BudgetCaller, ByteClaim};
use uuid::Uuid;

/// The maximum number of partitions of a session. A larger fetch is served without a session, and
/// so is one for whose session there is no memory.
const PARTITIONS_MAX: usize = 100_000;

/// The memory of a partition in a session, in bytes, besides the topic's name.
const PARTITION_BYTES: usize = 320;

/// How requests name a topic: by name, or from version 13 on by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TopicNaming {
    pub(crate) name: TopicName,
    pub(crate) id: Uuid,
}

/// A partition that a client wants to read.
#[derive(Debug, Clone)]
pub(crate) struct SessionPartition {
    pub(crate) topic: TopicNaming,
    pub(crate) partition: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) offset: i64,
    pub(crate) bytes_max: usize,
    /// The first and next offsets that the client last received; `None` before the first response.
    pub(crate) told: Option<(i64, i64)>,
}

/// The fetch session of one connection.
#[derive(Debug)]
pub(crate) struct FetchSession {
    id: i32,
    /// The epoch that the next request must have.
    epoch: i32,
    /// In turn order: the lowest comes first.
    wanted: BTreeMap<u64, SessionPartition>,
    turns: HashMap<(TopicNaming, i32), u64>,
    next_turn: u64,
    claim: ByteClaim,
}

/// The partitions of a request.
#[derive(Debug)]
pub(crate) struct SessionRequest {
    /// Each with its turn in the session.
    pub(crate) wanted: Vec<(u64, SessionPartition)>,
    /// The session's id; 0 for none.
    pub(crate) session_id: i32,
    /// Whether the response lists only changed partitions.
    pub(crate) is_incremental: bool,
}

impl SessionRequest {
    /// Applies a request to the connection's session, and starts, continues or ends the session.
    ///
    /// # Errors
    /// When the request belongs to another session, or has the wrong epoch.
    pub(crate) fn of(
        session: &mut Option<FetchSession>,
        request: FetchRequest,
        caller: &BudgetCaller,
    ) -> Result<Self, ResponseError> {
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch > 0 {
            let known = session.as_mut().filter(|session| session.id == id);
            let known = known.ok_or(ResponseError::FetchSessionIdNotFound)?;
            if epoch != known.epoch {
                return Err(ResponseError::InvalidFetchSessionEpoch);
            }
            known.change(request);
            if known.wanted.len() > PARTITIONS_MAX || !known.claim() {
                *session = None;
                return Err(ResponseError::FetchSessionIdNotFound);
            }
            known.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
            return Ok(known.asked(true));
        }
        // In both cases the client has abandoned its earlier session.
        let last = session.take();
        if epoch < 0 {
            let wanted = (0..).zip(wanted(request.topics)).collect();
            return Ok(SessionRequest { wanted, session_id: 0, is_incremental: false });
        }
        let id = last.map_or(0, |last| last.id).checked_add(1).unwrap_or(1);
        let mut begun = FetchSession {
            id,
            epoch: 1,
            wanted: BTreeMap::new(),
            turns: HashMap::new(),
            next_turn: 0,
            claim: caller.claim(),
        };
        begun.change(request);
        let asked = begun.asked(false);
        if asked.wanted.len() > PARTITIONS_MAX || !begun.claim() {
            return Ok(SessionRequest { session_id: 0, ..asked });
        }
        *session = Some(begun);
        Ok(asked)
    }
}

impl FetchSession {
    /// Claims the memory of the session. `false` when there is too little.
    fn claim(&mut self) -> bool {
        let name = |wanted: &SessionPartition| wanted.topic.name.len();
        let bytes = self.wanted.values().map(|wanted| PARTITION_BYTES + name(wanted)).sum::<usize>();
        self.claim.shrink_to(bytes);
        self.claim.grow(bytes - self.claim.bytes()).is_ok()
    }

    fn change(&mut self, request: FetchRequest) {
        for changed in wanted(request.topics) {
            let key = (changed.topic.clone(), changed.partition);
            match self.turns.get(&key).and_then(|turn| self.wanted.get_mut(turn)) {
                Some(known) => *known = SessionPartition { told: known.told, ..changed },
                None => {
                    self.wanted.insert(self.next_turn, changed);
                    self.turns.insert(key, self.next_turn);
                    self.next_turn += 1;
                }
            }
        }
        for topic in request.forgotten_topics_data {
            let names = names(&topic.topic, topic.topic_id);
            for partition in topic.partitions {
                if let Some(turn) = self.turns.remove(&(names.clone(), partition)) {
                    self.wanted.remove(&turn);
                }
            }
        }
    }

    fn asked(&self, is_incremental: bool) -> SessionRequest {
        let wanted = self.wanted.iter().map(|(turn, wanted)| (*turn, wanted.clone())).collect();
        SessionRequest { wanted, session_id: self.id, is_incremental }
    }

    /// Records the response for the partition that had this turn: its first and next offsets, or
    /// `None` for an error.
    pub(crate) fn told(&mut self, turn: u64, place: Option<(i64, i64)>, has_records: bool) {
        if !has_records {
            if let Some(wanted) = self.wanted.get_mut(&turn) {
                wanted.told = place;
            }
        } else if let Some(mut wanted) = self.wanted.remove(&turn) {
            wanted.told = place;
            self.turns.insert((wanted.topic.clone(), wanted.partition), self.next_turn);
            self.wanted.insert(self.next_turn, wanted);
            self.next_turn += 1;
        }
    }
}

fn wanted(topics: Vec<FetchTopic>) -> impl Iterator<Item = SessionPartition> {
    topics.into_iter().flat_map(|topic| {
        let names = names(&topic.topic, topic.topic_id);
        topic.partitions.into_iter().map(move |partition| SessionPartition {
            topic: names.clone(),
            partition: partition.partition,
            leader_epoch: partition.current_leader_epoch,
            offset: partition.fetch_offset,
            bytes_max: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
            told: None,
        })
    })
}

/// Copied, so that a session keeps no memory of a request.
fn names(name: &TopicName, id: Uuid) -> TopicNaming {
    TopicNaming { name: TopicName(StrBytes::from_string(name.as_str().to_owned())), id }
}
