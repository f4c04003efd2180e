//! A node of the cluster: its disk, its clock, and the process that runs on them.

use std::future::{Future, IntoFuture};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use quire::{Background, Clock, Database, Duty, ManualClock, Outcome, Position, Result, Ticket};
use quire_cluster::{Agreement, AgreementSettings, MemberSet, NodeId, NodeIdentity, ShardNode};
use quire_log::office_file;

use crate::disk::{Effect, Process, SimDisk};

const DIRECTORY: &str = "/data";
const DATABASE_ID: u128 = 0x5117_0000_0000_0000_0000_0000_0000_0002;

/// A commit whose client has no answer yet.
pub(super) struct WaitingClient {
    answer: <Ticket<Outcome> as IntoFuture>::IntoFuture,
    /// The record that the answer rests on, and its chain.
    pub(super) rests_on: (Position, u32),
    /// Whether the commit itself is that record.
    pub(super) is_own: bool,
}

impl WaitingClient {
    pub(super) fn new(ticket: Ticket<Outcome>, rests_on: (Position, u32), is_own: bool) -> Self {
        WaitingClient { answer: ticket.into_future(), rests_on, is_own }
    }

    /// The answer, if there is one now.
    pub(super) fn poll(&mut self) -> Option<Result<Outcome>> {
        match Pin::new(&mut self.answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }
}

/// A process that runs a node.
pub(super) struct RunningNode {
    pub(super) agreement: Agreement<ShardNode>,
    pub(super) database: Database,
    pub(super) clients: Vec<WaitingClient>,
    /// The rounds of reads that have begun, and what was published anywhere before.
    pub(super) reads: Vec<(u64, Position)>,
    process: Process,
}

/// See the module.
pub(super) struct ClusterNode {
    pub(super) id: NodeId,
    pub(super) disk: SimDisk,
    clock: Arc<ManualClock>,
    segment_bytes: u64,
    /// The members before the first change in the log.
    initial: MemberSet,
    /// The members in force, as of the last step.
    pub(super) members: MemberSet,
    pub(super) running: Option<RunningNode>,
    /// The chains of the records of its log, by position from 1 on, as of the last step.
    pub(super) chains: Vec<u32>,
    /// The last record on its disk, as of the last step.
    pub(super) durable: Position,
    /// Whether it leaves the office to others, as if its log had damage.
    pub(super) is_held_back: bool,
    /// The ticks since it last knew a leader.
    pub(super) leaderless_ticks: usize,
}

impl ClusterNode {
    pub(super) fn new(
        id: NodeId,
        disk: SimDisk,
        clock: Arc<ManualClock>,
        initial: MemberSet,
        random: &mut Rng,
    ) -> Self {
        let segment_bytes = if random.bool() { 1 << 12 } else { random.u64(2..5) << 12 };
        let members = initial.clone();
        ClusterNode {
            id,
            disk,
            clock,
            segment_bytes,
            initial,
            members,
            running: None,
            chains: Vec::new(),
            durable: Position::ZERO,
            is_held_back: false,
            leaderless_ticks: 0,
        }
    }

    /// Starts the process. Returns whether it runs: faults of the disk may prevent it.
    pub(super) fn start(&mut self, seed: u64) -> Result<bool> {
        assert!(self.running.is_none(), "one process runs a node");
        self.leaderless_ticks = 0;
        let process = self.disk.process();
        let opened = Database::builder(DIRECTORY)
            .segment_bytes(self.segment_bytes)
            // Another node may have larger segments.
            .commit_bytes_max(3_500)
            .checkpoint_bytes(4_096)
            .history(Duration::ZERO)
            .compact_interval(Duration::from_millis(200))
            .compact_percent_min(1)
            .checkpoint_pause_bytes(if seed.is_multiple_of(2) { 0 } else { u64::MAX })
            .id(DATABASE_ID)
            .member(true)
            .clock(Arc::clone(&self.clock) as _)
            .storage(Arc::new(process.clone()))
            .background(Background::Caller)
            .open();
        let agreement = opened.and_then(|database| {
            let identity = NodeIdentity {
                node: self.id,
                incarnation: self.id.get().into(),
                members: self.initial.clone(),
                since: Position::ZERO,
            };
            let node = ShardNode::new(database.replicated(), identity)?;
            Ok((Agreement::new(self.id, node, AgreementSettings::default(), seed), database))
        });
        match agreement {
            Ok((agreement, database)) if process.lives() => {
                self.running =
                    Some(RunningNode { agreement, database, clients: Vec::new(), reads: Vec::new(), process });
                Ok(true)
            }
            Ok(_) => self.bury(&process).map(|()| false),
            Err(_) if !process.lives() || self.is_faulty() => self.bury(&process).map(|()| false),
            Err(error) => Err(error),
        }
    }

