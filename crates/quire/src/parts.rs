//! The parts of a commit, sorted by model, and the answers put back into their order.
//!
//! Messages are encoded here, each as a batch of its own, before anything is locked.

use quire_shard::{Commands, Compressor, Reason, Refused, Replies};
use quire_streams::wire::{Batch, BatchBuilder, Codec};

use crate::commit::{Part, batch_time_ms};
use crate::outcome::Reply;
use crate::{Result, Timestamp, events, graph, jobs, scratch, streams};

/// The messages of a commit, in the order of its parts.
pub(crate) struct Encoded {
    batches: Vec<Message>,
}

/// A message as a batch: as it was built, or compressed.
enum Message {
    Built(BatchBuilder),
    Compressed(Vec<u8>),
}

impl Message {
    fn batch(&mut self) -> Batch<'_> {
        match self {
            Message::Built(batch) => batch.finish_without_checksum().expect("a message was added"),
            Message::Compressed(bytes) => Batch::stored(bytes),
        }
    }
}

/// The commands of a commit, by model; in each, in the order of the parts.
pub(crate) struct Sorted<'c> {
    streams: Vec<streams::Command<'c>>,
    events: Vec<events::Command<'c>>,
    jobs: Vec<jobs::Command<'c>>,
    graph: Vec<graph::Command<'c>>,
}

impl Encoded {
    /// Encodes the messages among the parts.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for one that can't be.
    pub(crate) fn messages(
        parts: &[Part<'_>],
        now: Timestamp,
        compressor: &Compressor,
        codec_of: impl Fn(&str) -> Result<Codec>,
    ) -> Result<Self> {
        let messages = parts.iter().filter_map(|part| match part {
            Part::Produce { topic, message } => Some((topic, message)),
            _ => None,
        });
        let batches = messages.map(|(topic, message)| {
            let mut batch = scratch::builder();
            message.add_to(&mut batch, batch_time_ms(now))?;
            let built = batch.finish_without_checksum().expect("a message was added");
            let smaller = compressor.produced(built, codec_of(topic)?)?;
            Ok(smaller.map_or(Message::Built(batch), Message::Compressed))
        });
        Ok(Encoded { batches: batches.collect::<Result<_>>()? })
    }
}

impl Drop for Encoded {
    fn drop(&mut self) {
        for message in self.batches.drain(..) {
            if let Message::Built(batch) = message {
                scratch::keep(batch);
            }
        }
    }
}

impl<'c> Sorted<'c> {
    /// Sorts the parts; `encoded` are their messages, and `note` completes a command of streams.
    pub(crate) fn by_model(
        parts: &[Part<'c>],
        encoded: &'c mut Encoded,
        note: impl FnMut(&mut streams::Command<'c>) -> Result<()>,
    ) -> Result<Self> {
        let mut batches = encoded.batches.iter_mut();
        let mut sorted = Sorted { streams: Vec::new(), events: Vec::new(), jobs: Vec::new(), graph: Vec::new() };
        for part in parts {
            match part {
                Part::Produce { topic, message } => {
                    let batch = batches.next().expect("every message was encoded").batch();
                    sorted.streams.push(message.command(streams::TopicRef::Name(topic), batch));
                }
                Part::Streams(command) => sorted.streams.push(*command),
                Part::Events(command) => sorted.events.push(command.clone()),
                Part::Jobs(command) => sorted.jobs.push(*command),
                Part::Graph(command) => sorted.graph.push(*command),
            }
        }
        sorted.streams.iter_mut().try_for_each(note)?;
        Ok(sorted)
    }

    /// A command of streams, by its number among them.
    pub(crate) fn streams_mut(&mut self, number: usize) -> &mut streams::Command<'c> {
        &mut self.streams[number]
    }

    pub(crate) fn commands(&self) -> Commands<'_, 'c> {
        Commands { streams: &self.streams, events: &self.events, jobs: &self.jobs, graph: &self.graph }
    }
}

/// The replies, in the order of the parts.
pub(crate) fn in_order(parts: &[Part<'_>], replies: &mut Replies) -> Vec<Reply> {
    let mut streams = replies.streams.drain(..).map(Reply::Streams);
    let mut events = replies.events.drain(..).map(Reply::Events);
    let mut jobs = replies.jobs.drain(..).map(Reply::Jobs);
    let mut graph = replies.graph.drain(..).map(Reply::Graph);
    let mut reply = |part: &Part<'_>| match part {
        Part::Produce { .. } | Part::Streams(_) => streams.next(),
        Part::Events(_) => events.next(),
        Part::Jobs(_) => jobs.next(),
        Part::Graph(_) => graph.next(),
    };
    parts.iter().map(|part| reply(part).expect("every part was answered")).collect()
}

/// The part that the refused command of a model was.
pub(crate) fn part_of(parts: &[Part<'_>], refused: &Refused) -> usize {
    let same_model = |part: &Part<'_>| match refused.reason {
        Reason::Streams(_) => matches!(part, Part::Produce { .. } | Part::Streams(_)),
        Reason::Events(_) => matches!(part, Part::Events(_)),
        Reason::Jobs(_) => matches!(part, Part::Jobs(_)),
        Reason::Graph(_) => matches!(part, Part::Graph(_)),
    };
    let mut of_model = parts.iter().enumerate().filter(|(_, part)| same_model(part));
    of_model.nth(refused.part).expect("a refused command is a part").0
}
