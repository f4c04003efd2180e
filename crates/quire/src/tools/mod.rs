//! Tools for the directory of a database that do not open it: processes that have it open continue.
//! Only a [`StoppedNode`] is opened, and then by no other process.
//!
//! Only [`backup`](backup()), [`restore`](restore()), [`salvage`](salvage()),
//! [`repair`](repair()), [`receive_node`] and [`StoppedNode`] write files. Only `repair` and
//! `StoppedNode` take a lock.

mod backup;
mod look;
mod manifest;
mod names;
mod node_files;
mod on;
mod permissions;
mod repair;
mod restore;
mod salvage;
mod shards;
mod stopped_node;
mod stream;
mod verify;

use std::sync::Arc;

use quire_log::{Disk, Storage};

pub use backup::backup;
pub use look::{checkpoint, checkpoint_sections, index, segment, survey, words};
pub(crate) use manifest::refuse_backup;
pub use manifest::{Backup, BackupFile};
pub use names::{kind_name, model_name, tag_text};
pub use node_files::{finish_receiving, receive_node};
pub use on::On;
pub use permissions::open_to_others;
pub use quire_log::inspect::{
    FileKind, Finding, IndexFile, InspectedRecord, InspectedSegment, LogPart, NumberedTag, Severity, Stretch, Survey,
    SurveyedFile, Totals,
};
pub use quire_log::salvage::LostRecords;
pub use quire_log::{Checkpoint, Gauge, Gauges, Histogram, Identity, Page};
pub use quire_model::Entry;
pub use quire_shard::graph_memory::GraphMemory;
pub use repair::{RepairPlan, RepairStep, repair};
pub use restore::restore;
pub use salvage::{SalvageReport, salvage};
pub use shards::{ShardPath, shards};
pub use stopped_node::{StoppedNode, StoppedNodeReport};
pub use stream::{BackupSink, receive_backup, stream_backup};
pub use verify::{Verification, verify};

/// The file system of the machine.
fn machine() -> Arc<dyn Storage> {
    Arc::new(Disk)
}
