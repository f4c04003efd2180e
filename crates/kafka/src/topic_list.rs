//! The list of all topics, for the requests that name none. It is read a few topics at a time, so
//! that commits continue in between.

use quire::{PermittedView, TopicOwner};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::pause::STEPS_AT_ONCE;
use crate::topics::{KafkaTopic, of_owner};

/// The kinds of objects that are topics, in the order of the list.
#[derive(Debug, Clone, Copy)]
enum TopicSource {
    Topics,
    Stores,
    Queues,
}

/// Reads every topic: real ones, then event stores, then queues.
#[derive(Debug)]
pub(crate) struct TopicList {
    /// The next source, and the name from which on it is read. `None` at the end.
    next: Option<(TopicSource, String)>,
}

impl TopicList {
    /// Begins the list.
    pub(crate) fn new() -> Self {
        TopicList { next: Some((TopicSource::Topics, String::new())) }
    }

    /// Returns what `show` makes of the next few topics; `None` at the end.
    ///
    /// # Errors
    /// When the database has failed. The inner error is that of [`RequestItems::look`].
    pub(crate) async fn next<T>(
        &mut self,
        broker: &Broker,
        items: &mut RequestItems,
        mut show: impl FnMut(&PermittedView<'_>, KafkaTopic) -> Option<T>,
    ) -> Result<Result<Option<Vec<T>>, KafkaError>, CloseReason> {
        let Some((source, from)) = self.next.take() else { return Ok(Ok(None)) };
        if let Err(failure) = items.look(STEPS_AT_ONCE).await {
            return Ok(Err(failure));
        }
        let (mut few, mut looked_at, mut last) = (Vec::new(), 0, None);
        let read = broker.read_of_node(|database, view| {
            let mut take = |owner: TopicOwner<'_>| {
                looked_at += 1;
                last = Some(owner.name().to_owned());
                few.extend(of_owner(database, view, &owner).and_then(|topic| show(view, topic)));
            };
            match source {
                TopicSource::Topics => {
                    view.streams.topics_from(&from).take(STEPS_AT_ONCE).map(TopicOwner::Topic).for_each(&mut take);
                }
                TopicSource::Stores => {
                    let stores = view.events.stores_from(&from).take(STEPS_AT_ONCE);
                    stores.map(|(name, number)| TopicOwner::Store(name, number)).for_each(&mut take);
                }
                TopicSource::Queues => {
                    let queues = view.jobs.queue_logs_from(&from).take(STEPS_AT_ONCE);
                    queues.map(TopicOwner::Queue).for_each(&mut take);
                }
            }
        });
        read.map_err(|_| CloseReason::Failed)?;
        self.next = match (source, last) {
            // The least name after the last one.
            (source, Some(last)) if looked_at == STEPS_AT_ONCE => Some((source, format!("{last}\0"))),
            (TopicSource::Topics, _) => Some((TopicSource::Stores, String::new())),
            (TopicSource::Stores, _) => Some((TopicSource::Queues, String::new())),
            (TopicSource::Queues, _) => None,
        };
        Ok(Ok(Some(few)))
    }
}
