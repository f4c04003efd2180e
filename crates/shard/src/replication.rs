//! A shard as a node of a cluster. Its log has a [`Publisher::Owner`](quire_log::Publisher::Owner):
//! the node, which publishes what a majority has.
//!
//! ```text
//! leader    begin_term ─▶ commits, in the term ──────────────────┐
//! follower  append_copies ─▶ models                              ├─▶ Log::publish, by the node
//! lost      stand_down ─▶ waiters end with Unsettled             │
//!           truncate_after ─▶ models from the checkpoint ────────┘
//! ```
//! The state follows each append, on a follower as on a leader. So a follower that is elected leads
//! at once, and a node that truncates loads its state again.

use std::sync::Arc;

use quire_log::{AppendedRecord, Clock, Mark, RecordCopy, Term};
use quire_model::codec::Encoder;
use quire_model::{Effects, EntryKind, NewEntry, Position, Timestamp};

use crate::cluster::ClusterControl;
use crate::decide::{WriterState, apply_last};
use crate::error::{Error, ErrorKind, Result};
use crate::graph;
use crate::leader::{ClusterLeader, NodeOffice};
use crate::logged_state::LoggedState;
use crate::office::ShardOffice;
use crate::shard::Shard;
use crate::system::{MemberRecord, TermBegun, member_record_kind, term_begun_kind};

impl Shard {
    /// Begins the office of this node as the leader: appends the record that begins the term, and
    /// decides commits in that term from then on. Returns the record.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io)
    /// and [`ErrorKind::Failed`](crate::ErrorKind::Failed): the node does not lead.
    ///
    /// # Panics
    /// When the shard is no node of a cluster, or the term is earlier than that of the last record.
    pub fn begin_term(&self, term: Term, node: u64) -> Result<Mark> {
        self.logged().begin_term(term, node)
    }

    /// Appends the record that sets a member of the cluster. Returns the record.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) when this node does not lead.
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io)
    /// and [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn append_member(&self, record: &MemberRecord) -> Result<Mark> {
        self.logged().append_member(record)
    }

    /// Decides no commits, while this node hands its office over, or decides commits again. The
    /// tickets of earlier commits stay open. Does nothing on a node that does not lead.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) after a failure of the log.
    pub fn hand_over(&self, hands_over: bool) -> Result<()> {
        let mut state = self.logged().write()?;
        state.office = match (state.office, hands_over) {
            (ShardOffice::Leading(term), true) => ShardOffice::HandingOver(term),
            (ShardOffice::HandingOver(term), false) => ShardOffice::Leading(term),
            (office, _) => office,
        };
        Ok(())
    }

    /// Ends the office of this node: it decides no commits. Each open ticket ends with
    /// [`ErrorKind::Unsettled`](crate::ErrorKind::Unsettled), because another node decides whether
    /// its commit survives. `leader` is the node that leads, as clients reach it.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) after a failure of the log.
    pub fn stand_down(&self, leader: Option<Arc<ClusterLeader>>) -> Result<()> {
        self.logged().stand_down(leader)
    }

    /// Appends and applies records of the leader, which follow the last one. Some of them may be
    /// appended when this fails.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when a record does not follow,
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge),
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace),
    /// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat),
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) and
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    ///
    /// # Panics
    /// When this node leads.
    pub fn append_copies<'r>(&self, records: impl IntoIterator<Item = RecordCopy<'r>>) -> Result<()> {
        self.logged().append_copies(records)
    }

    /// Checks that this shard serves clients: it has no other nodes, or it is the leader and has
    /// published a record of its term.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader), with the leader if it is known.
    #[inline]
    pub fn check_serves(&self) -> Result<()> {
        self.logged().office.check_serves(|| self.log().published())
    }

    /// Whether the shard is a node of a cluster.
    pub fn is_member(&self) -> bool {
        self.logged().office.is_member()
    }

    /// Notes the node of the cluster that drives this shard, once.
    pub fn set_cluster_control(&self, control: Arc<dyn ClusterControl>) {
        self.logged().office.set_control(control);
    }

    /// The node of the cluster that drives this shard, if there is one.
    pub fn cluster_control(&self) -> Option<Arc<dyn ClusterControl>> {
        self.logged().office.control()
    }

    /// The error of a request that only the leader of a cluster carries out.
    pub fn not_leader(&self) -> Error {
        self.logged().office.not_leader()
    }

    /// Notes the first record that other nodes may still need from this one. Compaction leaves it
    /// and all later ones as they are.
    pub fn keep_from(&self, position: Position) {
        self.logged().office.set_needed_from(position);
    }

    /// Notes which node of the cluster this is, and which one leads.
    pub fn note_node(&self, node: NodeOffice) {
        self.logged().office.note_node(node);
    }

    /// Which node of a cluster this is, and which one leads. `None` for a shard without other
    /// nodes, and until its node has begun.
    pub fn node(&self) -> Option<NodeOffice> {
        self.logged().office.node()
    }

    /// The leader of the cluster as clients reach it, if another node is the leader.
    pub fn leader(&self) -> Option<Arc<ClusterLeader>> {
        self.logged().office.leader()
    }

    /// The state as a checkpoint would hold it, and the record that it follows from. Nodes of a
    /// cluster have the same bytes at the same record.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn saved_state(&self) -> Result<(Mark, Vec<u8>)> {
        let state = self.logged().read()?;
        Ok((state.writer.mark(), state.models.save()))
    }

    /// Ends the work of a node for good: its state is saved where that needs no other node, and
    /// every waiter ends.
    pub(crate) fn retire(&self) {
        let logged = self.logged();
        if !logged.office.is_member() {
            return;
        }
        // The log may have failed, and then has no waiters left.
        let _ = logged.stand_down(None);
        if self.log().published() == self.log().appended() {
            let _ = logged.checkpoint();
        }
        self.log().stop_publishing("the node has stopped");
    }
}

