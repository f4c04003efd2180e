//! Other processes that have the log open. This process applies and reports the records that they
//! publish. Duties that concern all processes are carried out by one of them.

use quire_model::Position;

use super::Log;
use super::shared::LogCore;
use crate::durable::gate::{GateKind, Woken};
use crate::error::Result;
use crate::processes::listener::{self, ListenerInputs, ProcessEvent};

/// Locked by the process that carries out the duties for all processes that have the log open.
const DUTIES: &str = "duties";

impl Log {
    /// Whether other processes have published records that this process has not applied yet.
    /// [`Writer::follow`](crate::Writer::follow) applies them.
    pub fn is_behind(&self) -> bool {
        self.shared().is_behind()
    }

    /// Blocks until another process has done something that this process must react to.
    /// `has_others` is the last result of
    /// [`Log::has_other_processes`](crate::Log::has_other_processes) that the caller knows. This is
    /// for a thread with no other task.
    pub fn listen(&self, has_others: bool) -> ProcessEvent {
        let shared = self.shared();
        shared.listener.next_event(&ListenerInputs {
            control: &shared.control,
            gate: &shared.gate,
            is_behind: &|| shared.is_behind(),
            has_news_of_round: &|| shared.has_news_of_round(),
            has_others,
        })
    }

    /// Ends [`Log::listen`](crate::Log::listen).
    pub fn stop_listening(&self) {
        let shared = self.shared();
        shared.listener.stop(&shared.control);
    }

    /// Whether other processes may have the log open.
    pub fn has_other_processes(&self) -> bool {
        self.shared().control.has_other_processes()
    }

    /// The round of another process's compaction that this process must attend; see
    /// [`Log::attend`](crate::Log::attend).
    pub fn round_to_attend(&self) -> Option<u64> {
        self.shared().round_to_attend()
    }

    /// Carries out a round that the compaction of another process asks for. This process holds
    /// segments whose files are about to be removed, or opens the segments that replaced them.
    ///
    /// When [`Log::round_to_attend`](crate::Log::round_to_attend) returned the round, some records
    /// were published. The caller must first apply these records with
    /// [`Writer::follow`](crate::Writer::follow). The new segments omit only entries that no longer
    /// counted by then. Existing readers still see the same records.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), [`Error::NoSpace`](crate::Error::NoSpace) and
    /// [`Error::Damaged`](crate::Error::Damaged). Nothing is lost: the compaction leaves those
    /// segments as they are, or this opening continues with the segments that it holds.
    pub fn attend(&self, round: u64) -> Result<()> {
        self.shared().attend(round)
    }

    /// Takes on the duties that one process carries out for all that have the log open, such as
    /// checkpoints. Returns `false` when another process has the duties. This process keeps the
    /// duties until the log is closed, or the process dies.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io): it is unknown which process has the duties.
    pub fn takes_duties(&self) -> Result<bool> {
        self.shared().takes_duties()
    }
}

impl LogCore {
    /// Notes that this process applied a record of another process.
    pub(crate) fn note_followed(&self, position: Position) {
        self.syncer.appended(position);
    }

    /// Publishes the followed records up to `position`, as far as the processes that appended them
    /// have published them.
    pub(crate) fn publish_followed(&self, position: Position) -> Woken {
        assert!(position <= self.syncer.last_appended(), "a record is applied before it is published here");
        match self.gate.kind() {
            GateKind::AtOnce => self.gate.followed(position),
            GateKind::AfterSync | GateKind::ByOwner => self.syncer.adopt(&self.control, &self.gate),
        }
    }

    /// Whether other processes have published records that are not applied here.
    pub(super) fn is_behind(&self) -> bool {
        self.syncer.is_behind(&self.control, &self.gate)
    }

    /// Notes that a caller in this process waits for records that other processes may publish. The
    /// caller is already counted among the waiters.
    pub(super) fn listen(&self) {
        listener::begin_to_wait(&self.control, || self.is_behind());
    }

    /// Whether this process has applied the record at `position`.
    pub(crate) fn has_taken_in(&self, position: Position) -> bool {
        self.syncer.last_appended() >= position
    }

    pub(super) fn takes_duties(&self) -> Result<bool> {
        if self.duties.get().is_none()
            && let Some(lock) = self.directory.lock_file(DUTIES)?
        {
            let _ = self.duties.set(lock);
        }
        Ok(self.duties.get().is_some())
    }
}
