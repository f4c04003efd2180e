//! `quire cluster replace`: removes a member once another node has taken its place.
//!
//! The new node becomes a voter first, then the old one is removed. So the number of voters that
//! may fail does not fall meanwhile. The command may be repeated at each step.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::ClusterServer;
use crate::failure::{CommandError, Result};
use crate::stopwatch::Stopwatch;
use crate::text::grouped;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::print::list;

/// The pause between two looks at the members.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `quire cluster replace`.
#[derive(Debug, Args)]
pub(crate) struct ReplaceMember {
    /// Number of the member to remove
    old: u64,
    /// Number of the node that takes its place, which has joined or joins now
    new: u64,
    /// How long to wait until the new node is a voter, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    wait: u64,
    #[command(flatten)]
    server: ClusterServer,
}

/// What the new node lacks.
#[derive(Debug, PartialEq, Eq)]
enum NewcomerState {
    /// It has not joined.
    Absent,
    /// It receives files and records; the number of records that it lacks, if the asked node knows.
    Learner(Option<u64>),
    /// It is a voter without a connection.
    Disconnected,
    Ready,
}

impl ReplaceMember {
    /// Carries out the command.
    ///
    /// # Errors
    /// When the cluster refuses, or the new node is not a voter in time. The old member remains
    /// then.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let ReplaceMember { old, new, wait, server } = self;
        if old == new {
            return Err(CommandError::new(format!(
                "node {old} can't take its own place: start another node with a number that no node has had"
            )));
        }
        let client = HttpClient::with_key(&server.http, &server.key)?;
        let (watch, wait) = (Stopwatch::start(), Duration::from_secs(wait));
        let replacement = Replacement { client, old, new, watch, wait };
        if member(&replacement.status()?, old).is_none() {
            return Err(CommandError::new(format!("node {old} is not a member of the cluster")));
        }
        replacement.wait_for_voter()?;
        replacement.hand_over()?;
        let removed = replacement.remove()?;
        server.form.print(out, std::slice::from_ref(&removed), |_| format!("node {new} takes the place of node {old}"))
    }
}

struct Replacement {
    client: HttpClient,
    old: u64,
    new: u64,
    watch: Stopwatch,
    wait: Duration,
}

impl Replacement {
    fn status(&self) -> Result<Value> {
        self.client.get(&Path::new(&["cluster"]))
    }

    /// Waits a little, or says what is missing when the time is up.
    fn pause(&self, missing: &str) -> Result {
        if self.watch.elapsed() >= self.wait {
            return Err(CommandError::new(format!("{missing}; node {} is still a member", self.old)));
        }
        look_again();
        Ok(())
    }

    /// Waits until the new node is a voter, and reports each change to standard error.
    fn wait_for_voter(&self) -> Result {
        let mut reported = String::new();
        loop {
            let report = match step(&self.status()?, self.new) {
                NewcomerState::Ready => return Ok(()),
                NewcomerState::Absent => format!(
                    "node {} has not joined: start it with `quire serve --node {} --cluster-join`",
                    self.new, self.new
                ),
                NewcomerState::Learner(Some(lag)) => {
                    format!("node {} receives records, and lacks {}", self.new, grouped(lag))
                }
                NewcomerState::Learner(None) => format!("node {} receives files and records", self.new),
                NewcomerState::Disconnected => format!("node {} is not connected", self.new),
            };
            if report != reported {
                eprintln!("waiting: {report}");
                reported = report;
            }
            self.pause(&reported)?;
        }
    }

    /// Has another node lead, if the old one does.
    fn hand_over(&self) -> Result {
        let is_leader = |status: &Value| status["leader"].as_u64() == Some(self.old);
        while is_leader(&self.status()?) {
            let handed = self.client.try_post_patiently(&Path::new(&["cluster", "transfer"]).with("node", self.new))?;
            if let Err(problem) = handed.map_err(|problem| ChangeProblem::of(&problem)) {
                problem.if_lasting()?;
            }
            self.pause(&format!("node {} still leads", self.old))?;
        }
        Ok(())
    }

    fn remove(&self) -> Result<Value> {
        loop {
            let path = Path::new(&["cluster", "remove"]).with("node", self.old);
            match self.client.try_post_patiently(&path)? {
                Ok(removed) => return Ok(removed),
                // An earlier request may have removed it, although its answer was lost.
                Err(_) if member(&self.status()?, self.old).is_none() => {
                    return Ok(serde_json::json!({ "done": true }));
                }
                Err(problem) => {
                    let refusal = ChangeProblem::of(&problem);
                    refusal.if_lasting()?;
                    self.pause(&refusal.detail)?;
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "only the cluster knows when a node is level; no result depends on it")]
fn look_again() {
    std::thread::sleep(LOOK);
}

/// A refusal of the cluster.
struct ChangeProblem {
    code: String,
    detail: String,
}

impl ChangeProblem {
    fn of(problem: &Value) -> Self {
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        ChangeProblem { code: text("code"), detail: text("detail") }
    }

    /// An error, unless the cluster may accept the same request later.
    fn if_lasting(&self) -> Result {
        match self.code.as_str() {
            "overloaded" | "not_leader" | "unsettled" => Ok(()),
            _ => Err(CommandError::new(self.detail.clone())),
        }
    }
}

fn member(status: &Value, node: u64) -> Option<&Value> {
    list(status, "members").iter().find(|member| member["node"].as_u64() == Some(node))
}

fn step(status: &Value, node: u64) -> NewcomerState {
    match member(status, node) {
        None => NewcomerState::Absent,
        Some(member) if member["role"] != "voter" => NewcomerState::Learner(member["lag"].as_u64()),
        Some(member) if member["connected"] != true => NewcomerState::Disconnected,
        Some(_) => NewcomerState::Ready,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_ready_as_a_connected_voter() {
        let status = json!({ "members": [
            { "node": 1, "role": "voter", "connected": true },
            { "node": 2, "role": "voter", "connected": false },
            { "node": 3, "role": "learner", "connected": true, "lag": 7 },
            { "node": 4, "role": "learner", "connected": true },
        ] });
        let steps: Vec<NewcomerState> = (1..=5).map(|node| step(&status, node)).collect();
        let expected = [
            NewcomerState::Ready,
            NewcomerState::Disconnected,
            NewcomerState::Learner(Some(7)),
            NewcomerState::Learner(None),
            NewcomerState::Absent,
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_refusal_that_may_pass_is_waited_for() {
        let refusal = |code: &str| ChangeProblem::of(&json!({ "code": code, "detail": "why" }));
        for code in ["overloaded", "not_leader", "unsettled"] {
            assert!(refusal(code).if_lasting().is_ok());
        }
        assert!(matches!(refusal("forbidden").if_lasting(), Err(CommandError::Message(reason)) if reason == "why"));
    }
}
