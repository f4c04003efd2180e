//! Checkpoints of the models' state: when one is due, and how it is taken.
//!
//! A small state is saved while commits wait, which takes about a millisecond a MiB. A large one is made once more beside it,
//! as a restart would: from the checkpoint before and the log behind that. Commits then wait for nothing, and the state takes
//! its memory twice for that time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLockReadGuard};

use quire_log::{Checkpoint, Log, Mark, Reader};
use quire_model::Position;

use crate::decide::WriterState;
use crate::error::{Error, Result};
use crate::models::{Ground, Models};

/// When checkpoints are taken, and how.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointSettings {
    /// After so many bytes of log; after as many as the last one had, when those are more, so that saving a large state again and
    /// again costs no more than the log itself.
    pub interval_bytes: u64,
    /// The largest state that is saved while commits wait, in bytes.
    pub pause_bytes: u64,
}

/// The checkpoints of an open database.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    settings: CheckpointSettings,
    ground: Ground,
    /// The position of the newest. Locked while one is taken, for two of one position are one file.
    newest: Mutex<Position>,
    /// How many bytes the newest has.
    newest_bytes: AtomicU64,
    /// How many bytes of log behind the newest checkpoint opening went through.
    replayed_bytes: u64,
    /// How much had been replayed and appended when the last one was asked for.
    asked_at: AtomicU64,
    saved: AtomicU64,
}

/// What a database goes on from.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) models: Models,
    /// The record that the state belongs to; [`Position::ZERO`] before the first.
    pub(crate) position: Position,
    /// How many bytes it has as a checkpoint; 0 without one.
    pub(crate) bytes: u64,
}

impl Base {
    /// The state that was saved, or an older one, or an empty one. `None`: the log that would have to be replayed on it was
    /// compacted.
    pub(crate) fn of(saved: Option<Checkpoint>, log: &Log, ground: &Ground) -> Result<Option<Base>> {
        let mut saved = saved;
        let base = loop {
            let Some(Checkpoint { mark, payload }) = saved else {
                break Base { models: Models::new(ground), position: Position::ZERO, bytes: 0 };
            };
            match Models::load(&payload, ground) {
                Ok(models) => break Base { models, position: mark.position, bytes: payload.len() as u64 },
                // One that an older or newer program wrote in another way is passed over.
                Err(_) => saved = log.checkpoint_before(mark.position)?,
            }
        };
        Ok((base.position.next() >= log.compacted_end()).then_some(base))
    }
}

/// A state that was looked at to be saved.
enum Seen {
    Saved(Taken),
    /// It is large: where it is to be made again.
    Large(Mark, Reader),
}

/// The models' state after a record.
struct Taken {
    mark: Mark,
    state: Saving,
}

enum Saving {
    /// As bytes, for it goes on changing.
    Bytes(Vec<u8>),
    /// Made again, and written as it is encoded: its bytes are never in memory as a whole.
    Models(Box<Models>),
}

impl Taken {
    /// Writes it; says how many bytes it has.
    fn save(&self, log: &Log) -> Result<u64> {
        let bytes = match &self.state {
            Saving::Bytes(bytes) => {
                log.save_checkpoint(self.mark, bytes)?;
                bytes.len() as u64
            }
            Saving::Models(models) => {
                let (graphs, bytes) = models.saved_bytes();
                log.save_checkpoint_in_pieces(self.mark, bytes, &|sink| models.save_in_parts(graphs, sink))?;
                bytes
            }
        };
        Ok(bytes)
    }
}

impl Checkpoints {
    /// Those of a database that went on from `base` and replayed so much.
    pub(crate) fn new(
        settings: CheckpointSettings,
        ground: Ground,
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
            asked_at: AtomicU64::new(0),
            saved: AtomicU64::new(0),
        }
    }

    /// Whether there is enough log behind the last one. Says so once for each.
    pub(crate) fn are_due(&self, appended_bytes: u64) -> bool {
        let bytes = self.replayed_bytes + appended_bytes;
        let asked_at = self.asked_at.load(Ordering::Relaxed);
        bytes.saturating_sub(asked_at) >= self.settings.interval_bytes
            && bytes.saturating_sub(asked_at) >= self.newest_bytes.load(Ordering::Relaxed)
            && self.asked_at.compare_exchange(asked_at, bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// How many were saved.
    pub(crate) fn saved(&self) -> u64 {
        self.saved.load(Ordering::Relaxed)
    }

    /// Saves the state as it is now, unless the newest checkpoint holds it already.
    pub(crate) fn save<'s>(&self, log: &Log, now: impl Fn() -> Result<RwLockReadGuard<'s, WriterState>>) -> Result<()> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = {
            let state = now()?;
            let mark = state.writer.mark();
            if mark.position == *newest {
                return Ok(());
            }
            if state.models.weight() <= self.settings.pause_bytes {
                Seen::Saved(Taken { mark, state: Saving::Bytes(state.models.save()) })
            } else {
                Seen::Large(mark, state.writer.reader())
            }
        };
        let taken = match seen {
            Seen::Saved(taken) => taken,
            Seen::Large(mark, reader) => match log.newest_checkpoint()? {
                // Somebody else, who has the database open, too, was faster.
                Some(saved) if saved.mark.position >= mark.position => {
                    *newest = saved.mark.position;
                    return Ok(());
                }
                saved => match Base::of(saved, log, &self.ground)? {
                    Some(base) => again(base, mark, &reader)?,
                    None => {
                        let state = now()?;
                        Taken { mark: state.writer.mark(), state: Saving::Bytes(state.models.save()) }
                    }
                },
            },
        };
        let bytes = taken.save(log)?;
        *newest = taken.mark.position;
        self.newest_bytes.store(bytes, Ordering::Relaxed);
        self.saved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Makes the state after a record once more.
fn again(mut base: Base, mark: Mark, reader: &Reader) -> Result<Taken> {
    replay(&mut base.models, base.position, mark.position, reader)?;
    Ok(Taken { mark, state: Saving::Models(Box::new(base.models)) })
}

/// Takes in every record behind `from` up to `to`: what a restart does with the log behind its checkpoint. Says how many bytes of
/// entries there were.
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
