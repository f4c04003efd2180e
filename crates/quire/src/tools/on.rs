//! The tools on another file system than the machine's, such as a simulated one that fails on
//! purpose.

use std::path::Path;
use std::sync::Arc;

use quire_log::Storage;

use super::backup::backup_on;
use super::repair::repair_on;
use super::restore::restore_on;
use super::salvage::salvage_on;
use super::verify::verify_on;
use super::{Backup, RepairPlan, SalvageReport, Verification};
use crate::Result;

/// The tools on a given storage. Each method works like the function of its name.
#[derive(Debug, Clone)]
pub struct On(pub Arc<dyn Storage>);

impl On {
    /// Like [`backup`](super::backup()), but without the check that the backup lies outside of the
    /// database's directory.
    ///
    /// # Errors
    /// Those of [`backup`](super::backup()).
    pub fn backup(&self, database: &Path, to: &Path, before: Option<&Path>) -> Result<Backup> {
        backup_on(&self.0, database, to, before, &mut |_, _| ())
    }

    /// Like [`restore`](super::restore()).
    ///
    /// # Errors
    /// Those of [`restore`](super::restore()).
    pub fn restore(&self, backup: &Path, database: &Path) -> Result<Verification> {
        restore_on(&self.0, backup, database, None, &mut |_, _| ())
    }

    /// Like [`verify`](super::verify()).
    ///
    /// # Errors
    /// Those of [`verify`](super::verify()).
    pub fn verify(&self, database: &Path) -> Result<Verification> {
        verify_on(&self.0, database, None, &mut |_, _| ())
    }

    /// Like [`salvage`](super::salvage()), but without the check that the new database lies outside
    /// of the damaged one's directory.
    ///
    /// # Errors
    /// Those of [`salvage`](super::salvage()).
    pub fn salvage(&self, database: &Path, to: &Path) -> Result<SalvageReport> {
        salvage_on(&self.0, database, to, None, &mut |_, _| ())
    }

    /// Like [`repair`](super::repair()).
    ///
    /// # Errors
    /// Those of [`repair`](super::repair()).
    pub fn repair(&self, database: &Path, plan: &RepairPlan) -> Result<()> {
        repair_on(&self.0, database, plan)
    }
}
