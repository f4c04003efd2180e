//! Rules of `quire access`: their text on the command line, and what they allow.

use std::io::Write;
use std::str::FromStr;

use clap::Args;
use quire::system::{AccessRule, RuleSubject};
use quire::{Operation, Resource, ResourceKind};
use quire_client::request::access::{AccessCheckRequest, RuleRequest};
use serde_json::Value;

use super::place::{AccessArgs, path};
use super::report;
use crate::failure::{CommandError, Result};
use crate::verbs::print::word;

/// A holder of rules, and a rule.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Holder of the rule: user:NAME, role:NAME or everyone
    #[arg(value_name = "SUBJECT")]
    subject: SubjectArg,
    /// The operation and the resources, like `read on topic orders`, `write on store prefix acme/`
    /// or `all on queue *`
    #[arg(value_name = "RULE", required = true, num_args = 1..)]
    rule: Vec<String>,
    #[command(flatten)]
    place: AccessArgs,
}

/// The holder of a rule on the command line.
#[derive(Debug, Clone)]
struct SubjectArg(RuleSubject);

/// A question to the rules.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Name of the user
    principal: String,
    /// Operation, like read
    #[arg(value_parser = operation)]
    operation: Operation,
    /// Kind of the resource, like topic
    #[arg(value_parser = resource_kind)]
    kind: ResourceKind,
    /// Name of the resource
    name: String,
    #[command(flatten)]
    place: AccessArgs,
}

impl FromStr for SubjectArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let subject = match text.split_once(':') {
            Some(("user", name)) if !name.is_empty() => RuleSubject::Principal(name.to_owned()),
            Some(("role", name)) if !name.is_empty() => RuleSubject::Role(name.to_owned()),
            _ => text.parse().map_err(|_| "expected user:NAME, role:NAME or everyone".to_owned())?,
        };
        Ok(SubjectArg(subject))
    }
}

/// A rule as the database writes it, such as `allow read on topic orders`.
pub(super) fn parse(text: &str) -> Result<AccessRule, String> {
    text.parse().map_err(|error| format!("invalid rule {text:?}: {error}"))
}

fn operation(name: &str) -> Result<Operation, String> {
    Operation::of_name(name).ok_or_else(|| one_of(Operation::ALL.map(Operation::name)))
}

fn resource_kind(name: &str) -> Result<ResourceKind, String> {
    ResourceKind::of_name(name).ok_or_else(|| one_of(ResourceKind::ALL.map(ResourceKind::name)))
}

fn one_of<const N: usize>(names: [&str; N]) -> String {
    format!("expected one of {}", names.join(", "))
}

impl RuleArgs {
    /// Adds the rule with this effect.
    ///
    /// # Errors
    /// When it is no rule, or is refused.
    pub(super) fn add(&self, effect: &str, out: &mut dyn Write) -> Result {
        let (request, text) = self.request(&format!("{effect} {}", self.rule.join(" ")))?;
        let done = self.place.reach()?.post(&["rules"], &request, |request, access| request.add(access))?;
        report(out, self.place.form, &done, &format!("added {text}"), &format!("exists already: {text}"))
    }

    /// Removes the rule, which begins with its effect.
    ///
    /// # Errors
    /// As [`RuleArgs::add`].
    pub(super) fn remove(&self, out: &mut dyn Write) -> Result {
        let rule = self.rule.join(" ");
        let (request, text) = self.request(&rule)?;
        let path = path(&["rules"]).with("subject", &self.subject.0).with("rule", &rule);
        let done = self.place.reach()?.delete(&path, |access| request.remove(access))?;
        report(out, self.place.form, &done, &format!("removed {text}"), &format!("does not exist: {text}"))
    }

    /// The request, and the rule with its holder for people.
    fn request(&self, rule: &str) -> Result<(RuleRequest, String)> {
        let rule = parse(rule).map_err(CommandError::new)?;
        let text = format!("{}: {rule}", self.subject.0);
        Ok((RuleRequest::new(self.subject.0.clone(), rule), text))
    }
}

impl CheckArgs {
    /// Prints whether the rules allow the operation.
    ///
    /// # Errors
    /// When the database can't be reached, or the client may not ask.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let CheckArgs { principal, operation, kind, name, place } = self;
        let request = AccessCheckRequest::new(&*principal, operation, Resource::new(kind, &name));
        let answer = place.reach()?.post(&["check"], &request, |request, access| request.apply(access))?;
        place.form.print(out, &[answer], |answer| {
            let verdict = if answer["allowed"] == Value::Bool(true) { "allowed" } else { "denied" };
            format!("{verdict}: {}", word(answer, "because"))
        })
    }
}
