//! Repair of a database: files that follow from the log are derived from it again, and nothing is
//! invented.
//!
//! The plan is a value, so that it can be shown before it is carried out. Each step can be
//! interrupted and repeated.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::inspect::{Finding, LogPart, Severity};
use quire_log::{Access, Lock, Storage, StoredFile};

use super::machine;
use super::manifest::{refuse_backup, sync_folder};
use super::verify::{Verification, identity};
use crate::database::Database;
use crate::meta::Meta;
use crate::{Error, ErrorKind, Result};

/// The steps of a repair, and the damage that a repair can't undo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairPlan {
    /// The steps, in their order.
    pub steps: Vec<RepairStep>,
    /// Findings that stay: lost records can only be restored from a backup.
    /// [`salvage`](super::salvage()) copies the other records to a new database.
    pub stays: Vec<Finding>,
}

/// A step of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairStep {
    /// Write `quire.meta` again, with the id that the segments have.
    WriteMeta,
    /// Remove a file that does not verify; it is derived from the log again.
    Remove(PathBuf),
    /// Open the database and close it. This derives missing files again, cuts a torn tail, and
    /// saves a checkpoint.
    Reopen,
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairStep::WriteMeta => f.write_str("write quire.meta again, with the id that the segments have"),
            RepairStep::Remove(path) => {
                write!(f, "remove {}, which does not verify; it is derived from the log again", path.display())
            }
            RepairStep::Reopen => {
                f.write_str("open the database and close it, which derives missing files again and cuts a torn tail")
            }
        }
    }
}

impl RepairPlan {
    /// Plans the repair of the findings of a verification.
    pub fn of(verification: &Verification) -> Self {
        let mut plan = RepairPlan::default();
        let is_lost = verification.worst() == Some(Severity::Lost);
        for finding in &verification.findings {
            match (finding.severity, finding.part) {
                (Severity::Note, _) => {}
                (Severity::Lost, _) => plan.stays.push(finding.clone()),
                (Severity::Derivable, LogPart::Meta) => plan.steps.insert(0, RepairStep::WriteMeta),
                // A checkpoint may hold the only state of lost or compacted records. An index says
                // where the records after damage are, and without it nothing opens. A damaged one
                // is derived again when it is read.
                (Severity::Derivable, LogPart::Checkpoint | LogPart::Index) if is_lost => {}
                (
                    Severity::Derivable,
                    LogPart::Checkpoint | LogPart::Index | LogPart::Control | LogPart::Statistics,
                ) => {
                    let step = RepairStep::Remove(finding.path.clone());
                    if !plan.steps.contains(&step) {
                        plan.steps.push(step);
                    }
                }
                (Severity::Derivable, LogPart::Log | LogPart::Tail | LogPart::Other) => {}
            }
        }
        // With lost records, opening decides which records can still be served. A repair must not
        // decide that.
        let derivable = verification.findings.iter().any(|finding| finding.severity == Severity::Derivable);
        if derivable && plan.stays.is_empty() {
            plan.steps.push(RepairStep::Reopen);
        }
        plan
    }
}

/// Carries out a plan. No other process may have the database open.
///
/// # Errors
/// [`ErrorKind::InUse`] when another process has the database open; [`ErrorKind::NotADatabase`] for
/// a backup; [`ErrorKind::Io`], and the errors of opening.
pub fn repair(database: &Path, plan: &RepairPlan) -> Result<()> {
    repair_on(&machine(), database, plan)
}

pub(super) fn repair_on(storage: &Arc<dyn Storage>, database: &Path, plan: &RepairPlan) -> Result<()> {
    refuse_backup(&**storage, database)?;
    let identity = identity(storage, database, &mut Vec::new())?;
    let shard = database.join(Meta::shard_name(identity.shard));
    {
        let _lock = ShardLock::take(&**storage, &shard)?;
        for step in &plan.steps {
            match step {
                RepairStep::WriteMeta => Meta { database: identity.database, shards: 1 }.write(&**storage, database)?,
                RepairStep::Remove(path) => remove(&**storage, path)?,
                RepairStep::Reopen => {}
            }
        }
    }
    if plan.steps.contains(&RepairStep::Reopen) {
        drop(Database::builder(database).storage(Arc::clone(storage)).create(false).open()?);
    }
    Ok(())
}

fn remove(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("remove", path, error)),
        _ => {}
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    sync_folder(storage, folder).map_err(|error| Error::io("sync", folder, error))
}

/// A lock that keeps other processes from opening a shard.
struct ShardLock(Arc<dyn StoredFile>);

impl ShardLock {
    fn take(storage: &dyn Storage, shard: &Path) -> Result<Self> {
        let failed = |error| Error::io("lock", shard, error);
        let directory = storage.open(shard, Access::Read).map_err(failed)?;
        if !directory.lock(Lock::Alone).map_err(failed)? {
            let message = format!("{} is in use; stop the processes that have it open, and try again", shard.display());
            return Err(Error::new(ErrorKind::InUse, message));
        }
        Ok(ShardLock(directory))
    }
}

impl Drop for ShardLock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
