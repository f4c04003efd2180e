//! Opening a shard: the log is recovered, the newest usable checkpoint is loaded, and the log after it is replayed.

use std::path::Path;
use std::sync::Arc;

use quire_log::{Components, Identity, Log, Recovery, Woken};

use crate::checkpoint::{Base, CheckpointSettings, Checkpoints, replay};
use crate::compressor::Compressor;
use crate::decide::State;
use crate::erasing::Erasing;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{self, Looked};
use crate::models::{Ground, seed_of};
use crate::shard::{Restored, Retention, Shard};

/// How a shard is opened.
#[derive(Debug, Clone)]
pub struct ShardSettings {
    /// The log's settings.
    pub log: quire_log::Settings,
    /// When checkpoints are taken, and how.
    pub checkpoints: CheckpointSettings,
    /// How long records are kept that no longer count.
    pub retention: Retention,
    /// Smallest batch, in bytes of records, that is compressed for a topic with a codec.
    pub compress_bytes_min: usize,
    /// Whether commits and checkpoints are refused.
    pub read_only: bool,
}

impl Shard {
    /// Opens the shard in `directory`, and creates its log when there is none. `graph_memory` is called once the log is open.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`], [`ErrorKind::NewerFormat`], [`ErrorKind::Damaged`], [`ErrorKind::Invalid`] for settings,
    /// [`ErrorKind::NoSpace`] and [`ErrorKind::Io`].
    pub fn open(
        directory: &Path,
        identity: Identity,
        settings: ShardSettings,
        components: Components,
        graph_memory: impl FnOnce() -> graph::Memory,
    ) -> Result<(Self, Recovery)> {
        let opened = Log::open_with(directory, identity, settings.log, components)?;
        let ground = Ground { seed: seed_of(identity.database), graph_memory: Some(Arc::new(graph_memory())) };
        let Some(mut base) = Base::of(opened.checkpoint, &opened.log, &ground)? else {
            let message = format!(
                "{} was compacted up to record {}, and no checkpoint of its state is left from there on; restore it from a backup",
                directory.display(),
                opened.log.compacted_end()
            );
            return Err(Error::new(ErrorKind::Damaged, message));
        };
        let reader = opened.writer.reader();
        let replayed_bytes = replay(&mut base.models, base.position, opened.writer.mark().position, &reader)?;
        let checkpoints = Checkpoints::new(settings.checkpoints, ground, base.position, base.bytes, replayed_bytes);
        let state = State {
            writer: opened.writer,
            models: base.models,
            looked: Looked::default(),
            behind: false,
            owed: Woken::default(),
            followed: false,
            erasing: Erasing::default(),
        };
        let restored = Restored { state, checkpoints };
        let compressor = Compressor::new(settings.compress_bytes_min);
        let read_only = settings.read_only;
        let shard = Shard::new(identity.database, opened.log, restored, settings.retention, compressor, read_only);
        Ok((shard, opened.recovery))
    }
}
