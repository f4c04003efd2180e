//! Claims: the names and limited resources that a commit takes, which all models share.
//!
//! A claim is decided under the turn, against the state before the commit and the earlier claims of
//! the commit. So two commits never take one topic name, even from different processes. The limits
//! are settings of the process that commits; a replay claims nothing and refuses nothing.

use std::collections::{BTreeMap, BTreeSet};

use quire_model::codec::Encoder;
use quire_model::{
    At, BodyChecksum, ClaimLimit, ClaimRefusal, Creator, Effects, NameKind, NewEntry, PermissionRefusal, Place,
    Placement, Release, ResourceClaim, Touch,
};

use crate::audit::{AUDIT_STORE, AUDIT_TOPIC};
use crate::creators::CreatorRules;
use crate::models::Models;
use crate::permitted::Guard;
use crate::topic_names::{is_queue_topic, is_topic_of_queue, owners, topic_name};

/// The most of each thing that a commit may leave in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLimits {
    /// Partitions of all topics.
    pub partitions_max: u64,
    /// Consumer groups.
    pub groups_max: u64,
    /// Bytes of committed offsets: 96 for each, and those of its note.
    pub offset_bytes_max: u64,
    /// Event stores.
    pub stores_max: u64,
    /// Queues.
    pub queues_max: u64,
    /// Graphs.
    pub graphs_max: u64,
    /// Bytes of jobs in memory, with the names of their groups and their keys.
    pub job_bytes_max: u64,
    /// Bytes of sources, saved projections, forgotten tags and subscriptions of event stores in
    /// memory.
    pub store_bytes_max: u64,
}

impl Default for NameLimits {
    fn default() -> Self {
        NameLimits {
            partitions_max: 200_000,
            groups_max: 100_000,
            offset_bytes_max: 256 << 20,
            stores_max: 1_000_000,
            // An idle queue takes about 400 bytes.
            queues_max: 1_000_000,
            graphs_max: 100_000,
            job_bytes_max: 512 << 20,
            store_bytes_max: 256 << 20,
        }
    }
}

impl NameLimits {
    /// The value of a limit.
    pub fn of(&self, limit: ClaimLimit) -> u64 {
        match limit {
            ClaimLimit::Partitions => self.partitions_max,
            ClaimLimit::Groups => self.groups_max,
            ClaimLimit::OffsetBytes => self.offset_bytes_max,
            ClaimLimit::Stores => self.stores_max,
            ClaimLimit::Queues => self.queues_max,
            ClaimLimit::Graphs => self.graphs_max,
            ClaimLimit::JobBytes => self.job_bytes_max,
            ClaimLimit::StoreBytes => self.store_bytes_max,
        }
    }
}

/// The number of things that a limit counts.
pub(crate) fn count(models: &Models, limit: ClaimLimit) -> u64 {
    match limit {
        ClaimLimit::Partitions => models.streams.partition_count(),
        ClaimLimit::Groups => models.streams.group_count(),
        ClaimLimit::OffsetBytes => models.streams.offset_bytes(),
        ClaimLimit::Stores => models.events.count(),
        ClaimLimit::Queues => models.jobs.queue_count(),
        ClaimLimit::Graphs => models.graphs.count(),
        ClaimLimit::JobBytes => models.jobs.memory_bytes(),
        ClaimLimit::StoreBytes => models.events.memory_bytes(),
    }
}

/// The claims of one commit.
#[derive(Debug)]
pub(crate) struct Claims<'s> {
    models: &'s Models,
    limits: &'s NameLimits,
    /// What the commit takes, minus what it releases. By limit, in the order of
    /// [`ClaimLimit::ALL`].
    counts: [i64; ClaimLimit::ALL.len()],
    /// Most commits take no names.
    granted: Option<Box<ClaimGrants>>,
}

#[derive(Debug, Default)]
struct ClaimGrants {
    /// Topic names that the commit takes.
    names: BTreeMap<String, (NameKind, String)>,
    /// Objects that the commit deletes.
    released: BTreeSet<(NameKind, String)>,
}

