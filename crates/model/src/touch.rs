//! The resources that a command touches, and the decision whether its client may touch them.

use core::fmt;

use alloc::string::String;

use crate::codec::{CodecError, Decoder, Encoder};
use crate::{Operation, Resource, ResourceKind};

/// A resource that a command touches, and the operation on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'t> {
    /// The touched resource.
    pub target: TouchTarget<'t>,
    /// The operation.
    pub operation: Operation,
}

/// The resource of a [`Touch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TouchTarget<'t> {
    /// The command names the resource.
    Named(Resource<'t>),
    /// The command names an object of the resource, such as a job of a queue, and the state knows
    /// the resource. A client that may not describe the resource gets the same answer as for an
    /// object that does not exist.
    Owner(Resource<'t>),
    /// An event store or a queue by the number under which groups commit offsets in it.
    Outside(u32),
    /// Every resource of the kind.
    Every(ResourceKind),
    /// Those resources of the kind on which the client has the operation. Work that runs later
    /// checks each of them by the rights of its [creator](crate::Creator).
    Permitted(ResourceKind),
}

impl<'t> Touch<'t> {
    /// The command names the resource.
    pub const fn named(kind: ResourceKind, name: &'t str, operation: Operation) -> Self {
        Touch { target: TouchTarget::Named(Resource::new(kind, name)), operation }
    }

    /// The command names an object of the resource.
    pub const fn owner(kind: ResourceKind, name: &'t str, operation: Operation) -> Self {
        Touch { target: TouchTarget::Owner(Resource::new(kind, name)), operation }
    }

    /// The command touches every resource of the kind.
    pub const fn every(kind: ResourceKind, operation: Operation) -> Self {
        Touch { target: TouchTarget::Every(kind), operation }
    }

    /// The command touches those resources of the kind on which the client has the operation.
    pub const fn permitted(kind: ResourceKind, operation: Operation) -> Self {
        Touch { target: TouchTarget::Permitted(kind), operation }
    }
}

/// The refusal of a command whose client lacks a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRefusal {
    /// The kind of the resource.
    pub kind: ResourceKind,
    /// The name of the resource; `*` for every resource of the kind.
    pub name: String,
    /// The operation that the client may not perform.
    pub operation: Operation,
}

impl PermissionRefusal {
    /// The client may not perform the operation on the resource.
    pub fn new(resource: Resource<'_>, operation: Operation) -> Self {
        PermissionRefusal { kind: resource.kind, name: String::from(resource.name), operation }
    }

    /// The client may not perform the operation on every resource of the kind.
    pub fn every(kind: ResourceKind, operation: Operation) -> Self {
        PermissionRefusal::new(Resource::new(kind, "*"), operation)
    }

    /// Writes the refusal, as a part of a stored reply.
    pub fn encode(&self, out: &mut Encoder) {
        out.u8(self.kind.number()).str(&self.name).u8(self.operation.number());
    }

    /// Reads a refusal that [`PermissionRefusal::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a refusal.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let unknown = |expected| CodecError { expected, bytes_left: 0 };
        let kind = ResourceKind::of_number(from.u8()?).ok_or(unknown("a kind of resource"))?;
        let name = from.string()?;
        let operation = Operation::of_number(from.u8()?).ok_or(unknown("an operation"))?;
        Ok(PermissionRefusal { kind, name, operation })
    }
}

impl fmt::Display for PermissionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PermissionRefusal { kind, name, operation } = self;
        write!(f, "not permitted: {operation} on {kind} {name:?}")
    }
}

impl core::error::Error for PermissionRefusal {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_refusal_names_the_operation_and_the_resource() {
        let refusal = PermissionRefusal::new(Resource::new(ResourceKind::Store, "acme/orders"), Operation::Write);
        assert_eq!(refusal.to_string(), "not permitted: write on store \"acme/orders\"");
        let every = PermissionRefusal::every(ResourceKind::Queue, Operation::Alter);
        assert_eq!(every.to_string(), "not permitted: alter on queue \"*\"");
    }
}
