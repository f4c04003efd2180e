//! Verification of a database: its log from end to end, and its checkpoints against a replay.
//!
//! It only reads. Processes that have the database open continue. Records that they append
//! meanwhile are not verified.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::inspect::{self, Finding, InspectedRecord, LogPart, Severity, Totals, Watcher};
use quire_log::{Access, Checkpoint, Identity, Mark, Storage};
use quire_model::Position;
use quire_shard::{Models, StateInputs, UnknownModel, graph_memory, seed_of};

use super::manifest::refuse_backup;
use super::{GraphMemory, machine};
use crate::meta::Meta;
use crate::{ErrorKind, Result};

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Totals of the log.
    pub totals: Totals,
    /// Number of checkpoints that hold exactly the state of a replay.
    pub checkpoints: u64,
    /// Problems, in the order in which they were found.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// The worst severity of the findings; `None` without findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Verifies the database in a directory. `graph_memory` bounds the memory of all graphs, those of
/// the replay and those of checkpoints together; with `None` they are in memory. `progress` gets
/// the bytes of the log that were read so far, and their total.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("data");
/// let database = quire::Database::open(&path)?;
/// database.queue("mail").enqueue(quire::jobs::JobSpec::new(b"to: you"))?;
/// let verified = quire::tools::verify(&path, None, &mut |_, _| ())?;
/// assert_eq!((verified.totals.records, verified.worst()), (1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NotADatabase`], also for a backup; [`ErrorKind::NewerFormat`] of `quire.meta`;
/// [`ErrorKind::Io`] when a directory can't be read. A problem of a file is a finding, not an
/// error.
pub fn verify(
    database: &Path,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    verify_on(&machine(), database, graph_memory, progress)
}

pub(super) fn verify_on(
    storage: &Arc<dyn Storage>,
    database: &Path,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    refuse_backup(&**storage, database)?;
    let mut findings = Vec::new();
    let identity = identity(storage, database, &mut findings)?;
    verify_log(storage, database, identity, findings, graph_memory, progress)
}

/// Verifies the log and the checkpoints in a directory that may not be a database yet. `findings`
/// are those of other files.
pub(super) fn verify_log(
    storage: &Arc<dyn Storage>,
    database: &Path,
    identity: Identity,
    findings: Vec<Finding>,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    let mut verification = Verification { findings, ..Verification::default() };
    let shard = database.join(Meta::shard_name(identity.shard));
    let looked_at: Vec<_> =
        inspect::Survey::of(storage, &shard, identity)?.checkpoints().map(|(_, position)| position).collect();
    // Before the log is surveyed, so that the log holds the record of each checkpoint.
    let saved = checkpoints(storage, &shard, identity, &mut verification.findings)?;
    let graph_memory = graph_memory.map(|bound| Arc::new(graph_memory::bounded_elsewhere(bound)));
    let ground = StateInputs { seed: seed_of(identity.database), graph_memory };
    let mut replay = Replay {
        models: Some(Models::new(&ground)),
        ground,
        saved,
        usable: Position::ZERO,
        compacted: Position::ZERO,
        last: Position::ZERO,
        verification,
        progress,
    };
    replay.compare(Position::ZERO, identity.beginning().chain);
    let totals = inspect::verify(storage, &shard, identity, &mut replay)?;
    replay.end();
    if replay.usable < replay.compacted && !is_checkpointed_since(storage, &shard, identity, &looked_at)? {
        let message = format!(
            "records up to {} were compacted, and no checkpoint from there on is usable, so the database can't be opened; \
             restore a backup, or copy the whole records with `quire salvage`",
            replay.compacted
        );
        replay.find(Severity::Lost, LogPart::Checkpoint, shard.clone(), Some(replay.compacted), message);
    }
    Ok(Verification { totals, ..replay.verification })
}

/// The identity in `quire.meta`, or else in the segments.
pub(super) fn identity(storage: &Arc<dyn Storage>, database: &Path, findings: &mut Vec<Finding>) -> Result<Identity> {
    let error = match Meta::read(&**storage, database) {
        Ok(meta) => return Ok(Identity { database: meta.database, shard: 0 }),
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotADatabase) => error,
        Err(error) => return Err(error),
    };
    let shard = database.join(Meta::shard_name(0));
    let Some(identity) =
        is_there(&**storage, &shard).then(|| inspect::identity_of(storage, &shard)).transpose()?.flatten()
    else {
        return Err(error);
    };
    findings.push(Finding {
        severity: Severity::Derivable,
        part: LogPart::Meta,
        path: Meta::path(database),
        offset: 0,
        position: None,
        message: format!("{error}; the segments hold the same facts"),
    });
    Ok(identity)
}