impl<'s> Claims<'s> {
    pub(crate) fn new(models: &'s Models, limits: &'s NameLimits) -> Self {
        Claims { models, limits, counts: [0; ClaimLimit::ALL.len()], granted: None }
    }

    /// Grants or refuses a claim.
    pub(crate) fn claim(&mut self, claim: ResourceClaim<'_>) -> Result<(), ClaimRefusal> {
        match claim {
            ResourceClaim::Topic { name, partitions } => {
                self.check_count(ClaimLimit::Partitions, partitions.into())?;
                self.take_name(NameKind::Topic, name)?;
                self.add(ClaimLimit::Partitions, partitions.into());
            }
            ResourceClaim::Partitions(more) => self.count(ClaimLimit::Partitions, more.into())?,
            ResourceClaim::Group => self.count(ClaimLimit::Groups, 1)?,
            ResourceClaim::OffsetBytes(more) => self.count(ClaimLimit::OffsetBytes, more)?,
            ResourceClaim::Store(name) => {
                // A change of access needs its audit event, also in a database full of stores.
                if name != AUDIT_STORE {
                    self.check_count(ClaimLimit::Stores, 1)?;
                }
                self.take_name(NameKind::Store, name)?;
                self.add(ClaimLimit::Stores, 1);
            }
            ResourceClaim::Queue(name) => {
                self.check_count(ClaimLimit::Queues, 1)?;
                self.take_name(NameKind::Queue, name)?;
                self.add(ClaimLimit::Queues, 1);
            }
            ResourceClaim::Delivery(queue) => self.take_name(NameKind::Queue, queue)?,
            ResourceClaim::Graph => self.count(ClaimLimit::Graphs, 1)?,
            ResourceClaim::JobBytes(more) => self.count(ClaimLimit::JobBytes, more)?,
            ResourceClaim::StoreBytes(more) => self.count(ClaimLimit::StoreBytes, more)?,
        }
        Ok(())
    }

    /// Releases a name or resource that a command frees.
    pub(crate) fn release(&mut self, release: Release<'_>) {
        let (limit, count, object) = match release {
            Release::Topic { name, partitions } => {
                (ClaimLimit::Partitions, i64::from(partitions), Some((NameKind::Topic, name)))
            }
            Release::Group => (ClaimLimit::Groups, 1, None),
            Release::Queue(name) => (ClaimLimit::Queues, 1, Some((NameKind::Queue, name))),
            Release::JobBytes(bytes) => (ClaimLimit::JobBytes, i64::try_from(bytes).unwrap_or(i64::MAX), None),
            Release::StoreBytes(bytes) => (ClaimLimit::StoreBytes, i64::try_from(bytes).unwrap_or(i64::MAX), None),
        };
        self.add(limit, -count);
        if let Some((kind, name)) = object {
            let granted = self.granted.get_or_insert_default();
            let object = (kind, name.to_owned());
            if let Some(topic) = topic_name(kind, name)
                && granted.names.get(&topic) == Some(&object)
            {
                granted.names.remove(&topic);
            }
            granted.released.insert(object);
        }
    }

    fn count(&mut self, limit: ClaimLimit, more: u64) -> Result<(), ClaimRefusal> {
        self.check_count(limit, more)?;
        self.add(limit, i64::try_from(more).unwrap_or(i64::MAX));
        Ok(())
    }

    fn check_count(&self, limit: ClaimLimit, more: u64) -> Result<(), ClaimRefusal> {
        let count = count(self.models, limit).saturating_add_signed(self.counts[limit as usize]);
        let count_max = self.limits.of(limit);
        if count.saturating_add(more) > count_max {
            return Err(ClaimRefusal::OverLimit { limit, count, more, count_max });
        }
        Ok(())
    }

    fn add(&mut self, limit: ClaimLimit, more: i64) {
        self.counts[limit as usize] += more;
    }

