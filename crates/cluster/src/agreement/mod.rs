//! Agreement on the records of the log: Raft, by the crate `raft`, over a log that the leader has
//! already appended to.
//!
//! `raft` gets entries without data. It never appends to the log of the leader: the leader appends
//! as a database alone does, and [reports](Agreement::appended) the records afterwards. So a
//! record's position is known when its commit is decided, and no record is copied.
//!
//! Invariants:
//! * A vote is on disk before a message that rests on it is sent.
//! * A node says that it has a record only after its own sync of that record.
//! * A record is published after a majority of the voters has it on disk, and only with or after a
//!   record of the leader's own term (Raft, section 5.4.2).
//! * A leader appends only records of its own term; the first one begins the term.

mod members;
mod message;
mod node;
mod place;
mod store;

use std::collections::VecDeque;
use std::fmt;

use quire_log::Term;
use quire_model::Position;
use raft::eraftpb::{Entry, EntryType, MessageType, Snapshot};
use raft::{Changer, Config, RawNode, SnapshotStatus, StateRole};

pub use members::{MemberChange, MemberSet};
pub use message::PeerMessage;
pub use node::{MemberNode, Shipment};
pub use place::{NodeId, NodeRole, NodeState, RecordPlace, Vote};

use store::NodeStorage;

/// How far the term of a message may be beyond that of the node.
const TERMS_AHEAD_MAX: u64 = 1 << 20;

/// How many records are reported to `raft` at once.
const REPORTED_MAX: u64 = 1_024;

/// How many times `election_ticks` a node that is [held back](Agreement::hold_back) waits for a
/// leader before it asks for votes.
const HELD_BACK_ELECTIONS: usize = 20;

/// Messages with records that a follower may have unanswered. The records that are appended
/// meanwhile go with the next message, so that one sync of the follower covers them.
const UNANSWERED_MAX: usize = 4;

/// The time between heartbeats and elections, in ticks. The owner decides how long a tick is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgreementSettings {
    /// The ticks between two heartbeats of a leader. Default: 1; at least 1.
    pub heartbeat_ticks: usize,
    /// The ticks without a leader after which a follower asks for votes, at least. Each term draws
    /// a number between this and its double, so that two followers seldom ask together. Default: 8;
    /// more than `heartbeat_ticks`.
    pub election_ticks: usize,
}

impl AgreementSettings {
    /// The ticks without a leader after which a node that is [held back](Agreement::hold_back) asks
    /// for votes all the same.
    pub fn held_back_ticks(self) -> usize {
        HELD_BACK_ELECTIONS * self.election_ticks
    }
}

impl Default for AgreementSettings {
    fn default() -> Self {
        AgreementSettings { heartbeat_ticks: 1, election_ticks: 8 }
    }
}

/// The agreement of one node with the others; see the module.
pub struct Agreement<N: MemberNode> {
    raft: RawNode<NodeStorage<N>>,
    settings: AgreementSettings,
    random: fastrand::Rng,
    /// What waits for a sync, in order.
    unsynced: VecDeque<PendingStep>,
    synced: Position,
    published: Position,
    vote: Vote,
    state: NodeState,
    /// The number of the last round for reads that was begun, and of the last one that a majority
    /// answered.
    read_rounds: (u64, u64),
    /// Whether the node leaves the office to others.
    is_held_back: bool,
    /// The ticks since the node, held back, last knew a leader.
    leaderless_ticks: usize,
}

/// Messages that wait until the records before them are synced.
struct PendingStep {
    /// The number that `raft` gave to the step.
    number: u64,
    /// The last record that must be synced.
    last: Position,
    messages: Vec<PeerMessage>,
}

