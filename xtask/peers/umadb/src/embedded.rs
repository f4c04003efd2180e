//! UmaDB in this process.

use std::path::Path;
use std::sync::Arc;

use umadb_core::db::UmaDb;
use umadb_core::mvcc::{Mvcc, StorageOptions};
use umadb_dcb::{DcbAppendCondition, DcbEventStoreSync, DcbQuery, DcbQueryItem};

use crate::latencies::Measured;
use crate::{Result, event};

/// How many events are appended at a time to fill the store.
const FILL_AT_ONCE: u64 = 1_000;

/// The page size of its file.
const PAGE_BYTES: usize = 4_096;

/// Opens the store in this file, as the server does.
pub(crate) fn open(path: &Path) -> Result<UmaDb> {
    Ok(UmaDb::from_arc(Arc::new(Mvcc::new(false, StorageOptions::default().db_path(path))?)))
}

/// Appends events of three tags, one at a time.
pub(crate) fn append(path: &Path, ops: u64) -> Result<Measured> {
    let store = open(path)?;
    Measured::one(ops, |op| {
        let tags = [format!("name:{op}"), format!("course:{}", op % 1_000), "school:1".to_owned()];
        store.append(vec![event("Happened", &tags)], None, None)?;
        Ok(())
    })
}

/// Appends under a condition on a type that no event has, in a store of `count` events.
pub(crate) fn append_if_type_absent(path: &Path, ops: u64, among: u64) -> Result<Measured> {
    let store = open(path)?;
    fill(&store, among, "Filled", "filled")?;
    Measured::one(ops, |op| {
        let tags = [format!("name:{op}"), format!("course:{}", op % 1_000), "school:1".to_owned()];
        let absent = DcbQuery::with_items([DcbQueryItem::new().types(["Absent"])]);
        store.append(vec![event("Happened", &tags)], Some(DcbAppendCondition::new(absent)), None)?;
        Ok(())
    })
}

/// The bytes of the file for each of `count` events with two tags.
pub(crate) fn disk(path: &Path, events: u64) -> Result<Measured> {
    let store = open(path)?;
    let mut measured = Measured::one(1, |_| fill(&store, events, "Happened", "name"))?;
    drop(store);
    // The file grows ahead of its content: only used pages count.
    let pages = std::fs::read(path)?.chunks(PAGE_BYTES).filter(|page| page.iter().any(|byte| *byte != 0)).count();
    measured.disk_bytes_per_event = Some((pages * PAGE_BYTES) as f64 / events as f64);
    Ok(measured)
}

/// Appends `count` events, many at a time.
fn fill(store: &UmaDb, events: u64, event_type: &str, name: &str) -> Result<()> {
    for first in (0..events).step_by(FILL_AT_ONCE as usize) {
        let numbers = first..events.min(first + FILL_AT_ONCE);
        let some = numbers
            .map(|number| event(event_type, &[format!("{name}:{number}"), format!("course:{}", number % 1_000)]));
        store.append(some.collect(), None, None)?;
    }
    Ok(())
}
