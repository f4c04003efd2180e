//! Tools that maintain the directory of a database. All but `repair` work while the database is in
//! use.

mod backup;
mod figures;
mod inspect;
mod location;
mod page;
mod repair;
mod salvage;
mod screen;
mod server_stat;
mod stat;
mod terminal;
mod top;
mod verify;

pub(crate) use backup::{Backup, Restore};
pub(crate) use inspect::Inspect;
pub(crate) use repair::Repair;
pub(crate) use salvage::Salvage;
pub(crate) use stat::Stat;
pub(crate) use top::Top;
pub(crate) use verify::Verify;

use crate::progress::ProgressDisplay;

/// Runs an operation that reports its progress, and shows the progress.
fn going<T>(what: &'static str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let mut shown: Option<(ProgressDisplay, u64)> = None;
    let done = work(&mut |done, of| {
        let (bar, before) = shown.get_or_insert_with(|| (ProgressDisplay::new(what, of), 0));
        bar.add(done - *before);
        *before = done;
    });
    if let Some((bar, _)) = shown {
        bar.finish();
    }
    done
}
