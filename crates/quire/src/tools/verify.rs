//! Verifying a database: its log from end to end, and its checkpoints against a replay.
//!
//! It reads only. Whoever has the database open goes on; what is appended meanwhile is not looked at.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::inspect::{self, Finding, Part, Record, Severity, Totals, Watcher};
use quire_log::{Access, Checkpoint, Identity, Mark, Storage};
use quire_model::Position;
use quire_shard::{Ground, Models, UnknownModel, graph_memory, seed_of};

use super::manifest::refuse_backup;
use super::{GraphMemory, machine};
use crate::meta::Meta;
use crate::{ErrorKind, Result};

/// What verifying a database came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// What the log adds up to.
    pub totals: Totals,
    /// How many checkpoints were found to hold exactly what a replay comes to.
    pub checkpoints: u64,
    /// Everything that is not as it should be, in the order in which it was met.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// The worst that was found; `None` when nothing was.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Verifies the database in a directory. `graph_memory` bounds the memory of the graphs that the replay comes to and of those in checkpoints, together; without
/// one everything is in memory. `progress` is told how many bytes of the log were gone through, and of how many.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("data");
/// let database = quire::Database::open(&path)?;
/// database.queue("mail").enqueue(quire::jobs::NewJob::new(b"to: you"))?;
/// let verified = quire::tools::verify(&path, None, &mut |_, _| ())?;
/// assert_eq!((verified.totals.records, verified.worst()), (1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NotADatabase`], also of a backup; [`ErrorKind::NewerFormat`] of `quire.meta`, [`ErrorKind::Io`] when a directory can't be read. What is
/// wrong with a file is a finding.
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

/// The same of what may be no database yet, from the log on; `findings` is what was found of the rest.
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
    // Before the log is surveyed, so that it holds what they were taken after.
    let saved = checkpoints(storage, &shard, identity, &mut verification.findings)?;
    let graph_memory = graph_memory.map(|bound| Arc::new(graph_memory::bounded_elsewhere(bound)));
    let ground = Ground { seed: seed_of(identity.database), graph_memory };
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
            "records up to {} were compacted, and no checkpoint from there on can be used, so the database can't be opened; \
             restore it from a backup",
            replay.compacted
        );
        replay.find(Severity::Lost, Part::Checkpoint, shard.clone(), Some(replay.compacted), message);
    }
    Ok(Verification { totals, ..replay.verification })
}

/// The identity that `quire.meta` gives, or else that the segments have.
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
        part: Part::Meta,
        path: Meta::path(database),
        offset: 0,
        position: None,
        message: format!("{error}; the segments say what it should hold"),
    });
    Ok(identity)
}

/// Whether there is a file or a folder of this name; one that can't be opened is there.
fn is_there(storage: &dyn Storage, path: &Path) -> bool {
    let opened = storage.open(path, Access::Read);
    opened.err().is_none_or(|error| !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// A checkpoint that verified on its own.
struct Saved {
    path: PathBuf,
    checkpoint: Checkpoint,
    compared: bool,
}

fn checkpoints(
    storage: &Arc<dyn Storage>,
    shard: &Path,
    identity: Identity,
    findings: &mut Vec<Finding>,
) -> Result<Vec<Saved>> {
    let mut saved = Vec::new();
    for (file, position) in inspect::Survey::of(storage, shard, identity)?.checkpoints() {
        let mut complain = |message: String| {
            let (severity, part, path) = (Severity::Derivable, Part::Checkpoint, file.path.clone());
            findings.push(Finding { severity, part, path, offset: 0, position: Some(position), message });
        };
        match inspect::read_checkpoint(storage, &file.path) {
            Ok(Some(checkpoint)) if checkpoint.mark.position == position => {
                saved.push(Saved { path: file.path.clone(), checkpoint, compared: false });
            }
            Ok(Some(checkpoint)) => {
                complain(format!(
                    "it was taken after record {}, and its name says otherwise",
                    checkpoint.mark.position
                ));
            }
            Ok(None) => complain("it does not verify; opening replays from an older one".to_owned()),
            // Newer ones have replaced it meanwhile.
            Err(_) if !is_there(&**storage, &file.path) => {}
            Err(error) => complain(error.to_string()),
        }
    }
    Ok(saved)
}

/// Whether whoever has the database open has saved a checkpoint that was not there when verification began: what was compacted
/// meanwhile was compacted up to it.
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
        // Newer ones may have replaced one between the listing and the look.
        if since.iter().all(|(file, _)| is_there(&**storage, &file.path)) {
            return Ok(false);
        }
    }
}

