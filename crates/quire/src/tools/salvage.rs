//! Salvage of a damaged database: every whole record that can be applied goes to a new database,
//! under its old position.
//!
//! ```text
//! newest checkpoint that verifies ─▶ the state up to its record: later losses cannot change it
//!        ─▶ each whole record after it: applied if the state has everything it refers to
//!        ─▶ the new log ─▶ checkpoint ─▶ verification ─▶ quire.meta
//! ```
//! The damaged database is only read, through a snapshot.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use quire_log::inspect::{InspectedRecord, Severity};
use quire_log::salvage::{DamagedLog, LostRecords, RecordFilter, SalvagedLog, save_checkpoint};
use quire_log::{Checkpoint, Snapshot, Storage};
use quire_model::{Entry, Position, Sequence, Tag};
use quire_shard::{Models, StateInputs, graph_memory, seed_of};

use super::backup::{make_empty, refuse_within};
use super::manifest::{begin, finish, refuse_backup, sync_folder};
use super::verify::{identity, verify_log};
use super::{GraphMemory, machine};
use crate::meta::Meta;
use crate::{Error, ErrorKind, Result};

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageReport {
    /// The last position of the new database. Its next record follows it.
    pub position: Position,
    /// The number of records in the new database.
    pub records: u64,
    /// The record up to which the state comes from a checkpoint. The records up to there need not
    /// be applied again, so the effects of lost ones are kept. Zero without a checkpoint.
    pub state_from: Position,
    /// The records that are not in the new database, in the order of the log.
    pub lost: Vec<LostRecords>,
}

