//! Sorts the parts of a commit by model, and returns the replies in the order of the parts.
//!
//! Messages are encoded here, each as a separate batch, before any lock is taken. Commands borrow
//! from the parts.

use quire_shard::{Commands, CommitRefusal, Compressor, NotPermitted, Reason, Replies};
use quire_streams::wire::{Batch, BatchBuilder, Codec};

use crate::commit::{Part, PartModel, TextList, batch_time_ms};
use crate::events::{Append, Condition, NewEvent, Upstream};
use crate::graph::{DeleteBlock, DeleteEdge};
use crate::outcome::Reply;
use crate::streams::{Committer, TopicRef};
use crate::{Result, Timestamp, events, graph, jobs, scratch, streams, system};

/// The encoded messages of a commit, in the order of its parts.
pub(crate) struct EncodedMessages {
    batches: Vec<EncodedMessage>,
}

/// A message as a batch: built, or compressed.
enum EncodedMessage {
    Built(BatchBuilder),
    Compressed(Vec<u8>),
}

impl EncodedMessage {
    fn batch(&mut self) -> Batch<'_> {
        match self {
            EncodedMessage::Built(batch) => batch.finish_without_checksum().expect("a message was added"),
            EncodedMessage::Compressed(bytes) => Batch::stored(bytes),
        }
    }
}

/// The commands of a commit by model, in the order of the parts.
pub(crate) struct CommandsByModel<'c> {
    streams: Vec<streams::Command<'c>>,
    events: Vec<events::Command<'c>>,
    jobs: Vec<jobs::Command<'c>>,
    graph: Vec<graph::Command<'c>>,
    system: Vec<system::Command<'c>>,
}

impl EncodedMessages {
    /// Encodes the messages among the parts.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a message that cannot be encoded.
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
            Ok(smaller.map_or(EncodedMessage::Built(batch), EncodedMessage::Compressed))
        });
        Ok(EncodedMessages { batches: batches.collect::<Result<_>>()? })
    }
}

impl Drop for EncodedMessages {
    fn drop(&mut self) {
        for message in self.batches.drain(..) {
            if let EncodedMessage::Built(batch) = message {
                scratch::keep(batch);
            }
        }
    }
}

/// The tags of jobs and blocks that own their tags, as slices, in the order of the parts.
pub(crate) struct TagSlices<'p>(Vec<Vec<&'p str>>);

impl<'p> TagSlices<'p> {
    pub(crate) fn of(parts: &'p [Part<'_>]) -> Self {
        let listed = |part: &'p Part<'_>| match part {
            Part::Enqueue { job, .. } => job.tags().listed(),
            Part::PutBlock { block, .. } => block.tags().listed(),
            _ => None,
        };
        TagSlices(parts.iter().filter_map(listed).collect())
    }
}

