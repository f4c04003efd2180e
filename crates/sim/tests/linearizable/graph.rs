//! Puts of one block under the version that it must have, deletions and reads.

use quire::graph::{BlockId, BlockRef, PutBlock, Reply, Version};
use quire::{Database, Durability, ErrorKind};
use serde::{Deserialize, Serialize};
use stateright::semantics::SequentialSpec;

use crate::{Client, HistoryEntry, HistoryRecorder, Recorder, STEPS, rounds};

/// The block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The version of the block: 0 when it does not exist, `None` when its put got no answer.
    version: Option<u64>,
    /// The highest version in any answer.
    last: u64,
}

impl Default for Block {
    fn default() -> Self {
        Block { version: Some(0), last: 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PlanStep {
    Read,
    Put { expect: Option<u64> },
    Delete,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Response {
    /// The block was read, put or deleted.
    Version(u64),
    Refused,
}

impl Block {
    /// Whether it may have this version; then it has.
    fn may_have(&mut self, version: u64) -> bool {
        let may = self.version.map_or(version > self.last, |known| known == version);
        (self.version, self.last) = (Some(version), self.last.max(version));
        may
    }
}

impl SequentialSpec for Block {
    type Op = PlanStep;
    type Ret = Response;

    /// The effect of a step without an answer. A put gives the block a version that later answers
    /// show.
    fn invoke(&mut self, step: &PlanStep) -> Response {
        match step {
            PlanStep::Put { expect } => {
                if expect.is_none_or(|expect| self.may_have(expect)) {
                    self.version = None;
                }
            }
            PlanStep::Delete => self.version = Some(0),
            PlanStep::Read => {}
        }
        Response::Refused
    }

    /// The specification leaves the numbers of versions open, but each version has its own.
    fn is_valid_step(&mut self, step: &PlanStep, told: &Response) -> bool {
        match (step, told) {
            (PlanStep::Read, Response::Version(version)) => self.may_have(*version),
            (PlanStep::Put { expect: Some(expect) }, Response::Refused) => self.version != Some(*expect),
            (PlanStep::Put { expect }, Response::Version(version)) => {
                let is_accepted = expect.is_none_or(|expect| self.may_have(expect)) && *version > self.last;
                (self.version, self.last) = (Some(*version), *version);
                is_accepted
            }
            (PlanStep::Delete, Response::Version(version)) => {
                let may = self.may_have(*version);
                self.version = Some(0);
                may
            }
            _ => false,
        }
    }
}

/// The answer, and the resulting state of the block.
fn told(answer: quire::Result<Reply>, seen: Version) -> (Response, Version) {
    match answer {
        Ok(Reply::BlockPut { version, .. }) => (Response::Version(version.get()), version),
        Ok(Reply::BlockDeleted { version, .. }) => (Response::Version(version.get()), Version::ABSENT),
        Ok(other) => panic!("a step on a block is not answered by {other:?}"),
        Err(error) if error.kind() == ErrorKind::Refused => (Response::Refused, seen),
        Err(error) => panic!("{error}"),
    }
}

fn read(database: &Database, block: BlockId) -> (Response, Version) {
    let snapshot = database.graph("graph").snapshot().expect("readable");
    let found = snapshot.and_then(|graph| graph.block(block, |block| block.version).expect("readable"));
    let version = found.unwrap_or(Version::ABSENT);
    (Response::Version(version.get()), version)
}

/// Reads what there is.
pub(crate) fn look(database: &Database, client: &Client<'_, Block>) {
    client.step(PlanStep::Read, || read(database, BlockRef::Name(&name(client)).id()));
}

fn name(client: &Client<'_, Block>) -> String {
    format!("block-{}", client.number)
}

pub(crate) fn round(database: &Database, client: &Client<'_, Block>) {
    let name = name(client);
    let block = BlockRef::Name(&name).id();
    let graph = database.graph("graph");
    let mut choices = client.choices();
    let mut seen = Version::ABSENT;
    for _ in 0..STEPS {
        let put = |expect| graph.put_block(PutBlock { expect, ..PutBlock::new("graph", name.as_str(), "kind") });
        seen = match choices.u8(..10) {
            0..4 => client.step(PlanStep::Read, || read(database, block)),
            4 => client.step(PlanStep::Put { expect: None }, || told(put(None), seen)),
            5 => client.step(PlanStep::Delete, || told(graph.delete_block(name.as_str()), seen)),
            _ => client.step(PlanStep::Put { expect: Some(seen.get()) }, || told(put(Some(seen)), seen)),
        };
    }
}

#[test]
fn puts_under_a_version_and_reads_are_linearizable() {
    rounds(Durability::Os, 1_500, round);
}

#[test]
fn puts_under_a_version_and_reads_are_linearizable_also_when_commits_wait_for_the_disk() {
    rounds(Durability::Sync, 100, round);
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn a_put_under_a_lost_version_is_noticed() {
    let recorder = Recorder::<Block>::new();
    let put = |expect, told| recorder.step(0, PlanStep::Put { expect: Some(expect) }, || (Response::Version(told), ()));
    put(0, 1);
    put(1, 2);
    put(1, 3);
    recorder.check();
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn a_lost_acknowledged_version_is_noticed_also_after_a_put_without_an_answer() {
    let recorder = Recorder::<Block>::new();
    recorder.step(0, PlanStep::Put { expect: Some(0) }, || (Response::Version(1), ()));
    recorder.note(1, HistoryEntry::Called(PlanStep::Put { expect: Some(1) }));
    recorder.step(0, PlanStep::Read, || (Response::Version(0), ()));
    recorder.check();
}

#[test]
fn a_put_without_an_answer_may_have_taken_effect_or_not() {
    for version in [1, 2] {
        let recorder = Recorder::<Block>::new();
        recorder.step(0, PlanStep::Put { expect: Some(0) }, || (Response::Version(1), ()));
        recorder.note(1, HistoryEntry::Called(PlanStep::Put { expect: Some(1) }));
        recorder.step(0, PlanStep::Read, || (Response::Version(version), ()));
        recorder.check();
    }
}
