//! What a node of a cluster knows of the others, for front ends.

use std::sync::Arc;
use std::time::Duration;

use quire_model::Position;
use quire_shard::{ClusterControl, NodeOffice};
use quire_system::{ClusterMember, MemberRole};

use crate::Result;
use crate::database::Database;
use crate::read_source::ReadSource;
use crate::reading::PermittedView;

/// The cluster of a database, as its node knows it. The members are those of the last record, which
/// may not be published yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// This node, the term and the leader.
    pub office: NodeOffice,
    /// Whether this node leads and serves clients.
    pub serves: bool,
    /// The members that are not removed, in the order of their numbers.
    pub members: Vec<(u64, ClusterMember)>,
}

impl ClusterView {
    /// The leader, if it is known.
    pub fn leader(&self) -> Option<&ClusterMember> {
        let leader = self.office.leader?;
        self.members.iter().find(|(node, _)| *node == leader).map(|(_, member)| member)
    }
}

impl Database {
    /// Returns the same database for reads of this node of a cluster. This node answers reads of
    /// the returned value and of its handles, also where another node leads or none does.
    ///
    /// Such a read shows published commits only, and the last ones may be missing. It fails with
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) when it rests on records that no
    /// majority confirms within 5 seconds. Commits need the leader as before. Reads of a database
    /// without other nodes do not change.
    ///
    /// ```
    /// use quire::NewJob;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.queue("mails").enqueue(NewJob::new("order 17"))?;
    /// assert_eq!(db.local().queue("mails").stats()?.expect("it exists").pending, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn local(&self) -> Database {
        let reads = if self.shards.only().is_member() { ReadSource::ThisNode } else { self.reads };
        Database { reads, ..self.clone() }
    }

    /// Waits up to `at_most` until this node has published `position`, and returns
    /// [`Database::local`]: its reads show that commit and all earlier ones. `None` when the
    /// position is not published in time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::NewJob;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.queue("mails").enqueue(NewJob::new("order 17"))?;
    /// let position = db.published();
    /// let seen = db.local_at(position, Duration::from_secs(1))?.expect("it is published");
    /// assert_eq!(seen.queue("mails").stats()?.expect("it exists").pending, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn local_at(&self, position: Position, at_most: Duration) -> Result<Option<Database>> {
        Ok(self.shards.only().wait(position, at_most)?.then(|| self.local()))
    }

    /// Whether this node has records that are not published yet. On a node without connections,
    /// they may never be.
    #[doc(hidden)]
    pub fn has_unpublished(&self) -> bool {
        let log = self.shards.only().log();
        log.appended() > log.published()
    }

    /// Whether this database serves clients: it is alone, or the leader of its cluster.
    #[doc(hidden)]
    #[inline]
    pub fn serves(&self) -> bool {
        self.shards.only().check_serves().is_ok()
    }

    /// The term of the cluster; `None` for a database alone.
    #[doc(hidden)]
    pub fn term(&self) -> Option<u32> {
        Some(self.shards.only().node()?.term.get())
    }

    /// The node of the cluster that drives this database, if there is one.
    #[doc(hidden)]
    pub fn cluster_control(&self) -> Option<Arc<dyn ClusterControl>> {
        self.shards.only().cluster_control()
    }

    /// Reads the state of this node, also where it does not lead. Its last commits may be
    /// unpublished, and others may be missing. `look` checks every resource that it finds,
    /// before it shows the resource.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    #[doc(hidden)]
    pub fn read_local_permitted<T>(&self, look: impl FnOnce(&PermittedView<'_>) -> T) -> Result<T> {
        let guard = self.current_guard()?;
        self.shards.only().read_local(|view| look(&PermittedView::new(view, guard)))
    }

    /// Returns the cluster of this database; `None` for a database alone.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    #[doc(hidden)]
    pub fn cluster(&self) -> Result<Option<ClusterView>> {
        let shard = self.replicated();
        let Some(office) = shard.node() else { return Ok(None) };
        let system = shard.access_state()?.1;
        let members = system.members().filter(|(_, member)| member.role != MemberRole::Removed);
        let members = members.map(|(node, member)| (node, member.clone())).collect();
        Ok(Some(ClusterView { office, serves: shard.check_serves().is_ok(), members }))
    }
}