impl<N: MemberNode> Agreement<N> {
    /// The agreement of a node whose log is synced. Its published position is
    /// [`MemberNode::published`], until a leader says otherwise. `seed` decides when it asks for
    /// votes.
    ///
    /// # Panics
    /// When the settings are invalid, or the log and the members of the node contradict each other.
    pub fn new(id: NodeId, node: N, settings: AgreementSettings, seed: u64) -> Self {
        let (published, last, vote) = (node.published(), node.last(), node.vote());
        let config = Config {
            id: id.get(),
            election_tick: settings.election_ticks,
            heartbeat_tick: settings.heartbeat_ticks,
            applied: published.get(),
            max_size_per_msg: u64::MAX,
            max_inflight_msgs: UNANSWERED_MAX,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&config, NodeStorage { node, known: last.position }, &logger)
            .expect("the settings and the log are valid");
        let state = NodeState { role: NodeRole::Follower, term: vote.term, leader: None };
        let mut agreement = Agreement {
            raft,
            settings,
            random: fastrand::Rng::with_seed(seed),
            unsynced: VecDeque::new(),
            synced: last.position,
            published,
            vote,
            state,
            read_rounds: (0, 0),
            is_held_back: false,
            leaderless_ticks: 0,
        };
        agreement.draw_election_ticks();
        agreement
    }

    /// The node.
    pub fn node(&self) -> &N {
        &self.raft.store().node
    }

    /// The node, to change it.
    pub fn node_mut(&mut self) -> &mut N {
        &mut self.raft.mut_store().node
    }

    /// The role of the node.
    pub fn state(&self) -> NodeState {
        self.state
    }

    /// The published position.
    pub fn published(&self) -> Position {
        self.published
    }

    /// The position up to which the node may compact its log: the records are published, synced
    /// here, and their changes of the members are in force.
    pub fn compactable(&self) -> Position {
        Position::new(self.raft.raft.raft_log.applied)
    }

    /// The members that are in force on this node.
    pub fn members(&self) -> MemberSet {
        MemberSet::of_raft(&self.raft.raft.prs().conf().to_conf_state())
    }

    /// The term in which the node may append; `None` when it is not the leader, and while it hands
    /// its office over.
    pub fn may_append(&self) -> Option<Term> {
        let is_leading = self.state.role == NodeRole::Leader && self.raft.raft.lead_transferee.is_none();
        is_leading.then_some(self.state.term)
    }

    /// Whether the node may append a record that changes the members: it is the leader, a record of
    /// its term is published, and so is the change before.
    pub fn may_change_members(&self) -> bool {
        let raft = &self.raft.raft;
        self.may_append().is_some() && raft.commit_to_current_term() && raft.pending_conf_index <= raft.raft_log.applied
    }

    /// Checks that a change fits the members, before its record is appended.
    ///
    /// # Errors
    /// Why it does not fit, for example because no voter would be left.
    pub fn check_change(&self, change: &MemberChange) -> Result<(), String> {
        let (progress, change) = (self.raft.raft.prs(), change.to_raft());
        let mut changer = Changer::new(progress);
        let changed = if change.leave_joint() {
            changer.leave_joint()
        } else if let Some(leaves) = change.enter_joint() {
            changer.enter_joint(leaves, &change.changes)
        } else {
            changer.simple(&change.changes)
        };
        changed.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Notes that a tick has passed.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn tick(&mut self) -> Result<(), N::Failure> {
        // A node whose disk is behind asks for no votes: its vote would rest on unsynced records.
        if self.state.role != NodeRole::Leader && !self.unsynced.is_empty() {
            return Ok(());
        }
        if self.waits_for_others() {
            self.stand_back();
        } else {
            self.raft.tick();
        }
        self.settle()
    }

    /// Makes the node leave the office of the leader to others, or ends that. A node that is held
    /// back asks for no votes, and takes no office that another node hands over. It votes as
    /// before.
    ///
    /// * Without any leader for [`AgreementSettings::held_back_ticks`], it asks for votes all the
    ///   same: the others may lack records, or be held back too.
    /// * The only voter is not held back.
    /// * A leader stays the leader: its owner hands the office over.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn hold_back(&mut self, is_held_back: bool) -> Result<(), N::Failure> {
        if self.is_held_back == is_held_back {
            return Ok(());
        }
        (self.is_held_back, self.leaderless_ticks) = (is_held_back, 0);
        if self.is_held_back() && self.state.role == NodeRole::Candidate {
            self.stand_back();
        }
        self.settle()
    }