impl LoggedState {
    fn begin_term(&self, term: Term, node: u64) -> Result<Mark> {
        let now = self.log.clock().now();
        let (mark, woken) = {
            let mut state = self.write()?;
            let state = &mut *state;
            assert_eq!(state.office, ShardOffice::Following, "a node begins one term after the other");
            let appended = append_own(state, now, term, term_begun_kind(), &TermBegun { node }.encode())?;
            state.office = ShardOffice::Leading(term);
            self.office.leads_from(appended.basis.position());
            self.office.set_leader(None);
            // The duties of a leader, which this node left to others until now.
            self.schedule.set_job_due(state.models.jobs.next_due());
            self.schedule.retain_at(now);
            self.delivery_requests.request(appended.basis.position());
            (appended.basis.mark, appended.woken)
        };
        drop(woken);
        Ok(mark)
    }

    fn append_member(&self, record: &MemberRecord) -> Result<Mark> {
        let now = self.log.clock().now();
        let (mark, woken) = {
            let mut state = self.write()?;
            let ShardOffice::Leading(term) = state.office else {
                return Err(self.office.explain(Error::new(ErrorKind::NotLeader, "only the leader changes members")));
            };
            let mut body = Encoder::new();
            record.encode(&mut body);
            let appended = append_own(&mut state, now, term, member_record_kind(), body.as_slice())?;
            (appended.basis.mark, appended.woken)
        };
        drop(woken);
        Ok(mark)
    }

    fn stand_down(&self, leader: Option<Arc<ClusterLeader>>) -> Result<()> {
        self.office.set_leader(leader);
        let woken = {
            let mut state = self.write()?;
            if state.office == ShardOffice::Following {
                return Ok(());
            }
            assert_ne!(state.office, ShardOffice::Alone, "a shard without other nodes keeps its office");
            state.office = ShardOffice::Following;
            self.office.stands_down();
            self.schedule.set_job_due(None);
            state.writer.end_waiters()?
        };
        drop(woken);
        Ok(())
    }

    fn append_copies<'r>(&self, records: impl IntoIterator<Item = RecordCopy<'r>>) -> Result<()> {
        let (appended, woken) = {
            let mut state = self.write()?;
            assert_eq!(state.office, ShardOffice::Following, "a leader appends its own records");
            let appended = records.into_iter().try_for_each(|record| state.append_copy(&record));
            (appended, self.after_following(&mut state))
        };
        drop(woken);
        self.request_checkpoint_if_due();
        appended
    }
}