    /// Whether a fault of the disk explains an error.
    pub(super) fn is_faulty(&self) -> bool {
        self.disk.is_broken() || self.disk.is_full()
    }

    /// Whether the process has died in the middle of its last step.
    pub(super) fn has_died(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.process.lives())
    }

    /// Removes the process: it has died, or it stops in good order.
    pub(super) fn stop(&mut self) -> Result<()> {
        let Some(RunningNode { agreement, database, clients, process, .. }) = self.running.take() else {
            return Ok(());
        };
        drop(clients);
        drop(agreement);
        drop(database);
        self.bury(&process)
    }

    fn bury(&mut self, process: &Process) -> Result<()> {
        // The next process finds no fault that was meant for this one.
        let _: Option<Effect> = self.disk.take_killed();
        self.disk.bury(process).expect("the simulated disk is there");
        self.disk.disarm();
        Ok(())
    }

    /// Notes that a tick passes. A node that is held back counts the same ticks.
    pub(super) fn note_tick(&mut self) {
        let state = self.running.as_ref().map(|running| running.agreement.state());
        let is_leaderless = state.is_some_and(|state| state.leader.is_none());
        self.leaderless_ticks = if is_leaderless { self.leaderless_ticks + 1 } else { 0 };
    }

    pub(super) fn kill(&mut self) {
        if let Some(running) = &self.running {
            self.disk.kill(&running.process).expect("the simulated disk is there");
        }
    }

    pub(super) fn cut_power(&mut self) {
        self.disk.cut_power().expect("the simulated disk is there");
    }

    pub(super) fn pass(&self, micros: u64) {
        self.clock.set(self.clock.now().plus_micros(micros));
    }

    /// Carries out a duty, unless it would wait for other nodes.
    pub(super) fn carry_out(&self, duty: Duty) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        let log = running.agreement.node().shard().log().clone();
        let waits = duty == Duty::Checkpoint && log.published() < log.appended();
        if waits { Ok(()) } else { running.database.carry_out(duty).map(drop) }
    }

    /// Whether it runs with a log that it has compacted.
    pub(super) fn has_compacted(&self) -> bool {
        let end = self.running.as_ref().map(|running| running.agreement.node().shard().log().compacted_end());
        end.is_some_and(|end| end > Position::ZERO)
    }

    /// Notes what its log holds now.
    pub(super) fn observe(&mut self) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        let log = running.agreement.node().shard().log();
        let last = log.appended().get();
        let mut chains = Vec::new();
        let mut kept = last;
        while kept > 0 {
            let Some(mark) = log.mark_at(Position::new(kept))? else {
                assert!(kept < log.compacted_end().get(), "record {kept} is appended");
                break;
            };
            let chain = mark.chain;
            let index = usize::try_from(kept - 1).expect("few");
            if self.chains.get(index) == Some(&chain) {
                break;
            }
            chains.push(chain);
            kept -= 1;
        }
        self.chains.truncate(usize::try_from(kept).expect("few"));
        self.chains.extend(chains.into_iter().rev());
        self.durable = log.durable();
        self.members = running.agreement.members();
        Ok(())
    }

    /// Puts the files of another node in the place of the own ones. The vote stays.
    pub(super) fn take_files(&mut self, from: &ClusterNode) {
        assert!(self.running.is_none(), "a node that runs keeps its files");
        let shard = Path::new(DIRECTORY).join("shard-0000");
        let is_data = |path: &Path| path.extension().is_some_and(|kind| kind == "log" || kind == "checkpoint");
        let vote = office_file(&shard);
        let files = |disk: &SimDisk| disk.files(&shard).expect("the simulated disk is there");
        for path in files(&self.disk).into_keys().filter(|path| *path != vote) {
            self.disk.tamper(&path, None).expect("the simulated disk is there");
        }
        for (path, bytes) in files(&from.disk).into_iter().filter(|(path, _)| is_data(path)) {
            self.disk.tamper(&path, Some(&bytes)).expect("the simulated disk is there");
        }
        self.chains.clone_from(&from.chains);
    }

    /// The chain of a record of its log, as of the last step.
    pub(super) fn chain_at(&self, position: Position) -> Option<u32> {
        let index = usize::try_from(position.get()).expect("few").checked_sub(1)?;
        self.chains.get(index).copied()
    }
}