impl<'c> CommandsByModel<'c> {
    /// Sorts the parts of a commit at `now` by model. `encoded` holds the encoded messages of the
    /// parts, and `tags` their tags. `note` completes a command of streams.
    pub(crate) fn by_model(
        parts: &'c [Part<'_>],
        now: Timestamp,
        encoded: &'c mut EncodedMessages,
        tags: &'c TagSlices<'_>,
        note: impl FnMut(&mut streams::Command<'c>) -> Result<()>,
    ) -> Result<Self> {
        let mut batches = encoded.batches.iter_mut();
        let mut tags = tags.0.iter();
        let mut slice = |words: &'c TextList<'_>| match words {
            TextList::Slice(words) => *words,
            TextList::List(_) => tags.next().expect("every list of tags was made a slice"),
        };
        let mut sorted = CommandsByModel {
            streams: Vec::new(),
            events: Vec::new(),
            jobs: Vec::new(),
            graph: Vec::new(),
            system: Vec::new(),
        };
        for part in parts {
            match part {
                Part::Produce { topic, message } => {
                    let batch = batches.next().expect("every message was encoded").batch();
                    sorted.streams.push(message.command(TopicRef::Name(topic), batch));
                }
                Part::CommitOffset { group, topic, partition, offset } => {
                    sorted.streams.push(streams::Command::CommitOffset {
                        group,
                        topic: TopicRef::Name(topic),
                        partition: *partition,
                        offset: *offset,
                        leader_epoch: None,
                        metadata: "",
                        by: Committer::Anyone,
                    });
                }
                Part::Streams(command) => sorted.streams.push(*command),
                Part::Append { store, events, conditions } => {
                    let events = events.iter().map(NewEvent::as_borrowed).collect();
                    let conditions = conditions.iter().map(Condition::as_borrowed).collect();
                    sorted.events.push(events::Command::Append(Append { store, events, conditions }));
                }
                Part::Upstream { store, source, position } => {
                    sorted.events.push(events::Command::Upstream(Upstream { store, source, position: *position }));
                }
                Part::Events(command) => sorted.events.push(command.clone()),
                Part::Enqueue { queue, job } => {
                    sorted.jobs.push(jobs::Command::Enqueue { queue, job: job.view(now, slice(job.tags())) });
                }
                Part::Ack { job, token, result } => {
                    sorted.jobs.push(jobs::Command::Ack { job: *job, token: *token, result });
                }
                Part::Fail { job, token, error, retry } => {
                    sorted.jobs.push(jobs::Command::Fail { job: *job, token: *token, error, retry: retry.at(now) });
                }
                Part::Snooze { job, token, until } => {
                    sorted.jobs.push(jobs::Command::Snooze { job: *job, token: *token, until: until.at(now) });
                }
                Part::Jobs(command) => sorted.jobs.push(*command),
                Part::PutBlock { graph, block } => {
                    sorted.graph.push(graph::Command::PutBlock(block.view(graph, slice(block.tags()))));
                }
                Part::DeleteBlock { graph, block } => {
                    let block = block.view();
                    sorted.graph.push(graph::Command::DeleteBlock(DeleteBlock { graph, block }));
                }
                Part::PutEdge { graph, edge } => sorted.graph.push(graph::Command::PutEdge(edge.view(graph))),
                Part::DeleteEdge { graph, source, edge_type, target } => {
                    let (source, target) = (source.view(), target.view());
                    sorted.graph.push(graph::Command::DeleteEdge(DeleteEdge { graph, source, edge_type, target }));
                }
                Part::Graph(command) => sorted.graph.push(*command),
                Part::System(command) => sorted.system.push(command.clone()),
            }
        }
        sorted.streams.iter_mut().try_for_each(note)?;
        Ok(sorted)
    }

    /// Returns the command of streams at an index.
    pub(crate) fn streams_mut(&mut self, number: usize) -> &mut streams::Command<'c> {
        &mut self.streams[number]
    }

    pub(crate) fn commands(&self) -> Commands<'_, 'c> {
        let CommandsByModel { streams, events, jobs, graph, system } = self;
        Commands { streams, events, jobs, graph, system, ..Commands::default() }
    }
}

/// Returns the replies in the order of the parts.
pub(crate) fn in_order(parts: &[Part<'_>], replies: &mut Replies) -> Vec<Reply> {
    let mut streams = replies.streams.drain(..).map(Reply::Streams);
    let mut events = replies.events.drain(..).map(Reply::Events);
    let mut jobs = replies.jobs.drain(..).map(Reply::Jobs);
    let mut graph = replies.graph.drain(..).map(Reply::Graph);
    let mut system = replies.system.drain(..).map(Reply::System);
    let mut reply = |part: &Part<'_>| match part.model() {
        PartModel::Streams => streams.next(),
        PartModel::Events => events.next(),
        PartModel::Jobs => jobs.next(),
        PartModel::Graph => graph.next(),
        PartModel::System => system.next(),
    };
    parts.iter().map(|part| reply(part).expect("every part has a reply")).collect()
}

/// Returns the index of the part whose command was refused. The index in the refusal counts only
/// the commands of its model.
pub(crate) fn part_of(parts: &[Part<'_>], refused: &CommitRefusal) -> usize {
    let model = match &refused.reason {
        Reason::Streams(_) => PartModel::Streams,
        Reason::Events(_) => PartModel::Events,
        Reason::Jobs(_) => PartModel::Jobs,
        Reason::Graph(_) => PartModel::Graph,
        Reason::System(_) => PartModel::System,
        Reason::Idempotency(_) => return refused.part,
        Reason::NotPermitted(NotPermitted { model, .. }) => PartModel::of(*model),
    };
    let mut of_model = parts.iter().enumerate().filter(|(_, part)| part.model() == model);
    of_model.nth(refused.part).expect("a refused command is a part").0
}
