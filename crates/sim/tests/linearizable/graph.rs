//! Puts of one block under the version that it must have, deletions and reads.

use quire::graph::{BlockId, BlockRef, PutBlock, Reply, Version};
use quire::{Database, Durability, ErrorKind};
use stateright::semantics::SequentialSpec;

use crate::{Client, Recorder, STEPS, rounds};

/// The block.
#[derive(Debug, Clone)]
struct Block {
    /// That it has; absent when it is not there.
    version: Version,
    /// That was given last.
    last: Version,
}

impl Default for Block {
    fn default() -> Self {
        Block { version: Version::ABSENT, last: Version::ABSENT }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Read,
    Put { expect: Option<Version> },
    Delete,
}

#[derive(Debug, Clone, PartialEq)]
enum Told {
    /// What was read, put or deleted.
    Version(Version),
    Refused,
}

impl SequentialSpec for Block {
    type Op = Step;
    type Ret = Told;

    fn invoke(&mut self, _: &Step) -> Told {
        unreachable!("every step of a history was told something")
    }

    /// Which number a version has the specification leaves open, but that none is given twice.
    fn is_valid_step(&mut self, step: &Step, told: &Told) -> bool {
        match (step, told) {
            (Step::Read, Told::Version(version)) => *version == self.version,
            (Step::Put { expect: Some(expect) }, Told::Refused) => *expect != self.version,
            (Step::Put { expect }, Told::Version(version)) => {
                let is_accepted = expect.is_none_or(|expect| expect == self.version) && *version > self.last;
                (self.version, self.last) = (*version, *version);
                is_accepted
            }
            (Step::Delete, Told::Version(version)) => *version == std::mem::replace(&mut self.version, Version::ABSENT),
            _ => false,
        }
    }
}

/// What was told, and what the block is then taken to have.
fn told(answer: quire::Result<Reply>, seen: Version) -> (Told, Version) {
    match answer {
        Ok(Reply::BlockPut { version, .. }) => (Told::Version(version), version),
        Ok(Reply::BlockDeleted { version, .. }) => (Told::Version(version), Version::ABSENT),
        Ok(other) => panic!("a step on a block is not answered by {other:?}"),
        Err(error) if error.kind() == ErrorKind::Refused => (Told::Refused, seen),
        Err(error) => panic!("{error}"),
    }
}

fn read(database: &Database, block: BlockId) -> (Told, Version) {
    let snapshot = database.graph("graph").snapshot().expect("readable");
    let found = snapshot.and_then(|graph| graph.block(block, |block| block.version).expect("readable"));
    let version = found.unwrap_or(Version::ABSENT);
    (Told::Version(version), version)
}

fn round(database: &Database, client: &Client<'_, Block>) {
    let name = format!("block-{}", client.number);
    let block = BlockRef::Name(&name).id();
    let graph = database.graph("graph");
    let mut choices = client.choices();
    let mut seen = Version::ABSENT;
    for _ in 0..STEPS {
        let put = |expect| graph.put_block(PutBlock { expect, ..PutBlock::new("graph", name.as_str(), "kind") });
        seen = match choices.u8(..10) {
            0..4 => client.step(Step::Read, || read(database, block)),
            4 => client.step(Step::Put { expect: None }, || told(put(None), seen)),
            5 => client.step(Step::Delete, || told(graph.delete_block(name.as_str()), seen)),
            _ => client.step(Step::Put { expect: Some(seen) }, || told(put(Some(seen)), seen)),
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
fn a_put_under_a_version_that_is_gone_is_noticed() {
    let recorder = Recorder::<Block>::new();
    let put = |expect, told| recorder.step(0, Step::Put { expect: Some(expect) }, || (Told::Version(told), ()));
    put(Version::ABSENT, Version::new(1));
    put(Version::new(1), Version::new(2));
    put(Version::new(1), Version::new(3));
    recorder.check();
}
