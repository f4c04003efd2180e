//! Opening a shard: the log is recovered, the newest usable checkpoint is loaded, and the log after
//! it is replayed.

use std::path::Path;
use std::sync::Arc;

use quire_log::{Components, Identity, Log, Recovery};

use crate::checkpoint::{Base, Checkpoints, replay};
use crate::decide::WriterState;
use crate::error::{Error, ErrorKind, Result};
use crate::graph;
use crate::models::{StateInputs, seed_of};
use crate::office::ShardOffice;
use crate::settings::ShardSettings;

/// A log with the state that follows from it.
pub(crate) struct RestoredShard {
    pub(crate) log: Log,
    pub(crate) state: WriterState,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) recovery: Recovery,
    /// The number of records after the checkpoint.
    pub(crate) replayed: u64,
}

pub(crate) fn restore(
    directory: &Path,
    identity: Identity,
    settings: &ShardSettings,
    components: Components,
    graph_memory: impl FnOnce() -> graph::Memory,
) -> Result<RestoredShard> {
    let opened = Log::open_with(directory, identity, settings.log.clone(), components)?;
    let ground = StateInputs { seed: seed_of(identity.database), graph_memory: Some(Arc::new(graph_memory())) };
    let Some(mut base) = Base::of(opened.checkpoint, &opened.log, &ground)? else {
        let message = format!(
            "{} is damaged: records up to {} were compacted, and no checkpoint from there on is usable; restore a backup, or copy the whole records with `quire salvage`",
            directory.display(),
            opened.log.compacted_end()
        );
        return Err(Error::new(ErrorKind::Damaged, message));
    };
    let last = opened.writer.mark().position;
    assert!(base.position <= last, "a checkpoint does not go beyond the log");
    let replayed_bytes = replay(&mut base.models, base.position, last, &opened.writer.reader())?;
    let replayed = last.get() - base.position.get();
    let checkpoints = Checkpoints::new(settings.checkpoints, ground, base.position, base.bytes, replayed_bytes);
    let office = ShardOffice::of(&opened.log);
    let state = WriterState::new(opened.writer, base.models, office, settings.names, settings.idempotency);
    Ok(RestoredShard { log: opened.log, state, checkpoints, recovery: opened.recovery, replayed })
}
