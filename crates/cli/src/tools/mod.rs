//! What looks after the directory of a database: every tool but `repair` works beside whoever has it open.

mod backup;
mod inspect;
mod page;
mod repair;
mod stat;
mod top;
mod verify;

pub(crate) use backup::{Backup, Restore};
pub(crate) use inspect::Inspect;
pub(crate) use repair::Repair;
pub(crate) use stat::Stat;
pub(crate) use top::Top;
pub(crate) use verify::Verify;

use crate::progress::Progress;

/// Does something that tells how far it has come, and shows it.
fn going<T>(what: &'static str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let mut shown: Option<(Progress, u64)> = None;
    let done = work(&mut |done, of| {
        let (bar, before) = shown.get_or_insert_with(|| (Progress::new(what, of), 0));
        bar.add(done - *before);
        *before = done;
    });
    if let Some((bar, _)) = shown {
        bar.finish();
    }
    done
}
