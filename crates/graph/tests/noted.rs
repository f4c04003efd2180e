//! The slots that a decision caches. They change no result, even when they belong to another
//! decision.

use proptest::collection::vec;
use proptest::prelude::*;
use quire_graph::{BlockId, Command, DeleteBlock, DeleteEdge, DeleteEdges, Graphs, PutBlock, PutEdge, SlotLookups};
use quire_model::memory::{MemoryLog, World};
use quire_model::{Effects, Timestamp};

/// An id with hardly any bits: that of free slots among them.
fn id(number: u8) -> BlockId {
    BlockId::new([number / 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number % 3])
}

fn command() -> impl Strategy<Value = Command<'static>> {
    let edge = |(source, target, kind): (u8, u8, bool)| (id(source), if kind { "one" } else { "two" }, id(target));
    let ends = (0u8..6, 0u8..6, any::<bool>());
    prop_oneof![
        4 => (0u8..6).prop_map(|block| Command::PutBlock(PutBlock::new("g", id(block), "kind"))),
        2 => (0u8..6).prop_map(|block| Command::DeleteBlock(DeleteBlock { graph: "g", block: id(block).into() })),
        4 => ends.clone().prop_map(move |ends| {
            let (source, edge_type, target) = edge(ends);
            Command::PutEdge(PutEdge { allow_missing: true, ..PutEdge::new("g", source, edge_type, target) })
        }),
        2 => ends.prop_map(move |ends| {
            let (source, edge_type, target) = edge(ends);
            Command::DeleteEdge(DeleteEdge { graph: "g", source: source.into(), edge_type, target: target.into() })
        }),
        1 => (0u8..6, 1usize..4).prop_map(|(block, count_max)| {
            Command::DeleteEdges(DeleteEdges { graph: "g", block: id(block).into(), count_max })
        }),
    ]
}

proptest! {
    #[test]
    fn a_state_is_the_same_with_and_without_what_was_noted(commits in vec((vec(command(), 1..7), any::<bool>()), 1..30)) {
        let (mut noted, mut plain): (Graphs, World<Graphs>) = (Graphs::default(), World::new());
        let (mut log, mut lookups) = (MemoryLog::new(), SlotLookups::default());
        for (number, (commands, is_stale)) in (1..).zip(&commits) {
            let time = Timestamp::from_millis(number);
            let mut draft = log.draft(time);
            let (at, mut replies, mut fresh) = (draft.at(), Vec::new(), SlotLookups::default());
            // The notes of another decision neither help nor harm.
            let notes = if *is_stale { &mut fresh } else { &mut lookups };
            noted.decide_noting(&log, at, commands, notes, &mut draft, &mut replies).expect("accepted");
            let draft = draft.finish();
            log.append(draft).for_each(|entry| noted.apply_noted(&entry, &mut lookups));
            prop_assert_eq!(&plain.commit(time, commands).expect("accepted"), &replies);
            prop_assert_eq!(World::saved(&noted), World::saved(&plain.model));
        }
    }
}
