//! Others that have the log open: what they publish is taken in and told here, and what concerns all is done by one of them.

use quire_model::Position;

use super::Log;
use super::shared::Shared;
use crate::durable::gate::{GateKind, Woken};
use crate::error::Result;
use crate::processes::listener::{self, Heard, ListenerInputs};

/// Locked by whoever carries out the duties for all who have the log open.
const DUTIES: &str = "duties";

impl Log {
    /// Whether others have published what is not taken in here: [`Writer::follow`](crate::Writer::follow) does that.
    pub fn is_behind(&self) -> bool {
        self.shared().is_behind()
    }

    /// Blocks until there is something to do about what others did. `company` is what the caller knows of
    /// [`Log::has_company`](crate::Log::has_company). For a thread that does nothing else.
    pub fn listen(&self, company: bool) -> Heard {
        let shared = self.shared();
        shared.listener.hear(&ListenerInputs {
            control: &shared.control,
            gate: &shared.gate,
            is_behind: &|| shared.is_behind(),
            has_news_of_round: &|| shared.has_news_of_round(),
            company,
        })
    }

    /// Ends [`Log::listen`](crate::Log::listen).
    pub fn stop_listening(&self) {
        let shared = self.shared();
        shared.listener.stop(&shared.control);
    }

    /// Whether others may have the log open.
    pub fn has_company(&self) -> bool {
        self.shared().control.has_company()
    }

    /// The round of a compaction by another that is to be attended to; see [`Log::attend`](crate::Log::attend).
    pub fn round_to_attend(&self) -> Option<u64> {
        self.shared().round_to_attend()
    }

    /// Does what the compaction of another asks for in a round: holds segments whose files are about to go, or takes those that
    /// came in their place. What was published when [`Log::round_to_attend`](crate::Log::round_to_attend) gave the round must have been taken in by
    /// [`Writer::follow`](crate::Writer::follow): the new segments hold nothing that did not count by then. Readers that were there before see what they saw.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Damaged`](crate::Error::Damaged): nothing is lost, and the compaction leaves those segments as they
    /// are, or this opening goes on with those that it holds.
    pub fn attend(&self, round: u64) -> Result<()> {
        self.shared().attend(round)
    }

    /// Takes on the duties that one of those who have the log open carries out for all, such as checkpoints, unless another has
    /// them. They are kept until the log is closed, or the process dies.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io): it is not known who has them.
    pub fn takes_duties(&self) -> Result<bool> {
        self.shared().takes_duties()
    }
}

impl Shared {
    /// A record that another appended was taken in.
    pub(crate) fn note_followed(&self, position: Position) {
        self.syncer.appended(position);
    }

    /// Publishes what was followed up to here, as far as it is published by those who appended it.
    pub(crate) fn publish_followed(&self, position: Position) -> Woken {
        match self.gate.kind() {
            GateKind::AtOnce => self.gate.followed(position),
            GateKind::AfterSync | GateKind::ByOwner => self.syncer.adopt(&self.control, &self.gate),
        }
    }

    /// Whether others have published what is not taken in here.
    pub(super) fn is_behind(&self) -> bool {
        self.syncer.is_behind(&self.control, &self.gate)
    }

    /// Somebody here waits for what others may publish. It counts among those who wait already.
    pub(super) fn listen(&self) {
        listener::begin_to_wait(&self.control, || self.is_behind());
    }

    /// Whether a record is taken in here.
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
