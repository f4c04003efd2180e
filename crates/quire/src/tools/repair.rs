//! Repairing a database: what follows from the log is made anew from it, and nothing is invented.
//!
//! The plan is a value, to be shown before it is carried out. Each step may be interrupted and done again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::inspect::{Finding, Part, Severity};
use quire_log::{Access, Lock, Storage, StoredFile};

use super::machine;
use super::manifest::{refuse_backup, sync_folder};
use super::verify::{Verification, identity};
use crate::database::Database;
use crate::meta::Meta;
use crate::{Error, ErrorKind, Result};

/// What a repair does, and what it can't do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairPlan {
    /// What is to be done, in this order.
    pub steps: Vec<RepairStep>,
    /// What stays: records that are lost can only be restored from a backup.
    pub stays: Vec<Finding>,
}

/// A step of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairStep {
    /// Write `quire.meta` anew, with the id that the segments have.
    WriteMeta,
    /// Remove a file that does not verify and is made anew from the log.
    Remove(PathBuf),
    /// Open the database and close it: that makes anew what is missing, cuts a torn tail, and saves a checkpoint.
    Reopen,
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairStep::WriteMeta => f.write_str("write quire.meta anew, with the id that the segments have"),
            RepairStep::Remove(path) => {
                write!(f, "remove {}, which does not verify and is made anew from the log", path.display())
            }
            RepairStep::Reopen => {
                f.write_str("open the database and close it, which makes anew what is missing and cuts a torn tail")
            }
        }
    }
}

impl RepairPlan {
    /// What is to be done about what verification found.
    pub fn of(verification: &Verification) -> Self {
        let mut plan = RepairPlan::default();
        let is_lost = verification.worst() == Some(Severity::Lost);
        for finding in &verification.findings {
            match (finding.severity, finding.part) {
                (Severity::Note, _) => {}
                (Severity::Lost, _) => plan.stays.push(finding.clone()),
                (Severity::Derivable, Part::Meta) => plan.steps.insert(0, RepairStep::WriteMeta),
                // It may hold the only state of what the log has lost, or of what was compacted; and an index says where the records
                // behind damage are, without which nothing opens. One that is not as it was written is made anew when it is met.
                (Severity::Derivable, Part::Checkpoint | Part::Index) if is_lost => {}
                (Severity::Derivable, Part::Checkpoint | Part::Index | Part::Control | Part::Statistics) => {
                    let step = RepairStep::Remove(finding.path.clone());
                    if !plan.steps.contains(&step) {
                        plan.steps.push(step);
                    }
                }
                (Severity::Derivable, Part::Log | Part::Tail | Part::Other) => {}
            }
        }
        // Where records are lost, opening decides what can still be served; that is not to happen in passing.
        let derivable = verification.findings.iter().any(|finding| finding.severity == Severity::Derivable);
        if derivable && plan.stays.is_empty() {
            plan.steps.push(RepairStep::Reopen);
        }
        plan
    }
}

/// Carries out a plan, while nobody else has the database open.
///
/// # Errors
/// [`ErrorKind::InUse`] when somebody has; [`ErrorKind::NotADatabase`] of a backup; [`ErrorKind::Io`], and what opening fails with.
pub fn repair(database: &Path, plan: &RepairPlan) -> Result<()> {
    repair_on(&machine(), database, plan)
}

pub(super) fn repair_on(storage: &Arc<dyn Storage>, database: &Path, plan: &RepairPlan) -> Result<()> {
    refuse_backup(&**storage, database)?;
    let identity = identity(storage, database, &mut Vec::new())?;
    let shard = database.join(Meta::shard_name(identity.shard));
    {
        let _alone = Alone::in_directory(&**storage, &shard)?;
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

/// Keeps a shard from being opened for as long as this lives.
struct Alone(Arc<dyn StoredFile>);

impl Alone {
    fn in_directory(storage: &dyn Storage, shard: &Path) -> Result<Self> {
        let failed = |error| Error::io("lock", shard, error);
        let directory = storage.open(shard, Access::Read).map_err(failed)?;
        if !directory.lock(Lock::Alone).map_err(failed)? {
            let message = format!("{} is in use; stop whoever has it open, and try again", shard.display());
            return Err(Error::new(ErrorKind::InUse, message));
        }
        Ok(Alone(directory))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