/// Salvages the damaged database in `database` to `to`, a new or empty directory. The new database
/// has the same id, and every record keeps its position. A record is copied if it is whole and the
/// state has everything that it refers to. `graph_memory` is that of [`verify`](super::verify()).
/// `progress` gets the bytes that were read so far, and their total.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (path, to) = (directory.path().join("data"), directory.path().join("salvaged"));
/// let database = quire::Database::open(&path)?;
/// database.queue("mail").enqueue(quire::NewJob::new(b"to: you"))?;
/// # drop(database);
/// let salvage = quire::tools::salvage(&path, &to, None, &mut |_, _| ())?;
/// assert_eq!((salvage.records, salvage.lost.len()), (1, 0));
/// let database = quire::Database::open(&to)?;
/// assert_eq!(database.queue("mail").stats()?.map(|stats| stats.pending), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// * [`ErrorKind::NotADatabase`], also for a backup.
/// * [`ErrorKind::NewerFormat`] when a file was written by a newer version.
/// * [`ErrorKind::Invalid`] when `to` is not empty or lies in the database's directory.
/// * [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
///
/// Files that were written before an error are no database, and can be removed.
pub fn salvage(
    database: &Path,
    to: &Path,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport> {
    refuse_within("database", database, to)?;
    salvage_on(&machine(), database, to, graph_memory, progress)
}

pub(super) fn salvage_on(
    storage: &Arc<dyn Storage>,
    database: &Path,
    to: &Path,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SalvageReport> {
    refuse_backup(&**storage, database)?;
    let kept: Arc<dyn Storage> = Arc::new(Snapshot::of(Arc::clone(storage)));
    let identity = identity(&kept, database, &mut Vec::new())?;
    let name = Meta::shard_name(identity.shard);
    let from = DamagedLog::open(&kept, &database.join(&name), identity)?;
    let memory = graph_memory.map(|bound| Arc::new(graph_memory::bounded_elsewhere(bound)));
    let ground = StateInputs { seed: seed_of(identity.database), graph_memory: memory };
    let saved = newest(from.checkpoints(&kept)?, &ground);
    make_empty(&**storage, to)?;
    begin(&**storage, to)?;
    let shard = to.join(&name);
    let state_from = saved.as_ref().map_or(Position::ZERO, |saved| saved.mark.position);
    let (mut read, mut dropped) = (0, BTreeMap::new());
    let (copy, models, lost) = loop {
        let mut halved = |done: u64, of: u64| {
            read = of;
            progress(done, of * 2);
        };
        let mut filter = StateFilter::new(&ground, saved.as_ref(), &dropped, &mut halved);
        let copy = from.salvage(storage, &shard, state_from, &mut filter)?;
        let StateFilter { models, lost, torn, .. } = filter;
        let Some((position, reason)) = torn else { break (copy, models, lost) };
        // The state has half of a record. Start again without the record.
        dropped.insert(position, reason);
        remove_all(&**storage, &shard)?;
    };
    let SalvagedLog { mark, records, .. } = copy;
    if mark.position > Position::ZERO {
        let (graphs, bytes) = models.saved_bytes();
        save_checkpoint(storage, &shard, mark, bytes, &|sink| models.save_in_parts(graphs, sink))?;
    }
    drop(models);
    sync_folder(&**storage, &shard).map_err(|error| Error::io("sync", &shard, error))?;
    let mut second =
        |done: u64, of: u64| progress(read + (read as f64 * done as f64 / of.max(1) as f64) as u64, read * 2);
    let verification = verify_log(storage, to, identity, Vec::new(), graph_memory, &mut second)?;
    if let Some(finding) = verification.findings.iter().find(|finding| finding.severity > Severity::Note) {
        let message =
            format!("the salvaged database does not verify: {finding}; keep the damaged one, and report this");
        return Err(Error::new(ErrorKind::Damaged, message));
    }
    // From here on every file that the others follow from is there, and durable.
    finish(&**storage, to)?;
    Meta { database: identity.database, shards: 1 }.write(&**storage, to)?;
    Ok(SalvageReport { position: mark.position, records, state_from, lost })
}

/// Returns the newest checkpoint whose state can be read.
fn newest(checkpoints: Vec<Checkpoint>, ground: &StateInputs) -> Option<Checkpoint> {
    checkpoints.into_iter().find(|saved| Models::load(&saved.payload, ground).is_ok())
}

fn remove_all(storage: &dyn Storage, shard: &Path) -> Result<()> {
    let names = storage.list(shard).map_err(|error| Error::io("list", shard, error))?;
    names.iter().try_for_each(|name| {
        let path = shard.join(name);
        storage.remove(&path).map_err(|error| Error::io("remove", &path, error))
    })
}

/// Applies the records of a damaged log to the state, and drops those that can't be applied.
struct StateFilter<'p> {
    models: Models,
    ground: StateInputs,
    /// The last record that the state has or that was lost.
    last: Position,
    /// The last record of the checkpoint.
    state_from: Position,
    /// Whether the state may lack something that a record refers to.
    has_lost: bool,
    /// Records to drop, with the reasons: a model failed on them before.
    dropped: &'p BTreeMap<Position, String>,
    /// A record that was applied in part, and the reason.
    torn: Option<(Position, String)>,
    lost: Vec<LostRecords>,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl<'p> StateFilter<'p> {
    fn new(
        ground: &StateInputs,
        saved: Option<&Checkpoint>,
        dropped: &'p BTreeMap<Position, String>,
        progress: &'p mut dyn FnMut(u64, u64),
    ) -> Self {
        let models = saved.and_then(|saved| Models::load(&saved.payload, ground).ok());
        StateFilter {
            models: models.unwrap_or_else(|| Models::new(ground)),
            ground: ground.clone(),
            last: Position::ZERO,
            state_from: saved.map_or(Position::ZERO, |saved| saved.mark.position),
            has_lost: false,
            dropped,
            torn: None,
            lost: Vec::new(),
            progress,
        }
    }

    /// Applies all entries of a record that the state can take, or none.
    fn apply(&mut self, position: Position, entries: &[Entry<'_>]) -> Result<(), String> {
        let refused = |reason: &str| Err(format!("the record depends on a lost one: {reason}"));
        let mut saved = None;
        if self.has_lost {
            let mut problems = entries.iter().map(|entry| self.models.check_applicable(entry).err());
            match (problems.next().flatten(), problems.flatten().next()) {
                (Some(reason), _) => return refused(reason),
                // The entry may depend on an entry before it in the record.
                (None, Some(_)) => saved = Some(self.models.save()),
                (None, None) => {}
            }
        }
        for (index, entry) in entries.iter().enumerate() {
            if self.has_lost
                && let Err(reason) = self.models.check_applicable(entry)
            {
                if index > 0 {
                    match saved.and_then(|saved| Models::load(&saved, &self.ground).ok()) {
                        Some(models) => self.models = models,
                        None => self.torn = Some((position, reason.to_owned())),
                    }
                }
                return refused(reason);
            }
            let models = &mut self.models;
            match catch_unwind(AssertUnwindSafe(|| models.apply(entry))) {
                Ok(Ok(())) => {}
                Ok(Err(unknown)) => {
                    let reason =
                        format!("it holds an entry of model {}, which this program does not know", unknown.0.get());
                    self.torn = Some((position, reason.clone()));
                    return Err(reason);
                }
                // A model panics on an entry that no commit can have written.
                Err(_) => {
                    let reason = "a model can't apply the record".to_owned();
                    self.torn = Some((position, reason.clone()));
                    return Err(reason);
                }
            }
        }
        Ok(())
    }
}

impl RecordFilter for StateFilter<'_> {
    fn record(&mut self, record: &InspectedRecord<'_>) -> Result<(), String> {
        let position = record.position();
        let before = std::mem::replace(&mut self.last, position);
        if let Some(reason) = self.dropped.get(&position) {
            self.has_lost = true;
            return Err(reason.clone());
        }
        // The state has it already; or this run of the salvage is repeated.
        if position <= self.state_from || self.torn.is_some() {
            return Ok(());
        }
        self.has_lost |= position > before.max(self.state_from).next() || record.is_remains();
        let entries: Vec<_> = record.entries().collect();
        let applied = self.apply(position, &entries);
        self.has_lost |= applied.is_err();
        applied
    }

    fn lost(&mut self, lost: LostRecords) {
        self.lost.push(lost);
    }

    fn numbers(&mut self, reached: &mut dyn Iterator<Item = (Tag<'_>, Sequence)>) -> Vec<(Vec<u8>, Sequence)> {
        self.models.settle_numbers(reached)
    }

    fn progress(&mut self, bytes: u64, of: u64) {
        (self.progress)(bytes, of);
    }
}
