//! The tools on another file system than the machine's: one that is simulated, or that fails when it is told to.

use std::path::Path;
use std::sync::Arc;

use quire_log::Storage;

use super::backup::backup_on;
use super::repair::repair_on;
use super::restore::restore_on;
use super::verify::verify_on;
use super::{Backup, RepairPlan, Verification};
use crate::Result;

/// See the module. Each does what the function of its name does, in folders of this file system.
#[derive(Debug, Clone)]
pub struct On(pub Arc<dyn Storage>);

impl On {
    /// As [`backup`](super::backup()), which alone sees to it that the backup does not lie in the database's folder.
    ///
    /// # Errors
    /// As of [`backup`](super::backup()).
    pub fn backup(&self, database: &Path, to: &Path, before: Option<&Path>) -> Result<Backup> {
        backup_on(&self.0, database, to, before, &mut |_, _| ())
    }

    /// As [`restore`](super::restore()).
    ///
    /// # Errors
    /// As of [`restore`](super::restore()).
    pub fn restore(&self, backup: &Path, database: &Path) -> Result<Verification> {
        restore_on(&self.0, backup, database, None, &mut |_, _| ())
    }

    /// As [`verify`](super::verify()).
    ///
    /// # Errors
    /// As of [`verify`](super::verify()).
    pub fn verify(&self, database: &Path) -> Result<Verification> {
        verify_on(&self.0, database, None, &mut |_, _| ())
    }

    /// As [`repair`](super::repair()).
    ///
    /// # Errors
    /// As of [`repair`](super::repair()).
    pub fn repair(&self, database: &Path, plan: &RepairPlan) -> Result<()> {
        repair_on(&self.0, database, plan)
    }
}
