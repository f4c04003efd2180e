//! Reads of the state, and what a client must be permitted for them.
//!
//! ```text
//! read_for(resource, operation) ──▶ the permission is checked, then the state is read
//! read_permitted                ──▶ PermittedView: the read checks what it finds
//! read                          ──▶ the whole state: for the owner, and for administrators
//! ```
//!
//! A read that names no resource is refused to a client. So a front end that forgets the name shows
//! nothing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use quire_model::{DecideError, ModelId, Operation, PermissionRefusal, ReadError, Resource, ResourceKind};
use quire_shard::{CommitRefusal, Guard, NotPermitted, ReadView, Reason};

use crate::database::Database;
use crate::jobs::{BulkId, JobId};
use crate::read_source::ReadSource;
use crate::ticket::Ticket;
use crate::{Error, Result, streams};

/// How long a read of this node waits for a majority to confirm the records that it rests on.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// The state as one client sees it: see [`Database::read_permitted`].
pub struct PermittedView<'v> {
    view: &'v ReadView<'v>,
    guard: Option<&'v Guard>,
}

impl<'v> Deref for PermittedView<'v> {
    type Target = ReadView<'v>;

    fn deref(&self) -> &ReadView<'v> {
        self.view
    }
}

impl fmt::Debug for PermittedView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermittedView").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl<'v> PermittedView<'v> {
    pub(crate) fn new(view: &'v ReadView<'v>, guard: Option<&'v Guard>) -> Self {
        PermittedView { view, guard }
    }
}

impl PermittedView<'_> {
    /// Returns whether the client may perform the operation on the resource of this kind and name.
    pub fn permits(&self, kind: ResourceKind, name: &str, operation: Operation) -> bool {
        self.guard.is_none_or(|guard| guard.permits(Resource::new(kind, name), operation))
    }

    /// Returns whether the client may perform the operation on every resource of the kind.
    pub fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.guard.is_none_or(|guard| guard.permits_every(kind, operation))
    }

    /// Returns whether the client may see that the resource exists. A list omits every other one.
    pub fn shows(&self, kind: ResourceKind, name: &str) -> bool {
        self.permits(kind, name, Operation::Describe)
    }

    /// Returns whether the client may perform the operation on the queue of a job. A job of a
    /// destroyed queue needs the permission for every queue. A client gets the same answer for a
    /// job that it may not see and for one that does not exist.
    ///
    /// # Errors
    /// When the log is unreadable.
    pub fn permits_job(&self, job: JobId, operation: Operation) -> std::result::Result<bool, ReadError> {
        let Some(guard) = self.guard else { return Ok(true) };
        let queue = self.view.jobs.queue_name_of(self.view.history, job)?;
        Ok(match queue {
            Some(queue) => guard.permits(Resource::new(ResourceKind::Queue, queue), operation),
            None => guard.permits_every(ResourceKind::Queue, operation),
        })
    }

    /// Returns whether the client may see a bulk change: it began the bulk change, or it may
    /// describe the queue of the filter, or every queue.
    ///
    /// # Errors
    /// When the log is unreadable.
    pub fn shows_bulk(&self, bulk: BulkId) -> std::result::Result<bool, ReadError> {
        let Some(guard) = self.guard else { return Ok(true) };
        if guard.permits_every(ResourceKind::Queue, Operation::Describe) {
            return Ok(true);
        }
        let Some(origin) = self.view.jobs.bulk_origin(self.view.history, bulk)? else { return Ok(false) };
        let is_own = || {
            let creator = guard.creator();
            creator.is_some_and(|own| origin.creator.is_some_and(|creator| creator.name == own.name))
        };
        Ok(origin.queue.is_some_and(|queue| self.shows(ResourceKind::Queue, &queue)) || is_own())
    }

    /// Notes that the client was refused, where a check by [`PermittedView::permits`] refuses it.
    pub fn note_denial(&self, refusal: &PermissionRefusal) {
        if let Some(guard) = self.guard {
            guard.denied(refusal);
        }
    }

    /// Checks a permission.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted).
    pub fn check(&self, kind: ResourceKind, name: &str, operation: Operation) -> Result<()> {
        check(self.guard, Resource::new(kind, name), operation)
    }

    /// Decides a command on topics or groups as [`ReadView::would`], after a check of the client's
    /// permissions.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted); in the inner result, those of
    /// the commit of this command alone.
    pub fn would(
        &self,
        command: streams::Command<'_>,
    ) -> Result<std::result::Result<streams::Reply, DecideError<streams::Refusal>>> {
        if let Some(guard) = self.guard {
            self.view.check_command(guard, &command).map_err(|refusal| denied(guard, refusal))?;
        }
        Ok(self.view.would(command))
    }
}