    /// Whether the node leaves the office of the leader to others.
    pub fn is_held_back(&self) -> bool {
        let others = || self.members().voters.len() > 1;
        self.is_held_back && others()
    }

    /// Whether the node, held back, would ask for votes at this tick and is not to.
    fn waits_for_others(&mut self) -> bool {
        if !self.is_held_back() || self.state.role == NodeRole::Leader || self.state.leader.is_some() {
            self.leaderless_ticks = 0;
        } else {
            self.leaderless_ticks += 1;
        }
        let raft = &self.raft.raft;
        let is_due = raft.election_elapsed + 1 >= raft.randomized_election_timeout();
        let is_patient = self.leaderless_ticks < self.settings.held_back_ticks();
        self.is_held_back() && self.state.role != NodeRole::Leader && is_due && is_patient
    }

    /// Forgets the leader, and each attempt to lead. So this node votes for another one.
    fn stand_back(&mut self) {
        let raft = &mut self.raft.raft;
        raft.become_follower(raft.term, raft::INVALID_ID);
        self.draw_election_ticks();
    }

    /// Reports the records that the leader has appended since the last report. The records that a
    /// leader has not reported when it loses its office are truncated.
    ///
    /// # Errors
    /// The failure of the node.
    ///
    /// # Panics
    /// When a record is not of the leader's term.
    pub fn appended(&mut self) -> Result<(), N::Failure> {
        if self.state.role != NodeRole::Leader {
            return Ok(());
        }
        let last = self.node().last().position.get();
        loop {
            let known = self.raft.store().known.get();
            let until = last.min(known + REPORTED_MAX);
            if known >= until {
                break;
            }
            let store = self.raft.store();
            let mut entries: Vec<Entry> =
                (known + 1..=until).map(|index| store.entry(index).expect("the record is in the log")).collect();
            let term = self.raft.raft.term;
            assert!(entries.iter().all(|entry| entry.term == term), "a leader appends records of its term");
            let changes = entries.iter().rev().find(|entry| entry.get_entry_type() == EntryType::EntryConfChangeV2);
            let change = changes.map(|entry| entry.index);
            assert!(self.raft.raft.append_entry(&mut entries), "the uncommitted suffix is bounded by the node");
            self.raft.mut_store().known = Position::new(until);
            if let Some(change) = change {
                self.raft.raft.pending_conf_index = change;
            }
        }
        self.raft.raft.bcast_append();
        self.settle()
    }