struct Replay<'p> {
    /// The state after the last record; `None` where records before it are missing.
    models: Option<Models>,
    ground: Ground,
    saved: Vec<Saved>,
    /// The newest record after which a checkpoint was taken that the database can be opened from.
    usable: Position,
    /// The last record that a compaction went through: a checkpoint that was taken there or later is needed.
    compacted: Position,
    /// The last record that was met, or that a compaction went through.
    last: Position,
    verification: Verification,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl Replay<'_> {
    /// Compares the checkpoint that was taken after a record, if there is one, with the state there. Where there is no state, it is
    /// taken from the checkpoint.
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
                (Ok(_), Some(models)) if !models.are_saved_as(&saved.checkpoint.payload) => {
                    Some("it holds another state than the log comes to".to_owned())
                }
                (Ok(_), Some(_)) => {
                    self.verification.checkpoints += 1;
                    self.usable = position;
                    None
                }
            }
        };
        if let Some(message) = message {
            self.find(Severity::Derivable, Part::Checkpoint, path, Some(position), message);
        }
    }

    /// Says which checkpoints no record was found for.
    fn end(&mut self) {
        let alone = self.saved.iter().filter(|saved| !saved.compared);
        let alone: Vec<_> = alone.map(|saved| (saved.path.clone(), saved.checkpoint.mark.position)).collect();
        for (path, position) in alone {
            let (severity, message) = if position > self.last {
                let lost = format!(
                    "the log was synced up to record {position} when it was taken, and ends with record {}: what stood behind is \
                     lost; restore it from a backup, or go on without: what opens it to write removes this checkpoint, and this database \
                     then says nothing of the loss any more",
                    self.last
                );
                (Severity::Lost, lost)
            } else {
                (Severity::Derivable, "the log does not hold the record after which it was taken".to_owned())
            };
            self.find(severity, Part::Checkpoint, path, Some(position), message);
        }
    }

    fn find(&mut self, severity: Severity, part: Part, path: PathBuf, position: Option<Position>, message: String) {
        self.verification.findings.push(Finding { severity, part, path, offset: 0, position, message });
    }
}

impl Watcher for Replay<'_> {
    fn record(&mut self, path: &Path, record: &Record<'_>) {
        self.last = record.position();
        if record.is_remains() {
            // What is left is not all that the state came from: it goes on from a checkpoint.
            self.models = None;
            return;
        }
        if let Some(models) = &mut self.models {
            // What a model can't take in is a panic where it can't happen, and a finding here.
            let applied =
                catch_unwind(AssertUnwindSafe(|| record.entries().try_for_each(|entry| models.apply(&entry))));
            let message = match applied {
                Ok(Ok(())) => None,
                Ok(Err(UnknownModel(model))) => Some((
                    Severity::Note,
                    format!("it holds an entry of model {}, which this program does not know", model.get()),
                )),
                Err(_) => Some((Severity::Lost, "it verifies, and a model can't take it in".to_owned())),
            };
            if let Some((severity, message)) = message {
                self.models = None;
                let (part, path, position) = (Part::Log, path.to_owned(), Some(record.position()));
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
        // What is left is not all that the state came from, also where no record is left.
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