impl Database {
    /// Returns the same database for one client: commits and reads of the returned value and of its
    /// handles are refused where `guard` does not permit them.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use quire::{Database, Durability, ErrorKind, Guard, NewJob, Operation, Permissions, Resource, ResourceKind};
    ///
    /// /// May see queues, and nothing else.
    /// #[derive(Debug)]
    /// struct Monitor;
    ///
    /// impl Permissions for Monitor {
    ///     fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
    ///         self.permits_every(resource.kind, operation)
    ///     }
    ///     fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
    ///         false
    ///     }
    ///     fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
    ///         (kind, operation) == (ResourceKind::Queue, Operation::Describe)
    ///     }
    ///     fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool {
    ///         self.permits_every(kind, operation)
    ///     }
    /// }
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// db.queue("mails").enqueue(NewJob::new("order 17"))?;
    /// let monitor = db.guarded(Arc::new(Guard::new(Arc::new(Monitor))));
    /// assert_eq!(monitor.queue("mails").stats()?.expect("it exists").pending, 1);
    /// let refused = monitor.queue("mails").fetch("worker-1", 1).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn guarded(&self, guard: Arc<Guard>) -> Database {
        Database { guard: Some(guard), ..self.clone() }
    }

    /// Returns the guard of [`Database::guarded`]; `None` for the owner of the directory.
    pub fn guard(&self) -> Option<&Arc<Guard>> {
        self.guard.as_ref()
    }

    /// Returns whether the client of this value may perform the operation on the resource. The
    /// owner may do everything.
    pub fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.current_guard().is_ok_and(|guard| guard.is_none_or(|guard| guard.permits(resource, operation)))
    }

    /// Checks that the client of this value may perform the operation on the resource.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted), with the missing permission.
    pub fn check_permission(&self, resource: Resource<'_>, operation: Operation) -> Result<()> {
        check(self.current_guard()?, resource, operation)
    }

    /// Checks that the client of this value may perform the operation on every resource of the
    /// kind.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted).
    pub fn check_every(&self, kind: ResourceKind, operation: Operation) -> Result<()> {
        match self.current_guard()? {
            Some(guard) if !guard.permits_every(kind, operation) => {
                Err(denied(guard, PermissionRefusal::every(kind, operation)))
            }
            _ => Ok(()),
        }
    }

    /// Reads from the state after the last commit. The result is available once the commits that it
    /// depends on are durable.
    ///
    /// Writers wait while `look` runs. `look` should copy its result and return, and must not call
    /// the database.
    ///
    /// ```
    /// use quire::NewJob;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.queue("mails").enqueue(NewJob::new("order 17"))?;
    /// let pending = db.read(|view| view.jobs.queue_stats("mails").map(|stats| stats.pending))?.wait()?;
    /// assert_eq!(pending, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed). A client needs the permission to read the
    /// whole database: [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted).
    pub fn read<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<Ticket<T>> {
        self.read_for(Resource::DATABASE, Operation::Read, look)
    }

    /// Reads from the published log. The result is available at once.
    ///
    /// Use this method for topics and event stores, whose content is all in the log. The view also
    /// shows the state of queues, graphs and consumer groups. That state may include commits that
    /// are not durable yet: use [`Database::read`] for it. Writers wait while `look` runs.
    ///
    /// Trimmed history of an event store or a graph is state, too. A read must not omit history
    /// that a crash could bring back. In a `sync` database, the first read after a trim therefore
    /// waits until that trim is durable.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub fn read_published<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<T> {
        self.read_published_for(Resource::DATABASE, Operation::Read, look)
    }

    /// Reads like [`Database::read`] what belongs to one resource.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted) for a client that may not
    /// perform the operation on the resource; those of [`Database::read`].
    pub fn read_for<T>(
        &self,
        resource: Resource<'_>,
        operation: Operation,
        look: impl FnOnce(&ReadView<'_>) -> T,
    ) -> Result<Ticket<T>> {
        self.check_permission(resource, operation)?;
        self.look(look)
    }

    /// Reads like [`Database::read_published`] what belongs to one resource.
    ///
    /// # Errors
    /// As [`Database::read_for`].
    pub fn read_published_for<T>(
        &self,
        resource: Resource<'_>,
        operation: Operation,
        look: impl FnOnce(&ReadView<'_>) -> T,
    ) -> Result<T> {
        self.check_permission(resource, operation)?;
        self.look_published(look)
    }

    /// Reads like [`Database::read`]. `look` checks every resource that it finds, before it shows
    /// the resource.
    ///
    /// # Errors
    /// Those of [`Database::read`].
    pub fn read_permitted<T>(&self, look: impl FnOnce(&PermittedView<'_>) -> T) -> Result<Ticket<T>> {
        let guard = self.current_guard()?;
        self.look(|view| look(&PermittedView { view, guard }))
    }

    /// Reads like [`Database::read_published`]. `look` checks every resource that it finds, before
    /// it shows the resource.
    ///
    /// # Errors
    /// Those of [`Database::read_published`].
    pub fn read_published_permitted<T>(&self, look: impl FnOnce(&PermittedView<'_>) -> T) -> Result<T> {
        let guard = self.current_guard()?;
        self.look_published(|view| look(&PermittedView { view, guard }))
    }

    /// The guard of the client, brought up to date.
    pub(crate) fn current_guard(&self) -> Result<Option<&Guard>> {
        let Some(guard) = self.guard.as_deref() else { return Ok(None) };
        guard.refresh()?;
        Ok(Some(guard))
    }

    /// Reads without a check, for work of the database itself.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<Ticket<T>> {
        let (shard, budget) = (self.shards.only(), self.budget());
        let ((rests_on, answer), at_most) = match self.reads {
            ReadSource::Leader => (shard.read(budget, look)?, None),
            ReadSource::ThisNode => (shard.read_here(budget, look)?, Some(CONFIRMED_WITHIN)),
        };
        Ok(Ticket::new(shard.log().clone(), rests_on, answer).within(at_most))
    }

    /// Reads the published log without a check, for work of the database itself.
    pub(crate) fn look_published<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> Result<T> {
        match self.reads {
            ReadSource::Leader => self.shards.only().read_published(self.budget(), look),
            ReadSource::ThisNode => self.shards.only().read_published_here(self.budget(), CONFIRMED_WITHIN, look),
        }
    }

    /// Checks that this node answers the reads of this value.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader).
    pub(crate) fn check_reads(&self) -> Result<()> {
        match self.reads {
            ReadSource::Leader => self.shards.only().check_serves(),
            ReadSource::ThisNode => Ok(()),
        }
    }
}

fn check(guard: Option<&Guard>, resource: Resource<'_>, operation: Operation) -> Result<()> {
    match guard {
        Some(guard) if !guard.permits(resource, operation) => {
            Err(denied(guard, PermissionRefusal::new(resource, operation)))
        }
        _ => Ok(()),
    }
}

/// The error of a refusal, which the guard notes.
fn denied(guard: &Guard, refusal: PermissionRefusal) -> Error {
    guard.denied(&refusal);
    let model = match refusal.kind {
        ResourceKind::Topic | ResourceKind::Group | ResourceKind::TransactionalId | ResourceKind::Cluster => {
            ModelId::STREAMS
        }
        ResourceKind::Store => ModelId::EVENTS,
        ResourceKind::Queue => ModelId::JOBS,
        ResourceKind::Graph => ModelId::GRAPH,
        ResourceKind::Space | ResourceKind::Admin => ModelId::SYSTEM,
    };
    let message = refusal.to_string();
    Error::refused(CommitRefusal { part: 0, reason: Reason::NotPermitted(NotPermitted { model, refusal }) }, message)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use quire_shard::Permissions;

    use super::*;
    use crate::events::{EventPosition, NewEvent, Query, ReadOptions};
    use crate::jobs::{Cursor, Filter, JobState, LifeFilter};
    use crate::{Commit, ConsumerSettings, ErrorKind, Message, NewBlock, NewEdge, NewJob, Place, Position, Sequence};

    /// Everything, or everything except one permission, or that one only.
    #[derive(Debug, Clone, Copy)]
    enum Rights {
        AllBut(Resource<'static>, Operation),
        Only(Resource<'static>, Operation),
    }

    impl Permissions for Rights {
        fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
            match *self {
                Rights::AllBut(lacking, of) => (lacking, of) != (resource, operation),
                Rights::Only(given, of) => (given, of) == (resource, operation),
            }
        }

        fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
            false
        }

        fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
            match *self {
                Rights::AllBut(lacking, of) => (lacking.kind, of) != (kind, operation),
                Rights::Only(..) => false,
            }
        }

        fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
            false
        }
    }

    const TOPIC: Resource<'static> = Resource::new(ResourceKind::Topic, "t");
    const GROUP: Resource<'static> = Resource::new(ResourceKind::Group, "g");
    const STORE: Resource<'static> = Resource::new(ResourceKind::Store, "s");
    const QUEUE: Resource<'static> = Resource::new(ResourceKind::Queue, "q");
    const GRAPH: Resource<'static> = Resource::new(ResourceKind::Graph, "r");

    fn filled() -> (tempfile::TempDir, Database) {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let commit = Commit::new()
            .append("s", [NewEvent::new("Happened")])
            .produce("t", Message::new("m"))
            .enqueue("q", NewJob::new("j"))
            .put_block("r", NewBlock::new("a", "airport"))
            .put_block("r", NewBlock::new("b", "airport"))
            .put_edge("r", NewEdge::new("a", "flies_to", "b"));
        database.commit(&commit).expect("decided").committed().expect("accepted");
        database.group("g").commit_position("s", EventPosition::new(1)).expect("committed");
        (directory, database)
    }

    type Call = Box<dyn Fn(&Database) -> Result<()>>;

    fn call<T: Debug>(call: impl Fn(&Database) -> Result<T> + 'static) -> Call {
        Box::new(move |database| call(database).map(drop))
    }

    /// Every read that names its resource, with the permission that it needs.
    fn calls() -> Vec<(&'static str, Resource<'static>, Operation, Call)> {
        use Operation::{Alter, Describe, Read};
        let zero = Sequence::new(0);
        vec![
            ("read", Resource::DATABASE, Read, call(|db| db.read(|_| ())?.wait())),
            ("read_published", Resource::DATABASE, Read, call(|db| db.read_published(|_| ()))),
            ("checkpoint", Resource::DATABASE, Alter, call(Database::checkpoint)),
            ("compact", Resource::DATABASE, Alter, call(Database::compact)),
            ("list of access", Resource::ACCESS, Describe, call(|db| db.access().list())),
            ("topic statistics", TOPIC, Describe, call(|db| db.topic("t").statistics())),
            ("topic offsets", TOPIC, Describe, call(|db| db.topic("t").offsets(0))),
            ("topic at time", TOPIC, Describe, call(|db| db.topic("t").offset_at_time(0, std::time::UNIX_EPOCH))),
            ("topic fetch", TOPIC, Read, call(move |db| db.topic("t").fetch(0, zero, 1 << 20))),
            ("group", GROUP, Describe, call(|db| db.group("g").describe())),
            ("store read", STORE, Read, call(|db| db.events("s").read(&Query::all(), ReadOptions::default()))),
            ("store head", STORE, Describe, call(|db| db.events("s").head())),
            ("store upstream", STORE, Describe, call(|db| db.events("s").upstream("other"))),
            ("store subscriptions", STORE, Describe, call(|db| db.events("s").subscriptions())),
            ("store projections", STORE, Describe, call(|db| db.events("s").projections())),
            ("store event", STORE, Read, call(|db| db.events("s").event_at(EventPosition::new(1)))),
            ("saved projection", STORE, Read, call(|db| db.events("s").projection("p").load_any())),
            ("store statistics", STORE, Describe, call(|db| db.events("s").statistics())),
            ("queue stats", QUEUE, Describe, call(|db| db.queue("q").stats())),
            ("queue rest", QUEUE, Read, call(|db| db.fetch_rest(&["q"]))),
            ("graph snapshot", GRAPH, Read, call(|db| db.graph("r").snapshot())),
            ("graph snapshot at", GRAPH, Read, call(|db| db.graph("r").snapshot_at(Position::new(1)))),
            ("graph read", GRAPH, Read, call(|db| db.graph("r").read(|_, _| ()))),
            (
                "graph changes",
                GRAPH,
                Read,
                call(|db| db.graph("r").changes(Place::START).visit_next(|_| std::ops::ControlFlow::Continue(()))),
            ),
        ]
    }

    fn as_client(database: &Database, rights: Rights) -> Database {
        database.guarded(Arc::new(Guard::new(Arc::new(rights))))
    }

    #[test]
    fn each_read_needs_exactly_its_permission() {
        let (_directory, database) = filled();
        for (name, resource, operation, call) in calls() {
            call(&database).unwrap_or_else(|error| panic!("{name} by the owner: {error}"));
            let only = as_client(&database, Rights::Only(resource, operation));
            call(&only).unwrap_or_else(|error| panic!("{name} with its permission only: {error}"));
            let lacking = as_client(&database, Rights::AllBut(resource, operation));
            let refused = call(&lacking).expect_err(name);
            assert_eq!(refused.kind(), ErrorKind::NotPermitted, "{name}: {refused}");
            let Some(Reason::NotPermitted(missing)) = refused.refusal().map(|refused| &refused.reason) else {
                panic!("{name} names no permission")
            };
            let named = Resource::new(missing.refusal.kind, &missing.refusal.name);
            assert_eq!((named, missing.refusal.operation), (resource, operation), "{name}");
        }
    }

    #[test]
    fn a_subscription_and_a_consumer_are_checked_at_each_read() {
        let (_directory, database) = filled();
        let mut events = database.events("s").subscribe(Query::all(), EventPosition::ZERO).expect("subscribed");
        assert_eq!(events.visit_next(1, 1, |_| ()).expect("read").events, 1);
        let lacking = as_client(&database, Rights::AllBut(STORE, Operation::Read));
        let refused = lacking.events("s").subscribe(Query::all(), EventPosition::ZERO).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::NotPermitted);
        let lacking = as_client(&database, Rights::AllBut(TOPIC, Operation::Read));
        let refused = lacking.topic("t").consumer("g", ConsumerSettings::default()).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    }

    #[test]
    fn lists_omit_what_the_client_may_not_see_and_a_hidden_job_does_not_exist() {
        let (_directory, database) = filled();
        let job = database.queue("q").list(JobState::Pending, None, 1).expect("listed").jobs[0];
        for (operation, is_shown) in [(Operation::Describe, true), (Operation::Read, false)] {
            let lacking = as_client(&database, Rights::AllBut(QUEUE, operation));
            let found = lacking.queue("q").job(job).expect("read");
            assert_eq!(found.is_some(), is_shown);
            let page = lacking.search_jobs(&Filter::default(), None, 10).expect("searched");
            assert_eq!(page.jobs.len(), usize::from(is_shown));
            let queues = lacking.visit_queues(10, |name, _, _| name.to_owned()).expect("listed");
            assert_eq!(queues.len(), usize::from(!is_shown));
            let named = lacking.visit_queues_named(vec!["q".to_owned()], |name, _, _| name.to_owned());
            assert_eq!(named.expect("listed").len(), usize::from(!is_shown));
            let mut life = lacking.life_events(LifeFilter::default(), Cursor::START).expect("begun");
            let mut count = 0;
            let progress = life.visit_next(10, 1 << 20, |_| count += 1).expect("read");
            assert_eq!((progress.events, count > 0), (count, is_shown));
        }
        let hidden = as_client(&database, Rights::AllBut(STORE, Operation::Describe));
        let group = hidden.group("g").describe().expect("read").expect("it exists");
        assert!(group.offsets.is_empty());
        database.topic("t").protect_unread("g", true).expect("protected");
        let hidden = as_client(&database, Rights::AllBut(TOPIC, Operation::Describe));
        assert!(hidden.group("g").describe().expect("read").expect("it exists").protected_in.is_empty());
        let hidden = as_client(&database, Rights::AllBut(GROUP, Operation::Describe));
        assert!(hidden.topic("t").statistics().expect("read").protected_for.is_empty());
        assert_eq!(database.topic("t").statistics().expect("read").protected_for, ["g"]);
        assert_eq!(database.group("g").describe().expect("read").expect("it exists").protected_in, ["t"]);
        assert_eq!(database.group("g").describe().expect("read").expect("it exists").offsets.len(), 1);
    }

    #[test]
    fn changes_of_access_are_commits_of_the_client() {
        let (_directory, database) = filled();
        let lacking = as_client(&database, Rights::AllBut(Resource::ACCESS, Operation::Alter));
        assert_eq!(lacking.access().create_user("ann", &[]).expect_err("refused").kind(), ErrorKind::NotPermitted);
        let only = as_client(&database, Rights::Only(Resource::ACCESS, Operation::Alter));
        only.access().create_user("ann", &[]).expect("permitted");
        assert!(database.access().list().expect("read").users().any(|(name, _)| name == "ann"));
    }
}
