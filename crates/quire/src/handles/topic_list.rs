//! Lists of topics in slices: commits continue between them.

use quire_model::{History, ResourceKind};

use crate::Error;
use crate::database::Database;
use crate::reading::PermittedView;
use crate::streams::TopicInfo;

/// The most topics that one look at the state shows. Writers wait for it, some 100 µs.
const TOPICS_AT_ONCE: usize = 1_000;

impl Database {
    /// Calls `visit` for each topic that the client may see, by name, until it fails. Commits
    /// continue in between, so a topic may be created or deleted while the list is read.
    ///
    /// # Errors
    /// Those of `visit`. [`ErrorKind::TooCostly`](crate::ErrorKind::TooCostly): each topic takes a
    /// step. [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn visit_topics<E: From<Error>>(
        &self,
        mut visit: impl FnMut(TopicInfo<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut from = String::new();
        loop {
            let look = |view: &PermittedView<'_>| -> std::result::Result<Option<String>, E> {
                let (mut last, mut count) = (None, 0);
                for topic in view.streams.topics_from(&from).take(TOPICS_AT_ONCE) {
                    view.history.claim(1).map_err(Error::from)?;
                    (last, count) = (Some(topic.name), count + 1);
                    if view.shows(ResourceKind::Topic, topic.name) {
                        visit(topic)?;
                    }
                }
                // The least name after the last one.
                Ok(last.filter(|_| count == TOPICS_AT_ONCE).map(|last| format!("{last}\0")))
            };
            match self.read_permitted(look)?.wait()?? {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, StepBudget};

    #[test]
    fn topics_are_listed_in_slices_within_the_steps_of_a_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Database::builder(directory.path()).durability(crate::Durability::Os);
        let database = builder.open().expect("a database");
        let names: Vec<String> = (0..2 * TOPICS_AT_ONCE + 1).map(|number| format!("t{number:05}")).collect();
        let list = |database: &Database| {
            let mut listed = Vec::new();
            let visited = database.visit_topics(|topic| -> Result<(), Error> {
                listed.push(topic.name.to_owned());
                Ok(())
            });
            visited.map(|()| listed)
        };
        assert!(list(&database).expect("listed").is_empty());
        for (count, name) in names.iter().enumerate() {
            database.topic(name.as_str()).create(1).expect("created");
            if [TOPICS_AT_ONCE, names.len()].contains(&(count + 1)) {
                assert_eq!(list(&database).expect("listed"), names[..=count]);
            }
        }
        let few = database.within(StepBudget::new(1_500));
        assert_eq!(list(&few).expect_err("too costly").kind(), ErrorKind::TooCostly);
    }

    #[test]
    fn the_partitions_of_a_topic_are_described_in_slices_within_the_steps_of_a_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let topic = database.topic("wide");
        topic.create(2_001).expect("created");
        topic.produce(crate::Message::new("one").partition(1_500)).expect("produced");
        let statistics = topic.statistics().expect("described");
        let numbers = statistics.partitions.iter().map(|partition| partition.partition);
        assert!(numbers.eq(0..2_001));
        let written = statistics.partitions.iter().filter(|partition| partition.next.get() > 0);
        assert_eq!(written.map(|partition| partition.partition).collect::<Vec<_>>(), [1_500]);
        let few = database.within(StepBudget::new(1_500));
        assert_eq!(few.topic("wide").statistics().expect_err("too costly").kind(), ErrorKind::TooCostly);
    }
}
