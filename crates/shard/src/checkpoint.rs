//! Checkpoints of the models' state: when one is due, and how it is taken.
//!
//! A small state is encoded while commits wait, which takes about a millisecond a MiB. A large one
//! is built again next to it, as a restart would: from the checkpoint before and the log after
//! that. Commits then do not wait, and the state takes its memory twice for that time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLockReadGuard};

use quire_log::{Basis, Checkpoint, Log, Mark, Reader};
use quire_model::Position;

use crate::decide::WriterState;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Models, StateInputs};

/// When checkpoints are taken, and how.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointSettings {
    /// Bytes of log between two checkpoints. After a checkpoint with more bytes than that, its size
    /// is the interval, so that saving a large state again and again writes at most as many bytes
    /// as the log.
    pub interval_bytes: u64,
    /// Largest state, in bytes, that is encoded while commits wait.
    pub pause_bytes: u64,
}

/// The checkpoints of an open shard.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    settings: CheckpointSettings,
    ground: StateInputs,
    /// Position of the newest checkpoint. Locked while one is taken, because two of one position
    /// would be one file.
    newest: Mutex<Position>,
    /// Bytes of the newest checkpoint.
    newest_bytes: AtomicU64,
    /// Bytes of log that opening replayed after the newest checkpoint.
    replayed_bytes: u64,
    /// Bytes replayed and appended when the last checkpoint was requested.
    requested_at: AtomicU64,
    saved: AtomicU64,
}

/// The state from which a shard replays its log.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) models: Models,
    /// The last record of the state; [`Position::ZERO`] before the first.
    pub(crate) position: Position,
    /// Bytes of its checkpoint; 0 without one.
    pub(crate) bytes: u64,
}

impl Base {
    /// The state of `saved`, or of an older checkpoint, or the empty state. Returns `None` if the
    /// log that would have to be replayed on it was compacted.
    pub(crate) fn of(saved: Option<Checkpoint>, log: &Log, ground: &StateInputs) -> Result<Option<Base>> {
        let mut saved = saved;
        let base = loop {
            let Some(Checkpoint { mark, payload }) = saved else {
                break Base { models: Models::new(ground), position: Position::ZERO, bytes: 0 };
            };
            match Models::load(&payload, ground) {
                Ok(models) => break Base { models, position: mark.position, bytes: payload.len() as u64 },
                // A checkpoint in another format, of an older or newer program, is skipped.
                Err(_) => saved = log.checkpoint_before(mark.position)?,
            }
        };
        Ok((base.position.next() >= log.compacted_end()).then_some(base))
    }
}

/// The source of a checkpoint: the state itself or a replay.
enum CheckpointSource {
    /// From the encoded state.
    Encoded(NewCheckpoint),
    /// By a replay up to this record, because the state is large.
    Replay(Basis, Reader),
}

/// The models' state after a record.
struct NewCheckpoint {
    basis: Basis,
    state: StateToSave,
}

enum StateToSave {
    /// Encoded at once, because later commits change the original.
    Bytes(Vec<u8>),
    /// A replayed state, written while it is encoded: its bytes are never in memory as a whole.
    Models(Box<Models>),
}

impl NewCheckpoint {
    fn encode(state: &WriterState) -> Self {
        NewCheckpoint { basis: state.writer.basis(), state: StateToSave::Bytes(state.models.save()) }
    }

    /// Writes the checkpoint. Returns its bytes.
    fn save(&self, log: &Log) -> Result<u64> {
        let bytes = match &self.state {
            StateToSave::Bytes(bytes) => {
                log.save_checkpoint(self.basis, bytes)?;
                bytes.len() as u64
            }
            StateToSave::Models(models) => {
                let (graphs, bytes) = models.saved_bytes();
                log.save_checkpoint_in_pieces(self.basis, bytes, &|sink| models.save_in_parts(graphs, sink))?;
                bytes
            }
        };
        Ok(bytes)
    }
}

impl Checkpoints {
    /// Creates the checkpoints of a shard that was opened from a checkpoint at `position` with
    /// `bytes` bytes, and then replayed `replayed_bytes` bytes.
    pub(crate) fn new(
        settings: CheckpointSettings,
        ground: StateInputs,
        position: Position,
        bytes: u64,
        replayed_bytes: u64,
    ) -> Self {
        Checkpoints {
            settings,
            ground,
            newest: Mutex::new(position),
            newest_bytes: AtomicU64::new(bytes),
            replayed_bytes,
            requested_at: AtomicU64::new(0),
            saved: AtomicU64::new(0),
        }
    }

