//! Lists of queues in slices: commits continue between them.

use quire_model::{History, ResourceKind};

use crate::Result;
use crate::database::Database;
use crate::jobs::{QueueSettings, QueueStats};
use crate::reading::PermittedView;

/// The most queues that one look at the state shows. Writers wait for it, some 100 µs.
const QUEUES_AT_ONCE: usize = 1_000;

impl Database {
    /// Returns the results of `show` for the first `count_max` queues by name. Commits continue in
    /// between, so a queue may be created or deleted while the list is read.
    ///
    /// # Errors
    /// [`ErrorKind::TooCostly`](crate::ErrorKind::TooCostly): each queue takes a step.
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn visit_queues<T>(
        &self,
        count_max: usize,
        mut show: impl FnMut(&str, QueueStats, QueueSettings) -> T,
    ) -> Result<Vec<T>> {
        let (mut shown, mut last) = (Vec::new(), None::<String>);
        loop {
            let few = QUEUES_AT_ONCE.min(count_max - shown.len());
            let look = |view: &PermittedView<'_>| -> Result<Option<String>> {
                let mut end = None;
                for (name, stats) in view.jobs.queues_after(last.as_deref()).take(few) {
                    view.history.claim(1)?;
                    if view.shows(ResourceKind::Queue, name) {
                        shown.push(show(name, stats, view.jobs.queue_settings(name).unwrap_or_default()));
                    }
                    end = Some(name);
                }
                Ok(end.map(str::to_owned))
            };
            match self.read_permitted(look)?.wait()?? {
                Some(end) if shown.len() < count_max => last = Some(end),
                _ => return Ok(shown),
            }
        }
    }

    /// Returns the results of `show` for those of `names` that are queues, by name.
    ///
    /// # Errors
    /// Like [`Database::visit_queues`].
    pub fn visit_queues_named<T>(
        &self,
        mut names: Vec<String>,
        mut show: impl FnMut(&str, QueueStats, QueueSettings) -> T,
    ) -> Result<Vec<T>> {
        names.sort_unstable();
        names.dedup();
        let mut shown = Vec::new();
        for few in names.chunks(QUEUES_AT_ONCE) {
            let look = |view: &PermittedView<'_>| -> Result<()> {
                for name in few {
                    view.history.claim(1)?;
                    if view.shows(ResourceKind::Queue, name)
                        && let Some(stats) = view.jobs.queue_stats(name)
                    {
                        shown.push(show(name, stats, view.jobs.queue_settings(name).unwrap_or_default()));
                    }
                }
                Ok(())
            };
            self.read_permitted(look)?.wait()??;
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, NewJob, StepBudget};

    #[test]
    fn queues_are_listed_in_slices_within_the_steps_of_a_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let mut commit = crate::Commit::new();
        let names: Vec<String> = (0..2 * QUEUES_AT_ONCE + 1).map(|number| format!("q{number:05}")).collect();
        for name in &names {
            commit = commit.enqueue(name, NewJob::new("job"));
        }
        database.commit(&commit).expect("decided").committed().expect("accepted");
        let list = |database: &Database, count_max| {
            database.visit_queues(count_max, |name, stats, _| (name.to_owned(), stats.pending))
        };
        for count_max in [0, 1, QUEUES_AT_ONCE, QUEUES_AT_ONCE + 1, usize::MAX] {
            let listed = list(&database, count_max).expect("listed");
            let expect = names.iter().take(count_max).map(|name| (name.clone(), 1));
            assert_eq!(listed, expect.collect::<Vec<_>>(), "{count_max}");
        }
        let few = database.within(StepBudget::new(1_500));
        assert_eq!(list(&few, usize::MAX).expect_err("too costly").kind(), ErrorKind::TooCostly);
        let asked = vec!["q00007".to_owned(), "none".to_owned(), "q00001".to_owned(), "q00007".to_owned()];
        let found = database.visit_queues_named(asked, |name, _, _| name.to_owned());
        assert_eq!(found.expect("listed"), ["q00001", "q00007"]);
    }
}
