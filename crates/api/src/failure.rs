//! A failure as every front end shows it: a code, a message for people, and facts for programs.

use quire::{CommitRefusal, Error, PermissionRefusal, Reason, UnknownBlock};

use crate::facts::{self, FailureFact, TimeUnit};
use crate::table::{of_error, of_reason};
use crate::{Code, FactValue};

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The message, for people.
    pub message: String,
    /// The facts, for programs.
    pub facts: Vec<FailureFact>,
}

impl Failure {
    /// A failure without facts.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), facts: Vec::new() }
    }

    /// An invalid field, parameter or argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure::new(Code::Invalid, message)
    }

    /// An error of the database.
    pub fn of_error(error: &Error) -> Self {
        if let Some(CommitRefusal { reason: Reason::NotPermitted(refused), .. }) = error.refusal() {
            return Failure::of_permission(&refused.refusal);
        }
        let mut failure = Failure::new(of_error(error.kind()).code, error.for_clients());
        if let Some(leader) = error.leader() {
            failure = failure.with("leader", leader.node);
            for (name, address) in [("leader_http", &leader.addresses.http), ("leader_grpc", &leader.addresses.grpc)] {
                if !address.is_empty() {
                    failure = failure.with(name, address.clone());
                }
            }
        }
        failure
    }

    /// A missing permission of a read.
    fn of_permission(refusal: &PermissionRefusal) -> Self {
        Failure { code: Code::NotPermitted, message: refusal.to_string(), facts: facts::of_permission(refusal) }
    }

    /// A refusal without a part: of a commit of one part, or of one item of a part.
    pub fn of_reason(reason: &Reason, unit: TimeUnit) -> Self {
        Failure {
            code: of_reason(reason).code,
            message: facts::message(reason, unit),
            facts: facts::of_reason(reason, unit),
        }
    }

    /// A refused commit of several parts. `index` is the name of the fact with the refused part.
    pub fn of_commit(refused: &CommitRefusal, unit: TimeUnit, index: &'static str) -> Self {
        Failure::of_reason(&refused.reason, unit).with(index, refused.part)
    }

    /// A read at a block that the graph does not have.
    pub fn of_unknown_block(unknown: UnknownBlock) -> Self {
        let failure = Failure::new(Code::NotFound, unknown.to_string());
        let UnknownBlock { graph, block, name, position } = unknown;
        let failure = failure.with("graph", graph).with("block", block.to_string());
        failure.with("name", name).with("position", position.get())
    }

    /// Adds a fact.
    pub fn with(mut self, name: &'static str, value: impl Into<FactValue>) -> Self {
        self.facts.push(FailureFact { name, value: value.into() });
        self
    }
}
