//! The saved state: bytes that are not one are refused, and never panic.

use quire_graph::{Command, DeleteBlock, Graphs, PutBlock, PutEdge};
use quire_model::codec::Decoder;
use quire_model::memory::World;
use quire_model::{Model, Timestamp};

fn saved() -> Vec<u8> {
    let mut world: World<Graphs> = World::new();
    let put = |graph, block| Command::PutBlock(PutBlock::new(graph, block, "kind"));
    let link = |source, target| Command::PutEdge(PutEdge::new("g", source, "type", target));
    let delete = Command::DeleteBlock(DeleteBlock { graph: "g", block: "c".into() });
    let commands = [put("g", "a"), put("g", "b"), put("g", "c"), put("h", "a"), link("a", "b"), link("b", "a"), delete];
    world.commit(Timestamp::ZERO, &commands).expect("accepted");
    World::saved(&world.model)
}

#[test]
fn a_cut_checkpoint_is_refused_at_every_byte() {
    let saved = saved();
    assert!(Graphs::load(&mut Decoder::new(&saved)).is_ok());
    for cut in 0..saved.len() {
        assert!(Graphs::load(&mut Decoder::new(&saved[..cut])).is_err(), "cut at {cut}");
    }
}

#[test]
fn a_graph_that_has_a_name_which_none_gets_any_more_is_read_and_written_as_before() {
    let mut saved = saved();
    let name = saved.iter().position(|byte| *byte == b'g').expect("the name of a graph");
    saved[name] = b'.';
    let mut world: World<Graphs> = World::new();
    let put = |graph, block| Command::PutBlock(PutBlock::new(graph, block, "kind"));
    world.commit(Timestamp::ZERO, &[put("other", "a")]).expect("accepted");
    world.model = Graphs::load(&mut Decoder::new(&saved)).expect("a state");
    world.commit(Timestamp::ZERO, &[put(".", "d")]).expect("accepted");
    assert_eq!(world.model.graph(".").map(|graph| graph.block_count()), Some(3));
    let denied = world.commit(Timestamp::ZERO, &[put("..", "a")]).expect_err("a new one");
    assert!(format!("{denied:?}").contains(". and .. are not allowed"), "{denied:?}");
}

#[test]
fn a_checkpoint_of_another_format_is_refused_with_what_was_expected() {
    let mut saved = saved();
    saved[0] += 1;
    let error = Graphs::load(&mut Decoder::new(&saved)).unwrap_err();
    assert_eq!(error.expected, "checkpoint format 3 of the graphs");
}

#[test]
fn a_changed_byte_is_refused_or_loads_as_a_valid_state() {
    let saved = saved();
    for index in 0..saved.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut changed = saved.clone();
            changed[index] ^= flip;
            let mut from = Decoder::new(&changed);
            if let Ok(graphs) = Graphs::load(&mut from) {
                let read = changed.len() - from.rest().len();
                assert_eq!(World::saved(&graphs), changed[..read], "byte {index} ^ {flip:#x}");
            }
        }
    }
}
