//! Decides on topics: resolves the topic of a command, changes settings, deletes records and
//! topics.

use alloc::string::String;

use quire_model::{ResourceClaim, Sequence};

use super::added::TopicShape;
use super::check::check_partition;
use super::produce::BatchTerms;
use super::{Draft, Stop};
use crate::codec::{RECORDS_DELETED, StartBody, TOPIC_ALTERED, TOPIC_CREATED, TopicBody};
use crate::name::check_topic;
use crate::tag::topic_tag;
use crate::{
    KeptSettings, PARTITIONS_MAX, Partition, RecordsDeleted, Refusal, Reply, TopicAltered, TopicId, TopicRef,
    TopicSettings,
};

impl<'c> Draft<'_, 'c> {
    /// Returns the topic's id and shape.
    pub(super) fn topic(&self, topic: TopicRef<'c>) -> Option<(TopicId, TopicShape)> {
        self.of_topic(topic, |partitions, settings, kept| TopicShape {
            partitions,
            settings: *settings,
            kept: kept.clone(),
        })
    }

    /// Returns the topic's id and a part of its shape: returning the whole shape takes longer than
    /// finding the part.
    #[inline(always)]
    fn of_topic<T>(
        &self,
        topic: TopicRef<'c>,
        of: impl FnOnce(u32, &TopicSettings, &KeptSettings) -> T,
    ) -> Option<(TopicId, T)> {
        let id = match topic {
            TopicRef::Id(id) => id.get(),
            TopicRef::Name(name) => self.added().topics.id(name, &self.state.topics)?,
            TopicRef::Outside(_) => return None,
        };
        if self.added().topics.gone.contains(&id) {
            return None;
        }
        let (partitions, settings, kept) = match self.added().altered.get(&TopicId::new(id)) {
            Some(altered) => (altered.partitions, &altered.settings, &altered.kept),
            None => match self.state.topics.get(id) {
                Some((_, topic)) => (topic.partitions, &topic.settings, &topic.kept),
                None => {
                    let created = self.added().topics.get(id, &self.state.topics)?;
                    (created.partitions, &created.settings, &created.kept)
                }
            },
        };
        Some((TopicId::new(id), of(partitions, settings, kept)))
    }

    /// The topic's id and its terms for batches; creates an unknown topic.
    ///
    /// Inlined into registers: a struct of bytes and words that returns through memory causes a
    /// stall.
    #[inline(always)]
    pub(super) fn terms_or_create(
        &mut self,
        topic: TopicRef<'c>,
        create_partitions: Option<u32>,
    ) -> Result<(TopicId, BatchTerms), Refusal> {
        if let Some(found) = self.of_topic(topic, |partitions, settings, _| BatchTerms::of(partitions, settings)) {
            return Ok(found);
        }
        let (id, shape) = self.topic_or_create(topic, create_partitions)?;
        Ok((id, BatchTerms::of(shape.partitions, &shape.settings)))
    }

    pub(super) fn topic_or_create(
        &mut self,
        topic: TopicRef<'c>,
        create_partitions: Option<u32>,
    ) -> Result<(TopicId, TopicShape), Refusal> {
        if let Some(found) = self.topic(topic) {
            return Ok(found);
        }
        match (topic, create_partitions) {
            (TopicRef::Name(name), Some(partitions)) => {
                let (settings, kept) = (TopicSettings::default(), KeptSettings::default());
                let shape = TopicShape { partitions, settings, kept };
                Ok((self.create_topic(name, shape.clone())?, shape))
            }
            // An invalid topic name is distinguished from an unknown topic.
            (TopicRef::Name(name), None) => match check_topic(name) {
                Ok(()) => Err(Refusal::UnknownTopic { name: String::from(name) }),
                Err(problem) => Err(Refusal::InvalidTopicName(problem)),
            },
            (TopicRef::Id(topic), _) => Err(Refusal::UnknownTopicId { topic }),
            (TopicRef::Outside(number), _) => Err(Refusal::UnknownTopicId { topic: TopicId::outside(number) }),
        }
    }

    pub(super) fn create_topic(&mut self, name: &'c str, shape: TopicShape) -> Result<TopicId, Refusal> {
        check_topic(name).map_err(Refusal::InvalidTopicName)?;
        check_shape(&shape)?;
        self.effects.claim(ResourceClaim::Topic { name, partitions: shape.partitions })?;
        let state = self.state;
        let topic = TopicId::new(self.add().topics.add(name, shape.clone(), &state.topics));
        let TopicShape { partitions, settings, kept } = shape;
        let body = TopicBody { topic, partitions, settings, kept, name }.encode();
        self.push_alone(TOPIC_CREATED, &topic_tag(topic), body.as_slice());
        Ok(topic)
    }

    /// Gives a topic another shape. It has as many partitions as before, or `more` of them.
    pub(super) fn alter(&mut self, topic: TopicId, shape: TopicShape, more: u32) -> Result<Reply, Stop> {
        check_shape(&shape)?;
        if more > 0 {
            self.effects.claim(ResourceClaim::Partitions(more)).map_err(Refusal::Claim)?;
        }
        self.add().altered.insert(topic, shape.clone());
        let TopicShape { partitions, settings, kept } = shape;
        self.share_out_anew(topic, partitions);
        let body = TopicBody { topic, partitions, settings, kept, name: "" }.encode();
        self.push_alone(TOPIC_ALTERED, &topic_tag(topic), body.as_slice());
        Ok(Reply::TopicAltered(TopicAltered { topic, partitions, settings }))
    }

    pub(super) fn delete_records(
        &mut self,
        topic: TopicRef<'c>,
        partition: u32,
        before: Option<Sequence>,
        keep_unread: bool,
    ) -> Result<Reply, Stop> {
        let (topic, shape) = self.topic_or_create(topic, None)?;
        check_partition(topic, partition, shape.partitions)?;
        let stored = self.state.topics.get(topic.get()).map(|(_, topic)| topic);
        let has_holes = stored.is_some_and(|topic| topic.has_holes);
        let before_commit = || stored.map(|topic| topic.start(partition));
        let known = self.added().starts.get(&(topic, partition)).copied().or_else(before_commit).unwrap_or_default();
        let offsets = Partition::new(topic, partition, known, has_holes).offsets(self.history)?;
        let next = self.added().ends.get(&(topic, partition)).copied().unwrap_or(offsets.next);
        let before = before.unwrap_or(next);
        if before > next {
            return Err(Refusal::BeyondEnd { before, next }.into());
        }
        let unread = if keep_unread { self.unread_from(topic, partition) } else { None };
        let start = unread.map_or(before, |unread| unread.min(before)).max(offsets.start);
        if start > known {
            let body = StartBody { topic, partition, start }.encode();
            self.push_alone(RECORDS_DELETED, &topic_tag(topic), body.as_slice());
            self.add().starts.insert((topic, partition), start);
        }
        Ok(Reply::RecordsDeleted(RecordsDeleted { topic, partition, start }))
    }
}

pub(super) fn check_shape(shape: &TopicShape) -> Result<(), Refusal> {
    let TopicShape { partitions, settings, .. } = *shape;
    if !(1..=PARTITIONS_MAX).contains(&partitions) {
        return Err(Refusal::InvalidPartitionCount { partitions });
    }
    if settings.batch_bytes_max == 0 {
        return Err(Refusal::InvalidSettings { setting: "batch_bytes_max" });
    }
    Ok(())
}