    /// Takes the topic name of an object, unless another object has it.
    fn take_name(&mut self, kind: NameKind, name: &str) -> Result<(), ClaimRefusal> {
        let Some(topic) = topic_name(kind, name) else { return Ok(()) };
        let is_own = |owner: (NameKind, &str)| owner == (kind, name);
        if topic == AUDIT_TOPIC && !is_own((NameKind::Store, AUDIT_STORE)) {
            return Err(ClaimRefusal::taken(&topic, NameKind::Store, AUDIT_STORE));
        }
        let granted = self.granted.as_deref();
        if let Some((owner, owner_name)) = granted.and_then(|granted| granted.names.get(&topic))
            && !is_own((*owner, owner_name))
        {
            return Err(ClaimRefusal::taken(&topic, *owner, owner_name));
        }
        // One lookup for each part: a commit may delete and create thousands of objects.
        let is_released = |owner: &(NameKind, String)| granted.is_some_and(|granted| granted.released.contains(owner));
        let objects = owners(self.models, &topic).map(|owner| (owner.kind(), owner.name().to_owned()));
        // A subscription has the name of its queue before its first event creates the queue.
        let subscriptions = is_queue_topic(&topic).then(|| self.models.events.subscriptions());
        let subscriptions = subscriptions.into_iter().flatten().filter(|(queue, _)| is_topic_of_queue(&topic, queue));
        let subscriptions = subscriptions.map(|(queue, _)| (NameKind::Queue, queue.to_owned()));
        let mut taken = objects.filter(|owner| !is_released(owner)).chain(subscriptions);
        if let Some((owner, owner_name)) = taken.find(|(kind, name)| !is_own((*kind, name.as_str()))) {
            return Err(ClaimRefusal::taken(&topic, owner, &owner_name));
        }
        drop(taken);
        self.granted.get_or_insert_default().names.insert(topic, (kind, name.to_owned()));
        Ok(())
    }
}

/// The effects of a commit, with the claims of its commands.
pub(crate) struct ClaimingEffects<'e, E> {
    draft: &'e mut E,
    claims: Claims<'e>,
    guard: Option<&'e Guard>,
    creators: &'e CreatorRules,
}

impl<'e, E: Effects> ClaimingEffects<'e, E> {
    /// `guard` is the guard of the client that commits; `None` for the owner.
    pub(crate) fn new(
        draft: &'e mut E,
        claims: Claims<'e>,
        guard: Option<&'e Guard>,
        creators: &'e CreatorRules,
    ) -> Self {
        ClaimingEffects { draft, claims, guard, creators }
    }
}

impl<E: Effects> Effects for ClaimingEffects<'_, E> {
    #[inline]
    fn at(&self) -> At {
        self.draft.at()
    }

    #[inline]
    fn next_place(&self) -> Place {
        self.draft.next_place()
    }

    #[inline]
    fn push(&mut self, entry: NewEntry<'_>) -> Placement {
        self.draft.push(entry)
    }

    #[inline]
    fn push_covered(&mut self, entry: NewEntry<'_>, covered: BodyChecksum) -> Placement {
        self.draft.push_covered(entry, covered)
    }

    fn claim(&mut self, claim: ResourceClaim<'_>) -> Result<(), ClaimRefusal> {
        self.claims.claim(claim)
    }

    fn permit(&self, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        self.guard.map_or(Ok(()), |guard| guard.check(self.claims.models, touch))
    }

    fn creator(&self) -> Option<Creator> {
        self.guard.and_then(Guard::creator)
    }

    fn admits(&self, creator: &Creator) -> bool {
        self.creators.admits(&self.claims.models.system, creator)
    }

    fn permit_creator(&self, creator: &Creator, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        let guard = self.creators.guard(&self.claims.models.system, creator);
        guard.map_or(Ok(()), |guard| guard.check(self.claims.models, touch))
    }

    fn release(&mut self, release: Release<'_>) {
        self.claims.release(release);
    }

    #[inline]
    fn scratch(&mut self) -> Encoder {
        self.draft.scratch()
    }

    #[inline]
    fn keep(&mut self, scratch: Encoder) {
        self.draft.keep(scratch);
    }
}
