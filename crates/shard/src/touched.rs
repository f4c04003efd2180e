//! The resources of a refused command, so that the refusal is shown only to clients that may read
//! them.

use quire_model::{History, Model, ModelId, ReadError, Resource, ResourceKind, Touch, TouchTarget};

use crate::commands::Commands;
use crate::refusal::{CommitRefusal, Reason};
use crate::view::ReadView;

/// The longest name that is kept, in bytes. No resource has a longer one.
const NAME_BYTES_MAX: usize = 255;

/// The most resources of one command that are kept.
const RESOURCES_MAX: usize = 64;

/// A resource that a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedResource {
    /// The kind of the resource.
    pub kind: ResourceKind,
    /// The name of the resource; `None` for every resource of the kind.
    pub name: Option<String>,
}

impl TouchedResource {
    /// The resource, with its name.
    fn named(resource: Resource<'_>) -> Self {
        // A longer name is that of a command that was refused for it.
        let name = (resource.name.len() <= NAME_BYTES_MAX).then(|| resource.name.to_owned());
        TouchedResource { kind: resource.kind, name }
    }
}

impl ReadView<'_> {
    /// Returns the resources that the refused command touches. Where they are unknown, it is the
    /// whole database: a refused idempotency key, and a job that does not exist.
    pub fn touched_by_refused(&self, commands: &Commands<'_, '_>, refused: &CommitRefusal) -> Vec<TouchedResource> {
        let mut touched = Vec::new();
        let mut touch = |touch: Touch<'_>| {
            let resource = resource_of(touch.target);
            if !touched.contains(&resource) && touched.len() <= RESOURCES_MAX {
                touched.push(resource);
            }
        };
        let (models, history, part) = (self.models, self.history, refused.part);
        let read = match model_of(&refused.reason) {
            Some(ModelId::STREAMS) => touches(&models.streams, history, commands.streams, part, &mut touch),
            Some(ModelId::EVENTS) => touches(&models.events, history, commands.events, part, &mut touch),
            Some(ModelId::JOBS) => touches(&models.jobs, history, commands.jobs, part, &mut touch),
            Some(ModelId::GRAPH) => touches(&models.graphs, history, commands.graph, part, &mut touch),
            Some(ModelId::SYSTEM) => touches(&models.system, history, commands.system, part, &mut touch),
            _ => Ok(()),
        };
        if read.is_err() || touched.is_empty() || touched.len() > RESOURCES_MAX {
            touched = vec![TouchedResource::named(Resource::DATABASE)];
        }
        touched
    }
}

fn touches<M: Model>(
    model: &M,
    history: &dyn History,
    commands: &[M::Command<'_>],
    part: usize,
    touch: &mut dyn FnMut(Touch<'_>),
) -> Result<(), ReadError> {
    commands.get(part).map_or(Ok(()), |command| model.touches(history, command, touch))
}

/// The model whose command is refused; `None` for an idempotency key.
fn model_of(reason: &Reason) -> Option<ModelId> {
    match reason {
        Reason::Streams(_) => Some(ModelId::STREAMS),
        Reason::Events(_) => Some(ModelId::EVENTS),
        Reason::Jobs(_) => Some(ModelId::JOBS),
        Reason::Graph(_) => Some(ModelId::GRAPH),
        Reason::System(_) => Some(ModelId::SYSTEM),
        Reason::Idempotency(_) => None,
        Reason::NotPermitted(refused) => Some(refused.model),
    }
}

fn resource_of(target: TouchTarget<'_>) -> TouchedResource {
    match target {
        TouchTarget::Named(resource) | TouchTarget::Owner(resource) => TouchedResource::named(resource),
        TouchTarget::Outside(_) => TouchedResource::named(Resource::DATABASE),
        TouchTarget::Every(kind) | TouchTarget::Permitted(kind) => TouchedResource { kind, name: None },
    }
}