    /// Whether enough log follows the last checkpoint. Returns true once for each checkpoint.
    pub(crate) fn are_due(&self, appended_bytes: u64) -> bool {
        let bytes = self.replayed_bytes + appended_bytes;
        let requested_at = self.requested_at.load(Ordering::Relaxed);
        bytes.saturating_sub(requested_at) >= self.settings.interval_bytes
            && bytes.saturating_sub(requested_at) >= self.newest_bytes.load(Ordering::Relaxed)
            && self.requested_at.compare_exchange(requested_at, bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Number of checkpoints saved.
    pub(crate) fn saved(&self) -> u64 {
        self.saved.load(Ordering::Relaxed)
    }

    /// Builds the state after the record of `mark`, the last one of the log, from the newest
    /// checkpoint and the log after it.
    ///
    /// # Errors
    /// `ErrorKind::Damaged` when the log was compacted and no checkpoint is left; errors of
    /// reading.
    pub(crate) fn restore(&self, log: &Log, mark: Mark, reader: &Reader) -> Result<Models> {
        let Some(mut base) = Base::of(log.newest_checkpoint()?, log, &self.ground)? else {
            let message = "the log was compacted, and no checkpoint of the state is left; restore a backup, or copy the whole records with `quire salvage`";
            return Err(Error::new(ErrorKind::Damaged, message));
        };
        assert!(base.position <= mark.position, "a checkpoint holds published records only");
        replay(&mut base.models, base.position, mark.position, reader)?;
        Ok(base.models)
    }

    /// Saves the state that `latest` returns, unless the newest checkpoint holds it already.
    pub(crate) fn save<'s>(
        &self,
        log: &Log,
        latest: impl Fn() -> Result<RwLockReadGuard<'s, WriterState>>,
    ) -> Result<()> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let source = {
            let state = latest()?;
            let basis = state.writer.basis();
            if basis.position() <= *newest {
                return Ok(());
            }
            if state.models.weight() <= self.settings.pause_bytes {
                CheckpointSource::Encoded(NewCheckpoint::encode(&state))
            } else {
                CheckpointSource::Replay(basis, state.writer.reader())
            }
        };
        let checkpoint = match source {
            CheckpointSource::Encoded(checkpoint) => checkpoint,
            CheckpointSource::Replay(basis, reader) => match log.newest_checkpoint()? {
                // Another process with the shard open was faster.
                Some(saved) if saved.mark.position >= basis.position() => {
                    *newest = saved.mark.position;
                    return Ok(());
                }
                saved => match Base::of(saved, log, &self.ground)? {
                    Some(base) => replay_to(base, basis, &reader)?,
                    None => NewCheckpoint::encode(&*latest()?),
                },
            },
        };
        assert!(checkpoint.basis.position() > *newest, "a checkpoint is newer than the one before");
        let bytes = checkpoint.save(log)?;
        *newest = checkpoint.basis.position();
        self.newest_bytes.store(bytes, Ordering::Relaxed);
        self.saved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Builds the state after the record of `basis` again.
fn replay_to(mut base: Base, basis: Basis, reader: &Reader) -> Result<NewCheckpoint> {
    replay(&mut base.models, base.position, basis.position(), reader)?;
    Ok(NewCheckpoint { basis, state: StateToSave::Models(Box::new(base.models)) })
}

/// Applies every record after `from` up to `to`, as a restart does with the log after its
/// checkpoint. Returns the bytes of the entries.
///
/// # Errors
/// `ErrorKind::NewerFormat` when a record holds entries of a model that this program does not know.
pub(crate) fn replay(models: &mut Models, from: Position, to: Position, reader: &Reader) -> Result<u64> {
    let mut bytes = 0;
    let mut position = from.next();
    while position <= to {
        for entry in reader.record(position)?.into_iter().flatten() {
            bytes += entry.tags.iter().map(|tag| tag.as_bytes().len()).sum::<usize>() + entry.body.len();
            models.apply(&entry).map_err(|unknown| Error::newer(position, &unknown))?;
        }
        position = position.next();
    }
    Ok(bytes as u64)
}
