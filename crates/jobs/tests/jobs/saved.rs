//! The state as bytes, in parts.

use quire_jobs::{Command, JobSpec};
use quire_model::Model;
use quire_model::memory::World;

use crate::yard::Yard;

const JOBS: usize = 150_000;
/// More than a part and the last of its items.
const PART_BYTES_MAX: usize = (1 << 20) + (1 << 10);

#[test]
fn a_large_state_is_passed_on_in_parts_that_are_its_bytes() {
    let mut yard = Yard::new();
    for _ in 0..JOBS / 1_000 {
        let commands = vec![Command::Enqueue { queue: "q", job: JobSpec::new(b"payload") }; 1_000];
        yard.world.commit(yard.now, &commands).expect("accepted");
    }
    let mut parts: Vec<Vec<u8>> = Vec::new();
    yard.world.model.save_in_parts(&mut |part| parts.push(part.to_vec()));
    let largest = parts.iter().map(Vec::len).max().expect("a part");
    assert!(parts.len() > 1 && largest <= PART_BYTES_MAX, "{} parts, {largest} bytes", parts.len());
    assert!(parts.concat() == World::saved(&yard.world.model), "the parts are the state");
}