/// Whether a file or directory of this name exists. One that can't be opened does.
fn is_there(storage: &dyn Storage, path: &Path) -> bool {
    let opened = storage.open(path, Access::Read);
    opened.err().is_none_or(|error| !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// A checkpoint that verified on its own.
struct VerifiedCheckpoint {
    path: PathBuf,
    checkpoint: Checkpoint,
    compared: bool,
}

fn checkpoints(
    storage: &Arc<dyn Storage>,
    shard: &Path,
    identity: Identity,
    findings: &mut Vec<Finding>,
) -> Result<Vec<VerifiedCheckpoint>> {
    let mut saved = Vec::new();
    for (file, position) in inspect::Survey::of(storage, shard, identity)?.checkpoints() {
        let mut complain = |message: String| {
            let (severity, part, path) = (Severity::Derivable, LogPart::Checkpoint, file.path.clone());
            findings.push(Finding { severity, part, path, offset: 0, position: Some(position), message });
        };
        match inspect::read_checkpoint(storage, &file.path) {
            Ok(Some(checkpoint)) if checkpoint.mark.position == position => {
                saved.push(VerifiedCheckpoint { path: file.path.clone(), checkpoint, compared: false });
            }
            Ok(Some(checkpoint)) => {
                complain(format!(
                    "it was taken after record {}, not after the record in its name",
                    checkpoint.mark.position
                ));
            }
            Ok(None) => complain("it does not verify; opening replays from an older checkpoint".to_owned()),
            // Newer checkpoints have replaced it meanwhile.
            Err(_) if !is_there(&**storage, &file.path) => {}
            Err(error) => complain(error.to_string()),
        }
    }
    Ok(saved)
}

/// Whether another process saved a checkpoint after the verification began: records that were
/// compacted meanwhile are covered by it.
fn is_checkpointed_since(
    storage: &Arc<dyn Storage>,
    shard: &Path,
    identity: Identity,
    before: &[Position],
) -> Result<bool> {
    loop {
        let survey = inspect::Survey::of(storage, shard, identity)?;
        let since: Vec<_> = survey.checkpoints().filter(|(_, position)| !before.contains(position)).collect();
        if since.iter().any(|(file, _)| matches!(inspect::read_checkpoint(storage, &file.path), Ok(Some(_)))) {
            return Ok(true);
        }
        // Newer checkpoints may have replaced one between the listing and its reading.
        if since.iter().all(|(file, _)| is_there(&**storage, &file.path)) {
            return Ok(false);
        }
    }
}

struct Replay<'p> {
    /// The state after the last record; `None` where records before it are missing.
    models: Option<Models>,
    ground: StateInputs,
    saved: Vec<VerifiedCheckpoint>,
    /// The newest record after which a checkpoint was taken that the database can be opened from.
    usable: Position,
    /// The last record that a compaction read: a checkpoint of that record or a later one is
    /// needed.
    compacted: Position,
    /// The last record that was read, here or by a compaction.
    last: Position,
    verification: Verification,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl Replay<'_> {
    /// Compares the checkpoint that was taken after a record, if there is one, with the state
    /// there. A missing state is loaded from the checkpoint.
    fn compare(&mut self, position: Position, chain: u32) {
        let Some(saved) = self.saved.iter_mut().find(|saved| saved.checkpoint.mark.position == position) else {
            return;
        };
        saved.compared = true;
        let path = saved.path.clone();
        let message = if saved.checkpoint.mark.chain != chain {
            Some(format!(
                "it belongs to a record with checksum {:08x}, and the log has {chain:08x}",
                saved.checkpoint.mark.chain
            ))
        } else {
            match (Models::load(&saved.checkpoint.payload, &self.ground), &mut self.models) {
                (Err(error), _) => Some(format!("the models' state can't be read: {error}; opening replays instead")),
                (Ok(state), models @ None) => {
                    *models = Some(state);
                    self.usable = position;
                    None
                }
                (Ok(_), Some(models)) if models.are_saved_as(&saved.checkpoint.payload) => {
                    self.verification.checkpoints += 1;
                    self.usable = position;
                    None
                }
                // An older program saved it in an older format, which may lack what a replay by
                // this program knows. It can be opened, and is not compared.
                (Ok(state), Some(_)) if !state.are_saved_as(&saved.checkpoint.payload) => {
                    self.usable = position;
                    None
                }
                (Ok(_), Some(_)) => Some("its state differs from that of a replay of the log".to_owned()),
            }
        };
        if let Some(message) = message {
            self.find(Severity::Derivable, LogPart::Checkpoint, path, Some(position), message);
        }
    }

    /// Reports the checkpoints whose record was not found.
    fn end(&mut self) {
        let alone = self.saved.iter().filter(|saved| !saved.compared);
        let alone: Vec<_> = alone.map(|saved| (saved.path.clone(), saved.checkpoint.mark.position)).collect();
        for (path, position) in alone {
            let (severity, message) = if position > self.last {
                let lost = format!(
                    "the log was synced up to record {position} when it was taken, and ends with record {}: the records after that are \
                     lost; restore a backup, or continue without them: opening the database for writing removes this checkpoint, and \
                     with it the last trace of the loss",
                    self.last
                );
                (Severity::Lost, lost)
            } else {
                (Severity::Derivable, "the log lacks the record after which it was taken".to_owned())
            };
            self.find(severity, LogPart::Checkpoint, path, Some(position), message);
        }
    }

    fn find(&mut self, severity: Severity, part: LogPart, path: PathBuf, position: Option<Position>, message: String) {
        self.verification.findings.push(Finding { severity, part, path, offset: 0, position, message });
    }
}

impl Watcher for Replay<'_> {
    fn record(&mut self, path: &Path, record: &InspectedRecord<'_>) {
        self.last = record.position();
        if record.is_remains() {
            // Compacted records are missing, so the replay continues from a checkpoint.
            self.models = None;
            return;
        }
        if let Some(models) = &mut self.models {
            // A model panics on an entry that no commit can have written. Here that is a finding.
            let applied =
                catch_unwind(AssertUnwindSafe(|| record.entries().try_for_each(|entry| models.apply(&entry))));
            let message = match applied {
                Ok(Ok(())) => None,
                Ok(Err(UnknownModel(model))) => Some((
                    Severity::Note,
                    format!("it holds an entry of model {}, which this program does not know", model.get()),
                )),
                Err(_) => Some((Severity::Lost, "it verifies, but a model can't apply it".to_owned())),
            };
            if let Some((severity, message)) = message {
                self.models = None;
                let (part, path, position) = (LogPart::Log, path.to_owned(), Some(record.position()));
                let finding = Finding { severity, part, path, offset: record.offset, position, message };
                self.verification.findings.push(finding);
            }
        }
        self.compare(record.position(), record.mark().chain);
    }

    fn gap(&mut self) {
        self.models = None;
    }

    fn compacted(&mut self, up_to: Mark) {
        // Compacted records are missing, even if no record is left.
        self.models = None;
        self.compacted = up_to.position;
        self.last = up_to.position;
        self.compare(up_to.position, up_to.chain);
    }

    fn finding(&mut self, finding: Finding) {
        self.verification.findings.push(finding);
    }

    fn progress(&mut self, bytes: u64, of: u64) {
        (self.progress)(bytes, of);
    }
}