    /// Notes that the log is synced up to this record.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn synced(&mut self, place: RecordPlace) -> Result<(), N::Failure> {
        self.choose_notices();
        // A record that was truncated meanwhile was synced for nothing.
        if self.node().term(place.position) == Some(place.term) {
            self.synced = self.synced.max(place.position);
        }
        self.release();
        self.settle()
    }

    /// Receives a message of another node. The node has the records and files that came with it.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn receive(&mut self, message: PeerMessage) -> Result<(), N::Failure> {
        if self.is_held_back() && message.0.get_msg_type() == MessageType::MsgTimeoutNow {
            // The other node keeps its office, or hands it over to a third one.
            return Ok(());
        }
        self.choose_notices();
        // Messages of nodes that are no longer members are refused by `raft`, and answer nothing.
        let _ = self.raft.step(message.0);
        self.settle()
    }

    /// Decides whether followers are told of a published position at once. Records that the owner
    /// has yet to report with [`appended`](Self::appended) tell them as well.
    fn choose_notices(&mut self) {
        let has_unreported = self.node().last().position > self.raft.store().known;
        self.raft.skip_bcast_commit(has_unreported);
    }

    /// Checks that a message of another node does not contradict the log of this one. `raft` takes
    /// that for granted, and panics otherwise.
    ///
    /// # Errors
    /// The contradiction.
    pub fn check_message(&self, message: &PeerMessage) -> Result<(), String> {
        let (raft, message) = (&self.raft.raft, &message.0);
        let (last, committed) = (raft.raft_log.last_index(), raft.raft_log.committed);
        if message.term > raft.term + TERMS_AHEAD_MAX {
            return Err(format!("its term {} is far beyond term {}", message.term, raft.term));
        }
        let is_stale = message.term < raft.term;
        match message.get_msg_type() {
            MessageType::MsgHeartbeat if !is_stale && message.commit > last => Err(format!(
                "it knows that this node had record {}, and the log here ends with record {last}: the data directory was replaced or lost records; remove this node from the cluster, and join with an empty directory and another number",
                message.commit
            )),
            MessageType::MsgAppend if !is_stale => {
                let published = message.get_entries().iter().filter(|entry| entry.index <= committed);
                for entry in published {
                    let known = self.node().term(Position::new(entry.index)).map(raft_term);
                    if known != Some(entry.term) {
                        return Err(format!("it has another record {} than the published one", entry.index));
                    }
                }
                Ok(())
            }
            MessageType::MsgAppendResponse if !message.reject && message.index > last => {
                Err(format!("it acknowledges record {}, and the log ends with record {last}", message.index))
            }
            _ if message.request_snapshot != 0 => Err("it asks for files".to_owned()),
            _ => Ok(()),
        }
    }

    /// Whether a message says that this node needs the files of another one: the leader no longer
    /// has the records that follow the log here.
    pub fn needs_files(&self, message: &PeerMessage) -> bool {
        let Some(Shipment { place, .. }) = message.shipment() else { return false };
        let is_current = message.0.term >= self.raft.raft.term;
        is_current && place.position > self.published && self.node().term(place.position) != Some(place.term)
    }

    /// Notes that messages to a node were lost. They are sent again when it answers.
    pub fn unreachable(&mut self, node: NodeId) {
        self.raft.report_unreachable(node.get());
    }

    /// Notes that the process of the leader has probably ended. This node forgets the leader, so
    /// that another one may be elected at once. Returns whether it followed a leader.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn lose_leader(&mut self) -> Result<bool, N::Failure> {
        let raft = &mut self.raft.raft;
        let is_lost = self.state.role == NodeRole::Follower && raft.leader_id != raft::INVALID_ID;
        if is_lost {
            raft.become_follower(raft.term, raft::INVALID_ID);
            self.settle()?;
        }
        Ok(is_lost)
    }

    /// Asks the others for their votes now, if this node follows no leader and its disk is level.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn campaign(&mut self) -> Result<(), N::Failure> {
        let is_free = self.state.role == NodeRole::Follower && self.state.leader.is_none() && !self.is_held_back();
        if is_free && self.unsynced.is_empty() && self.raft.raft.promotable() {
            // A node that waits for a change of the members to take effect asks later.
            let _ = self.raft.campaign();
            self.settle()?;
        }
        Ok(())
    }

    /// The last record that each member has acknowledged, as far as this node knows as the leader.
    pub fn progress(&self) -> Vec<(NodeId, Position)> {
        let all = self.raft.raft.prs().iter();
        all.filter_map(|(node, progress)| Some((NodeId::new(*node)?, Position::new(progress.matched)))).collect()
    }

    /// Notes whether a shipment reached a node.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn shipped(&mut self, to: NodeId, is_complete: bool) -> Result<(), N::Failure> {
        let status = if is_complete { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.raft.report_snapshot(to.get(), status);
        self.settle()
    }

    /// Begins a round that asks a majority whether this node still leads (Raft, section 6.4 of the
    /// dissertation). After [`read_round_done`](Self::read_round_done) has reached the returned
    /// number, the published records hold every commit that was acknowledged before this call.
    /// `None` when the node does not lead, or has published no record of its term.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn begin_read_round(&mut self) -> Result<Option<u64>, N::Failure> {
        if self.state.role != NodeRole::Leader || !self.raft.raft.commit_to_current_term() {
            return Ok(None);
        }
        self.read_rounds.0 += 1;
        // No two rounds have the same number: an answer to an earlier one confirms nothing.
        self.raft.read_index(self.read_rounds.0.to_le_bytes().to_vec());
        self.settle()?;
        Ok(Some(self.read_rounds.0))
    }

    /// The number of the last round for reads that a majority answered.
    pub fn read_round_done(&self) -> u64 {
        self.read_rounds.1
    }

    /// Hands the office over to a voter. The leader appends nothing until it has happened, or an
    /// election timeout has passed.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn transfer(&mut self, to: NodeId) -> Result<(), N::Failure> {
        self.raft.transfer_leader(to.get());
        self.settle()
    }

    /// Carries out what `raft` asks for, until it asks for nothing.
    fn settle(&mut self) -> Result<(), N::Failure> {
        self.note_state()?;
        while self.raft.has_ready() {
            let mut ready = self.raft.ready();
            if let Some(state) = ready.hs() {
                let vote = Vote { term: term(state.term), node: NodeId::new(state.vote) };
                if vote != self.vote {
                    self.node_mut().save_vote(vote)?;
                    self.vote = vote;
                }
            }
            let installed = (!ready.snapshot().is_empty()).then(|| ready.snapshot().clone());
            if let Some(snapshot) = &installed {
                self.install(snapshot)?;
            }
            for read in ready.take_read_states() {
                let round = read.request_ctx.try_into().expect("each round has a number of eight bytes");
                self.read_rounds.1 = self.read_rounds.1.max(u64::from_le_bytes(round));
            }
            let entries = ready.take_entries();
            if !entries.is_empty() {
                self.append(&entries)?;
            }
            for message in ready.take_messages() {
                self.node_mut().send(PeerMessage(message));
            }
            let messages = ready.take_persisted_messages().into_iter().map(PeerMessage).collect();
            let last = entries.last().map_or(Position::ZERO, |entry| Position::new(entry.index));
            let committed = ready.take_committed_entries();
            let number = ready.number();
            self.raft.advance_append_async(ready);
            self.unsynced.push_back(PendingStep { number, last, messages });
            self.release();
            if let Some(snapshot) = installed {
                self.raft.advance_apply_to(snapshot.get_metadata().index);
            }
            self.publish()?;
            self.change_members(&committed);
            self.note_state()?;
        }
        Ok(())
    }

    /// Appends entries that `raft` has and the log may lack.
    fn append(&mut self, entries: &[Entry]) -> Result<(), N::Failure> {
        let places: Vec<RecordPlace> = entries.iter().map(place).collect();
        let last = places.last().expect("some").position;
        if self.raft.raft.state == StateRole::Leader {
            // `raft` begins a term with an entry of its own. All others were in the log before.
            if last > self.raft.store().known {
                self.node_mut().begin_term(places[places.len() - 1])?;
            }
        } else {
            self.truncate_after(Position::new(places[0].position.get() - 1), &places)?;
        }
        self.raft.mut_store().known = last;
        Ok(())
    }

    /// Replaces the records after `before` by these.
    fn truncate_after(&mut self, before: Position, places: &[RecordPlace]) -> Result<(), N::Failure> {
        assert!(before >= self.published, "published records are not truncated");
        let term = self.node().term(before).expect("the records follow one of the log");
        self.forget_unsynced_after(before);
        self.node_mut().take(RecordPlace { position: before, term }, places)
    }

    /// Another record may get the position of one that is truncated. So no acknowledgement of one
    /// is sent any more. Such a message may also wait in a later step, which appended nothing: it
    /// answers an append that arrived twice.
    fn forget_unsynced_after(&mut self, before: Position) {
        self.synced = self.synced.min(before);
        for step in &mut self.unsynced {
            step.last = step.last.min(before);
            step.messages.retain(|message| message.acknowledged().is_none_or(|position| position <= before));
        }
    }

    fn install(&mut self, snapshot: &Snapshot) -> Result<(), N::Failure> {
        let metadata = snapshot.get_metadata();
        let shipment = Shipment {
            place: RecordPlace { position: Position::new(metadata.index), term: term(metadata.term) },
            members: MemberSet::of_raft(metadata.get_conf_state()),
        };
        self.node_mut().install(&shipment)?;
        self.node_mut().set_members(shipment.place.position, &shipment.members);
        self.forget_unsynced_after(Position::ZERO);
        self.synced = shipment.place.position;
        self.published = self.published.max(shipment.place.position);
        self.raft.mut_store().known = shipment.place.position;
        Ok(())
    }

    /// Sends the messages whose records are synced, and reports the sync to `raft`.
    fn release(&mut self) {
        let synced = self.synced;
        let mut number = None;
        let mut messages: Vec<PeerMessage> = Vec::new();
        while let Some(step) = self.unsynced.pop_front_if(|step| step.last <= synced) {
            number = Some(step.number);
            for message in step.messages {
                match messages.last_mut() {
                    // An acknowledgement holds for all records before its own.
                    Some(last) if message.replaces(last) => *last = message,
                    _ => messages.push(message),
                }
            }
        }
        for message in messages {
            self.node_mut().send(message);
        }
        if let Some(number) = number {
            self.raft.on_persist_ready(number);
        }
    }

    /// Publishes what `raft` has found to be on a majority.
    fn publish(&mut self) -> Result<(), N::Failure> {
        let committed = Position::new(self.raft.raft.raft_log.committed);
        if committed > self.published {
            let term = self.node().term(committed).expect("a published record is in the log");
            self.node_mut().publish(RecordPlace { position: committed, term })?;
            self.published = committed;
        }
        Ok(())
    }

    /// Applies the changes of members among published entries.
    fn change_members(&mut self, committed: &[Entry]) {
        let Some(last) = committed.last() else { return };
        for entry in committed.iter().filter(|entry| entry.get_entry_type() == EntryType::EntryConfChangeV2) {
            let position = Position::new(entry.index);
            let change = self.node().change(position).expect("the record carries the change");
            // A change that does not fit the members is refused before it is appended.
            let members = self.raft.apply_conf_change(&change.to_raft()).expect("the change fits the members");
            self.node_mut().set_members(position, &MemberSet::of_raft(&members));
            let raft = &mut self.raft.raft;
            if raft.state == StateRole::Leader && !raft.promotable() {
                // It was removed.
                raft.become_follower(raft.term, raft::INVALID_ID);
            }
        }
        self.raft.advance_apply_to(last.index);
    }

    /// Notes a new role or term, and draws the time until the next election.
    fn note_state(&mut self) -> Result<(), N::Failure> {
        let raft = &self.raft.raft;
        let role = match raft.state {
            StateRole::Follower => NodeRole::Follower,
            StateRole::PreCandidate | StateRole::Candidate => NodeRole::Candidate,
            StateRole::Leader => NodeRole::Leader,
        };
        let state = NodeState { role, term: term(raft.term), leader: NodeId::new(raft.leader_id) };
        if state == self.state {
            return Ok(());
        }
        let was_leader = self.state.role == NodeRole::Leader;
        self.state = state;
        self.node_mut().set_state(state);
        self.draw_election_ticks();
        let known = self.raft.store().known;
        if was_leader && self.node().last().position > known {
            self.truncate_after(known, &[])?;
        }
        Ok(())
    }

    /// `raft` draws from a generator of the thread. A simulation needs the same draws in each run.
    fn draw_election_ticks(&mut self) {
        let least = self.settings.election_ticks;
        self.raft.raft.set_randomized_election_timeout(self.random.usize(least..2 * least));
    }
}

impl<N: MemberNode> fmt::Debug for Agreement<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agreement")
            .field("state", &self.state)
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}

/// The number that `raft` has for a term. Records of a database alone have term 0, which is no term
/// of `raft`. So each number of `raft` is greater by one.
fn raft_term(term: Term) -> u64 {
    u64::from(term.get()) + 1
}

/// The term that has this number in `raft`. Numbers grow by one with each election.
fn term(number: u64) -> Term {
    Term::new(u32::try_from(number.saturating_sub(1)).expect("there are fewer than 4 billion elections"))
}

fn place(entry: &Entry) -> RecordPlace {
    RecordPlace { position: Position::new(entry.index), term: term(entry.term) }
}
