//! The checks that several decisions share.

use crate::{MEMBER_NAME_BYTES_MAX, Refusal, STATIC_MEMBERS_MAX, StaticMember, TopicId};

pub(super) fn check_members(members: &[StaticMember<'_>]) -> Result<(), Refusal> {
    let mut names = members.iter().flat_map(|member| [member.instance, member.member]);
    let are_valid = members.len() <= STATIC_MEMBERS_MAX && names.all(is_member_name);
    if are_valid { Ok(()) } else { Err(Refusal::InvalidMembers) }
}

/// Whether a member, an instance or a protocol may have this name.
pub(super) fn is_member_name(name: &str) -> bool {
    name.len() <= MEMBER_NAME_BYTES_MAX && !name.contains(char::is_control)
}

pub(super) fn check_partition(topic: TopicId, partition: u32, partitions: u32) -> Result<(), Refusal> {
    if partition < partitions { Ok(()) } else { Err(Refusal::UnknownPartition { topic, partition, partitions }) }
}