#[cfg(test)]
mod tests {
    use quire_log::Term;
    use quire_model::ModelId;

    use super::*;

    /// The findings of a checkpoint with this payload, after a log without records.
    fn findings(payload: Vec<u8>) -> (Verification, Position) {
        let ground = StateInputs { seed: 7, graph_memory: None };
        let mark = Mark { position: Position::new(1), term: Term::new(1), chain: 2 };
        let checkpoint = Checkpoint { mark, payload: payload.into() };
        let mut replay = Replay {
            models: Some(Models::new(&ground)),
            ground,
            saved: vec![VerifiedCheckpoint { path: "1.chk".into(), checkpoint, compared: false }],
            usable: Position::ZERO,
            compacted: Position::ZERO,
            last: Position::new(1),
            verification: Verification::default(),
            progress: &mut |_, _| (),
        };
        replay.compare(mark.position, mark.chain);
        (replay.verification, replay.usable)
    }

    /// The payload with the first byte of the jobs' section, its version, changed.
    fn with_jobs_version(mut payload: Vec<u8>, version: u8) -> Vec<u8> {
        let mut at = 0;
        while payload[at] != ModelId::JOBS.get() {
            let length = u64::from_le_bytes(payload[at + 1..at + 9].try_into().expect("eight bytes"));
            at += 9 + usize::try_from(length).expect("short");
        }
        payload[at + 9] = version;
        payload
    }

    #[test]
    fn a_checkpoint_in_an_older_format_is_usable_and_no_finding() {
        let state = Models::new(&StateInputs { seed: 7, graph_memory: None }).save();
        let (same, usable) = findings(state.clone());
        assert_eq!((same.checkpoints, same.findings, usable), (1, Vec::new(), Position::new(1)));
        let (older, usable) = findings(with_jobs_version(state.clone(), 4));
        assert_eq!((older.checkpoints, older.findings, usable), (0, Vec::new(), Position::new(1)));
        let (unknown, usable) = findings(with_jobs_version(state, 3));
        assert_eq!((unknown.findings.len(), usable), (1, Position::ZERO), "a version that can't be read");
    }
}
