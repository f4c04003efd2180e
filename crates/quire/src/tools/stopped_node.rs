//! The recovery of a cluster that has lost its majority for good: a stopped node becomes the first
//! node of a new cluster, with all its records.
//!
//! ```text
//! open alone ─▶ sync ─▶ a later term in `office` ─▶ another cluster in `quire.node`  (commit point)
//! ```
//! A crash before the commit point leaves the node in its old cluster. A later term is valid there.
//! After it, the node is a cluster alone, and nodes of the old cluster are refused.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use quire_log::{Background, Damage, Office, Storage, Term};
use quire_model::Position;
use quire_system::{ClusterMember, MemberRole};

use super::finish_receiving;
use crate::builder::Builder;
use crate::database::Database;
use crate::member_file::MemberFile;
use crate::{Error, ErrorKind, OpenedDatabase, Result};

/// How many terms the new cluster begins after the last one that the node has seen. Clients may
/// have seen later terms, of elections without this node. A Kafka client ignores a leader with an
/// earlier term.
const TERMS_SKIPPED: u32 = 1_000;

/// A node of a cluster whose server is stopped. While the value lives, no other process opens the
/// database.
///
/// ```no_run
/// use quire::Database;
/// use quire::tools::StoppedNode;
///
/// let node = StoppedNode::open(Database::builder("data"))?;
/// let report = node.report()?;
/// println!("last record {} of term {}", report.last, report.term);
/// node.recover()?;
/// # Ok::<(), quire::Error>(())
/// ```
#[derive(Debug)]
pub struct StoppedNode {
    database: Database,
    file: MemberFile,
    data: PathBuf,
    storage: Arc<dyn Storage>,
    damage: Vec<Damage>,
}

/// What a stopped node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedNodeReport {
    /// Its number.
    pub node: u64,
    /// The last record that it has on its disk.
    pub last: Position,
    /// The term of that record. Of several nodes, the one with the highest term has the most
    /// acknowledged commits, and of those with the same term the one with the last record.
    pub term: u32,
    /// The other members that it knows, in the order of their numbers.
    pub others: Vec<(u64, ClusterMember)>,
    /// A number that no node has had, as far as it knows.
    pub unused: u64,
    /// The damage that its opening found.
    pub damage: Vec<Damage>,
}

impl StoppedNode {
    /// Opens the node in the directory of `builder`. A torn tail is cut, as by each opening.
    ///
    /// # Errors
    /// * [`ErrorKind::InUse`] while a server has the node open.
    /// * [`ErrorKind::Invalid`] when the database is no node of a cluster.
    /// * Those of [`Builder::open`].
    pub fn open(builder: Builder) -> Result<Self> {
        let (data, storage) = builder.place();
        let (data, storage) = (data.to_owned(), Arc::clone(storage));
        finish_receiving(&data)?;
        let Some(file) = MemberFile::read(&*storage, &data)? else {
            let message = format!("{} is no node of a cluster: there is nothing to recover", data.display());
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let opened = builder.create(false).member(true).background(Background::Caller).open_and_report()?;
        let OpenedDatabase { database, recovery, .. } = opened;
        Ok(StoppedNode { database, file, data, storage, damage: recovery.damage })
    }

    /// Returns what the node has.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] and [`ErrorKind::Io`] when its last record can't be read.
    pub fn report(&self) -> Result<StoppedNodeReport> {
        let shard = self.database.replicated();
        let system = shard.access_state()?.1;
        // Members that were set before the cluster are those of an earlier one.
        let changes = system.member_changes().filter(|(at, ..)| *at > self.file.since);
        let current: BTreeSet<u64> = changes.map(|(_, node, _)| node).collect();
        let is_other = |(node, member): &(u64, &ClusterMember)| {
            *node != self.file.node && member.role != MemberRole::Removed && current.contains(node)
        };
        let others = system.members().filter(is_other).map(|(node, member)| (node, member.clone())).collect();
        let (last, term) = self.last()?;
        let used = system.members().map(|(node, _)| node).chain([self.file.node]).max().unwrap_or_default();
        Ok(StoppedNodeReport {
            node: self.file.node,
            last,
            term: term.get(),
            others,
            unused: used.saturating_add(1),
            damage: self.damage.clone(),
        })
    }

    /// The last record, and its term.
    fn last(&self) -> Result<(Position, Term)> {
        let shard = self.database.replicated();
        let last = shard.log().appended();
        Ok((last, shard.log().mark_at(last)?.map_or(Term::ALONE, |mark| mark.term)))
    }

    /// Makes the node the first one of a new cluster, in which it is alone. Its records and its
    /// number stay. The other members are refused from then on.
    ///
    /// # Errors
    /// * [`ErrorKind::Invalid`] when the node was removed from its cluster.
    /// * [`ErrorKind::Damaged`] when the file of its vote does not verify.
    /// * [`ErrorKind::NoSpace`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    ///
    /// After an error, the node is in its old cluster or in the new one.
    pub fn recover(self) -> Result<()> {
        let shard = self.database.replicated();
        let log = shard.log();
        let own = shard.access_state()?.1.member(self.file.node).map(|member| member.role);
        if own == Some(MemberRole::Removed) {
            let message = format!(
                "node {} was removed from the cluster, and may lack its last commits: recover a member, or make a \
                 cluster of a backup",
                self.file.node
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        // Members that join later rest on these records.
        log.sync()?;
        let (last, term) = self.last()?;
        let seen = log.office()?.map_or(term, |office| office.term.max(term));
        let term = Term::new(seen.get().saturating_add(TERMS_SKIPPED));
        let incarnation = self.file.incarnation;
        log.save_office(&Office { term, vote: None, incarnation, boot: 0, is_clean: false })?;
        let cluster = uuid::Uuid::new_v4().as_u128();
        let file = MemberFile { is_founder: true, cluster, since: last, has_voted: true, ..self.file };
        file.write(&*self.storage, &self.data)
    }
}
