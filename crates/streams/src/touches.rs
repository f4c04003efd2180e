//! The resources that a command touches.

use quire_model::{Operation, Resource, ResourceKind, Touch, TouchTarget};

use crate::{Command, Streams, TopicRef};

impl Streams {
    /// See [`Model::touches`](quire_model::Model::touches). Every command names its topic and its
    /// group, so no history is read.
    pub(crate) fn touched(&self, command: &Command<'_>, touch: &mut dyn FnMut(Touch<'_>)) {
        use Operation::{Alter, AlterConfigs, Create, Delete, IdempotentWrite, Read, Write};
        match *command {
            Command::CreateTopic { name, .. } => touch(Touch::named(ResourceKind::Topic, name, Create)),
            Command::DeleteTopic { topic } => self.touch_topic(topic, Delete, touch),
            Command::AlterTopic { topic, .. } | Command::KeepSettings { topic, .. } => {
                self.touch_topic(topic, AlterConfigs, touch);
            }
            Command::AddPartitions { topic, .. } => self.touch_topic(topic, Alter, touch),
            Command::DeleteRecords { topic, .. } => self.touch_topic(topic, Delete, touch),
            Command::InitProducer => {
                touch(Touch { target: TouchTarget::Named(Resource::CLUSTER), operation: IdempotentWrite });
            }
            Command::Produce { topic, create_partitions, .. }
            | Command::ProduceByKey { topic, create_partitions, .. } => {
                self.touch_topic(topic, Write, touch);
                if create_partitions.is_some()
                    && let TopicRef::Name(name) = topic
                    && self.topic_named(name).is_none()
                {
                    touch(Touch::named(ResourceKind::Topic, name, Create));
                }
            }
            Command::CommitOffset { group, topic, .. }
            | Command::JoinGroup { group, topic, .. }
            | Command::RenewMember { group, topic, .. } => {
                touch(Touch::named(ResourceKind::Group, group, Read));
                self.touch_topic(topic, Read, touch);
            }
            Command::ProtectUnread { group, topic, .. } => {
                touch(Touch::named(ResourceKind::Group, group, Read));
                self.touch_topic(topic, AlterConfigs, touch);
            }
            Command::DeleteOffset { group, topic, .. } => {
                touch(Touch::named(ResourceKind::Group, group, Delete));
                self.touch_topic(topic, Read, touch);
            }
            Command::LeaveGroup { group, .. }
            | Command::BeginGeneration { group, .. }
            | Command::ReplaceMember { group, .. } => touch(Touch::named(ResourceKind::Group, group, Read)),
            Command::DeleteGroup { group, .. } => touch(Touch::named(ResourceKind::Group, group, Delete)),
        }
    }

    fn touch_topic(&self, topic: TopicRef<'_>, operation: Operation, touch: &mut dyn FnMut(Touch<'_>)) {
        match topic {
            TopicRef::Name(name) => touch(Touch::named(ResourceKind::Topic, name, operation)),
            TopicRef::Id(id) => match self.topic(id) {
                Some(topic) => touch(Touch::owner(ResourceKind::Topic, topic.name, operation)),
                // A topic that the same commit creates has the next id.
                None => touch(Touch::every(ResourceKind::Topic, operation)),
            },
            TopicRef::Outside(number) => touch(Touch { target: TouchTarget::Outside(number), operation }),
        }
    }
}