/// Appends a record of this node with one entry, in this term, and applies it.
fn append_own(
    state: &mut WriterState,
    now: Timestamp,
    term: Term,
    kind: EntryKind,
    body: &[u8],
) -> Result<AppendedRecord> {
    let mut turn = state.writer.turn()?;
    while turn.follow()?.is_some() {}
    let mut draft = turn.begin_at(now, term);
    draft.push(NewEntry { kind, tags: &[], sequenced: None, body: &[body] });
    let appended = draft.append_to_free()?;
    let lookups = &mut graph::SlotLookups::default();
    apply_last(&state.writer, &mut state.models, lookups, &mut state.forgotten, &mut state.is_torn)?;
    Ok(appended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Commands, Replies};
    use crate::error::ErrorKind;
    use crate::jobs::{self, JobSpec};
    use crate::permitted::PermittedCommands;
    use crate::settings::ShardSettings;
    use crate::streams;
    use crate::system::{ClusterMember, MemberAddresses, MemberRole};
    use crate::{Duty, graph_memory, testing};
    use quire_log::{Background, Clock, Components, Durability, Identity, Publisher, Settings, SystemClock};

    const TERM: Term = Term::new(3);

    /// Opens a shard as a node of a cluster.
    fn member(directory: &std::path::Path) -> Shard {
        let alone = testing::settings(50, Durability::Sync);
        let log = Settings { publisher: Publisher::Owner, exclusive: true, ..alone.log.clone() };
        let components =
            Components { clock: Arc::new(SystemClock), background: Background::Caller, ..Components::default() };
        let identity = Identity { database: 1, shard: 0 };
        let settings = ShardSettings { log, ..alone };
        Shard::open(directory, identity, settings, components, graph_memory::unbounded).expect("opened").0
    }

    fn enqueue(shard: &Shard, queue: &str) -> Result<crate::DecidedCommit> {
        let commands = [jobs::Command::Enqueue { queue, job: JobSpec::new(b"") }];
        let commands = PermittedCommands::by_owner(Commands { jobs: &commands, ..Commands::default() });
        shard.commit(shard.log().clock().now(), &commands, &mut Replies::default())
    }

    fn node(node: u64) -> Arc<ClusterLeader> {
        Arc::new(ClusterLeader { node, addresses: MemberAddresses::default() })
    }

    /// Copies the records that `to` lacks.
    fn copy(from: &Shard, to: &Shard) {
        let reader = from.log().reader_of_appended();
        let positions = to.log().appended().get() + 1..=from.log().appended().get();
        let bytes = positions.map(|position| reader.whole_record(Position::new(position)).expect("readable"));
        let bytes: Vec<&[u8]> = bytes.map(|record| record.expect("appended").1).collect();
        to.append_copies(bytes.iter().map(|bytes| RecordCopy::verify(bytes).expect("whole"))).expect("they follow");
    }

    #[test]
    fn a_follower_has_the_state_of_the_leader_and_leads_after_it() {
        let directories = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
        let [leader, follower] = [0, 1].map(|number: usize| member(directories[number].path()));
        assert_eq!(enqueue(&leader, "early").expect_err("no leader").kind(), ErrorKind::NotLeader);
        let begun = leader.begin_term(TERM, 1).expect("begun");
        assert_eq!((begun.position, begun.term), (Position::new(1), TERM));
        assert_eq!(leader.read(None, |_| ()).expect_err("not published").kind(), ErrorKind::NotLeader);
        let first = enqueue(&leader, "mails").expect("decided").rests_on;
        assert_eq!(first.mark.term, TERM);
        copy(&leader, &follower);
        assert_eq!(leader.saved_state().expect("whole"), follower.saved_state().expect("whole"));
        follower.stand_down(Some(node(1))).expect("stood down");
        assert!(enqueue(&follower, "mails").expect_err("no leader").to_string().contains("node 1"));
        assert!(follower.read(None, |_| ()).expect_err("no leader").to_string().contains("node 1"));
        leader.log().publish(first.mark).expect("published");
        leader.log().wait(first).expect("published");
        leader.read(None, |_| ()).expect("it serves");

        // The follower leads, and publishes what it got.
        let next = follower.begin_term(Term::new(5), 2).expect("begun");
        follower.log().publish(next).expect("published");
        follower.read(None, |view| view.jobs.queue_stats("mails").expect("copied")).expect("it serves");
        // The old leader has a commit that nobody else has.
        let lost = enqueue(&leader, "lost").expect("decided").rests_on;
        leader.stand_down(Some(node(2))).expect("stood down");
        assert!(matches!(leader.log().wait(lost), Err(quire_log::Error::Unsettled { .. })));
        leader.truncate_after(first.mark).expect("truncated");
        copy(&follower, &leader);
        assert_eq!(leader.saved_state().expect("whole"), follower.saved_state().expect("whole"));
    }

    /// Publishes everything that is appended.
    fn publish(shard: &Shard) {
        testing::seal(shard);
        let last = shard.log().mark_at(shard.log().appended()).expect("readable").expect("appended");
        shard.log().publish(last).expect("published");
        testing::seal(shard);
    }

    #[test]
    fn a_compaction_on_a_node_keeps_what_an_unpublished_commit_deletes() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = member(directory.path());
        shard.begin_term(TERM, 1).expect("begun");
        for _ in 0..2 {
            (0..60).for_each(|_| testing::produce(&shard, "notes", None, Some(&[b'n'; 10 << 10])));
            publish(&shard);
            shard.checkpoint().expect("saved");
        }
        let delete = [streams::Command::DeleteTopic { topic: streams::TopicRef::Name("notes") }];
        testing::commit(&shard, &Commands { streams: &delete, ..Commands::default() });
        assert_eq!(shard.compact_whole().expect("compacted").segments, 0, "other nodes may need the records");
        shard.keep_from(shard.log().published());
        assert_eq!(shard.compact_whole().expect("compacted").segments, 0, "the deletion may be truncated");
        publish(&shard);
        assert!(shard.compact_whole().expect("compacted").entries_dropped > 0);
        assert!(shard.log().compacted_end() <= shard.log().newest_sealed_from(4), "the newest segments stay");
    }

    #[test]
    fn a_node_that_follows_carries_out_no_duty_of_a_leader() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = member(directory.path());
        let begun = shard.begin_term(TERM, 1).expect("begun");
        shard.log().publish(begun).expect("published");
        let delayed = JobSpec { run_at: Some(shard.log().clock().now().plus_micros(1)), ..JobSpec::new(b"") };
        let commands = [jobs::Command::Enqueue { queue: "mails", job: delayed }];
        testing::commit(&shard, &Commands { jobs: &commands, ..Commands::default() });
        shard.stand_down(None).expect("stood down");
        let last = shard.log().appended();
        for duty in [Duty::Tick, Duty::Retain, Duty::Deliver, Duty::Compact] {
            shard.carry_out(duty).expect("nothing to do");
        }
        assert_eq!(shard.log().appended(), last);
        let record = MemberRecord {
            node: 2,
            member: ClusterMember { role: MemberRole::Learner, incarnation: 1, addresses: MemberAddresses::default() },
        };
        assert_eq!(shard.append_member(&record).expect_err("no leader").kind(), ErrorKind::NotLeader);
        assert_eq!(shard.log().appended(), last);
        assert!(shard.failing().is_empty());
    }

    #[test]
    fn a_leader_that_hands_over_decides_nothing_and_may_decide_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = member(directory.path());
        let begun = shard.begin_term(TERM, 1).expect("begun");
        let open = enqueue(&shard, "mails").expect("decided").rests_on;
        shard.hand_over(true).expect("paused");
        let refused = enqueue(&shard, "mails").expect_err("paused");
        assert_eq!(refused.kind(), ErrorKind::NotLeader);
        assert!(refused.to_string().contains("hands its office over"), "{refused}");
        shard.hand_over(false).expect("resumed");
        enqueue(&shard, "mails").expect("decided");
        shard.log().publish(open.mark).expect("published");
        assert!(open.position() > begun.position);
        shard.log().wait(open).expect("its ticket stayed open");
        shard.hand_over(true).expect("paused");
        shard.stand_down(None).expect("stood down");
        shard.hand_over(false).expect("nothing to resume");
        assert_eq!(enqueue(&shard, "mails").expect_err("no leader").kind(), ErrorKind::NotLeader);
    }

    #[test]
    fn a_node_that_stops_waits_for_no_other_node() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let shard = member(directory.path());
        shard.begin_term(TERM, 1).expect("begun");
        let waits = enqueue(&shard, "mails").expect("decided").rests_on;
        shard.stop_duties();
        assert!(matches!(shard.log().wait(waits), Err(quire_log::Error::Unsettled { .. })));
        shard.close();
        drop(shard);
        let shard = member(directory.path());
        assert_eq!((shard.log().appended(), shard.log().published()), (Position::new(2), Position::ZERO));
    }
}
