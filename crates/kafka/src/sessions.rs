//! Fetch sessions (KIP-227): what a client fetches again and again is named once, and answered when it has changed.
//!
//! A session belongs to its connection and ends with it. A client that comes back is told that its session is not there and
//! names all it wants anew, as it does when a broker was restarted; so nothing is kept for who is gone, and nothing evicted
//! (`docs/decisions`, 8).
//!
//! Who was answered with records is asked last the next time: with little room in an answer, every partition has its turn.

use std::collections::{BTreeMap, HashMap};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::FetchTopic;
use kafka_protocol::messages::{FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

/// The most partitions of a session. Who wants more is served without one.
const PARTITIONS_MAX: usize = 100_000;

/// How requests name a topic: by name, or from version 13 on by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Names {
    pub(crate) name: TopicName,
    pub(crate) id: Uuid,
}

/// A partition that a client wants to read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) topic: Names,
    pub(crate) partition: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) offset: i64,
    pub(crate) bytes_max: usize,
    /// Where the partition began and ended when the client was last told; `None` when it never was.
    pub(crate) told: Option<(i64, i64)>,
}

/// What one connection fetches again and again.
#[derive(Debug)]
pub(crate) struct Session {
    id: i32,
    /// What the next request has to say.
    epoch: i32,
    /// By turn: the first is asked first.
    wanted: BTreeMap<u64, Wanted>,
    turns: HashMap<(Names, i32), u64>,
    next_turn: u64,
}

/// What a request asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Each with its turn in the session.
    pub(crate) wanted: Vec<(u64, Wanted)>,
    /// The session's id; 0 for none.
    pub(crate) session_id: i32,
    /// Whether the client knows what it is not told: only what has changed is answered.
    pub(crate) is_incremental: bool,
}

impl Asked {
    /// Reads a request in the light of the connection's session, which begins, goes on or ends with it.
    ///
    /// # Errors
    /// When the request belongs to another session, or is not the next one of this.
    pub(crate) fn of(session: &mut Option<Session>, request: FetchRequest) -> Result<Self, ResponseError> {
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch > 0 {
            let known = session.as_mut().filter(|session| session.id == id);
            let known = known.ok_or(ResponseError::FetchSessionIdNotFound)?;
            if epoch != known.epoch {
                return Err(ResponseError::InvalidFetchSessionEpoch);
            }
            known.change(request);
            if known.wanted.len() > PARTITIONS_MAX {
                *session = None;
                return Err(ResponseError::FetchSessionIdNotFound);
            }
            known.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
            return Ok(known.asked(true));
        }
        // Either way the client has given up the session that it had.
        let last = session.take();
        if epoch < 0 {
            let wanted = (0..).zip(wanted(request.topics)).collect();
            return Ok(Asked { wanted, session_id: 0, is_incremental: false });
        }
        let id = last.map_or(0, |last| last.id).checked_add(1).unwrap_or(1);
        let mut begun = Session { id, epoch: 1, wanted: BTreeMap::new(), turns: HashMap::new(), next_turn: 0 };
        begun.change(request);
        let asked = begun.asked(false);
        if asked.wanted.len() > PARTITIONS_MAX {
            return Ok(Asked { session_id: 0, ..asked });
        }
        *session = Some(begun);
        Ok(asked)
    }
}

impl Session {
    fn change(&mut self, request: FetchRequest) {
        for changed in wanted(request.topics) {
            let key = (changed.topic.clone(), changed.partition);
            match self.turns.get(&key).and_then(|turn| self.wanted.get_mut(turn)) {
                Some(known) => *known = Wanted { told: known.told, ..changed },
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

    fn asked(&self, is_incremental: bool) -> Asked {
        let wanted = self.wanted.iter().map(|(turn, wanted)| (*turn, wanted.clone())).collect();
        Asked { wanted, session_id: self.id, is_incremental }
    }

    /// Notes what the client is told of the partition that had this turn: where it begins and ends, or `None` for an error.
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

fn wanted(topics: Vec<FetchTopic>) -> impl Iterator<Item = Wanted> {
    topics.into_iter().flat_map(|topic| {
        let names = names(&topic.topic, topic.topic_id);
        topic.partitions.into_iter().map(move |partition| Wanted {
            topic: names.clone(),
            partition: partition.partition,
            leader_epoch: partition.current_leader_epoch,
            offset: partition.fetch_offset,
            bytes_max: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
            told: None,
        })
    })
}

/// Copied, so that a session holds nothing of a request's memory.
fn names(name: &TopicName, id: Uuid) -> Names {
    Names { name: TopicName(StrBytes::from_string(name.as_str().to_owned())), id }
}
