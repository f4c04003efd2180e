//! Decides the commands of a commit, in order, each against the state and what those before it do.
//!
//! Each command is checked, looked up in the draft, pushed as effects, and recorded in the draft.
//! It reads the log in one case only: a put by id of a block that has a name, because the block
//! keeps its name.

mod draft;

use alloc::vec::Vec;

use quire_model::{At, DecideError, Effects, History, Place, Position, ReadError, decide_in_order};

use self::draft::{BlockDraft, Draft, DraftName};
use crate::check::{check_block, check_edge, check_edge_type, check_new_block, check_put, check_tags};
use crate::codec::{BlockPut, EdgeKey, Effect};
use crate::command::{DeleteBlock, DeleteEdge, DeleteEdges, PutBlock, PutEdge, SetRetention, TrimHistory};
use crate::read::block_entry;
use crate::slot_lookups::SlotLookups;
use crate::state::Graphs;
use crate::{BlockRef, Command, End, GraphLimit, Refusal, Reply, Version};

/// Why a command is not decided.
type Stop = quire_model::Stop<Refusal>;

/// See [`Graphs::decide_noting`].
pub(crate) fn decide<'a>(
    state: &'a Graphs,
    history: &'a dyn History,
    at: At,
    commands: &'a [Command<'a>],
    lookups: &mut SlotLookups,
    effects: &mut dyn Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), DecideError<Refusal>> {
    lookups.clear();
    let mut draft = Draft::new(state, commands.len());
    decide_in_order(commands, |index, command| {
        draft.begin(index);
        let reply = match command {
            Command::PutBlock(put) => put_block(&mut draft, history, put, lookups, effects),
            Command::DeleteBlock(delete) => delete_block(&mut draft, delete, effects),
            Command::PutEdge(put) => put_edge(&mut draft, put, lookups, effects),
            Command::DeleteEdge(delete) => delete_edge(&mut draft, delete, effects),
            Command::DeleteEdges(delete) => delete_edges(&mut draft, delete, effects),
            Command::SetRetention(set) => set_retention(&mut draft, set, effects),
            Command::TrimHistory(trim) => trim_history(&mut draft, trim, at.position, effects),
        };
        replies.push(reply?);
        Ok(())
    })
}

fn put_block<'a>(
    draft: &mut Draft<'a>,
    history: &'a dyn History,
    put: &'a PutBlock<'a>,
    lookups: &mut SlotLookups,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    check_put(put)?;
    let tags = check_tags(put)?;

    let graph = draft.open(put.graph, effects)?;
    let id = put.block.id();
    let slot = graph.slot(id);
    let before = graph.block_in(slot, id);
    let found = before.map_or(Version::ABSENT, |block| block.version);
    if before.is_none() {
        check_new_block(put.block)?;
    }
    if let Some(expected) = put.expect.filter(|expected| *expected != found) {
        return Err(Refusal::VersionMismatch { block: id, name: put.block.given_name(), expected, found }.into());
    }
    let name = match put.block {
        BlockRef::Name(name) => Some(name),
        BlockRef::Id(_) => kept_name(before, history)?,
    };
    let version = graph.next_version(found);
    let kind = graph.kind(put.kind, effects)?;
    let (source, metadata, content) = (put.source, put.metadata, put.content);
    let put = BlockPut { graph: graph.number, id, version, kind, name, source, metadata, content };
    let place = check_place(effects)?;
    if let Some(slot) = slot {
        lookups.note(place.index, [slot, slot]);
    }
    Effect::BlockPut(put).push(&tags, effects);
    graph.put_block(id, version, name);
    Ok(Reply::BlockPut { block: id, version, created: before.is_none() })
}

/// The place that the next entry will have, if it is one that the state can hold.
fn check_place(effects: &dyn Effects) -> Result<Place, Refusal> {
    let place = effects.next_place();
    GraphLimit::CommitEntries.check(place.index as usize)?;
    GraphLimit::Commits.check(usize::try_from(place.position.get() - 1).unwrap_or(usize::MAX))?;
    Ok(place)
}

/// The name that a block put by id keeps.
fn kept_name<'a>(before: Option<BlockDraft<'a>>, history: &'a dyn History) -> Result<Option<&'a str>, ReadError> {
    match before.map(|block| block.name) {
        None => Ok(None),
        Some(DraftName::Known(name)) => Ok(name),
        Some(DraftName::At(place)) => Ok(block_entry(history, place)?.1.name),
    }
}

fn delete_block<'a>(
    draft: &mut Draft<'a>,
    delete: &'a DeleteBlock<'a>,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    check_block(delete.block)?;
    let id = delete.block.id();
    let graph = draft.existing(delete.graph)?;
    let Some((graph, block)) = graph.and_then(|graph| graph.block(id).map(|block| (graph, block))) else {
        return Ok(Reply::BlockDeleted { block: id, version: Version::ABSENT });
    };
    let edges = graph.edges_of_before(id);
    Effect::BlockDeleted { graph: graph.number, id }.push(&[], effects);
    graph.delete_block(id, block.version);
    draft.count_deleted(delete.block, edges)?;
    Ok(Reply::BlockDeleted { block: id, version: block.version })
}

fn put_edge<'a>(
    draft: &mut Draft<'a>,
    put: &'a PutEdge<'a>,
    lookups: &mut SlotLookups,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    check_edge(put)?;

    let graph = draft.open(put.graph, effects)?;
    let known_type = graph.known_edge_type(put.edge_type)?;
    let (near, far) = (put.source.id(), put.target.id());
    let slots = [near, far].map(|id| graph.slot(id));
    if !put.allow_missing {
        for (id, slot, block, end) in
            [(near, slots[0], put.source, End::Source), (far, slots[1], put.target, End::Target)]
        {
            if !graph.has_block_in(slot, id) {
                return Err(Refusal::MissingBlock { block: id, name: block.given_name(), end }.into());
            }
        }
    }
    let edge_type = match known_type {
        Some(number) => number,
        None => graph.name_edge_type(put.edge_type, effects)?,
    };
    let key = EdgeKey { near, edge_type, far };
    let created = !graph.has_edge_from(slots[0], key);
    let place = check_place(effects)?;
    if let [Some(near), Some(far)] = slots {
        lookups.note(place.index, [near, far]);
    }
    Effect::EdgePut { graph: graph.number, key, properties: put.properties }.push(&[], effects);
    graph.set_edge(key, true);
    Ok(Reply::EdgePut { created })
}

fn delete_edge<'a>(
    draft: &mut Draft<'a>,
    delete: &'a DeleteEdge<'a>,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    check_block(delete.source)?;
    check_block(delete.target)?;
    let Some(graph) = draft.existing(delete.graph)? else {
        check_edge_type(delete.edge_type)?;
        return Ok(Reply::EdgeDeleted { existed: false });
    };
    let Some(edge_type) = graph.known_edge_type(delete.edge_type)? else {
        return Ok(Reply::EdgeDeleted { existed: false });
    };
    let key = EdgeKey { near: delete.source.id(), edge_type, far: delete.target.id() };
    if !graph.has_edge(key) {
        return Ok(Reply::EdgeDeleted { existed: false });
    }
    Effect::EdgeDeleted { graph: graph.number, key }.push(&[], effects);
    graph.set_edge(key, false);
    Ok(Reply::EdgeDeleted { existed: true })
}

fn delete_edges<'a>(
    draft: &mut Draft<'a>,
    delete: &'a DeleteEdges<'a>,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    check_block(delete.block)?;
    GraphLimit::EdgesDeleted.check(delete.count_max)?;
    let id = delete.block.id();
    let Some(graph) = draft.existing(delete.graph)? else {
        return Ok(Reply::EdgesDeleted { count: 0, is_more: false });
    };
    let found = graph.edges_of(id, delete.count_max);
    for key in &found.edges {
        Effect::EdgeDeleted { graph: graph.number, key: *key }.push(&[], effects);
        graph.set_edge(*key, false);
    }
    draft.count_deleted(delete.block, found.looked_at)?;
    Ok(Reply::EdgesDeleted { count: found.edges.len(), is_more: found.is_more })
}

fn set_retention<'a>(
    draft: &mut Draft<'a>,
    set: &'a SetRetention<'a>,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    let graph = draft.open(set.graph, effects)?.number;
    Effect::RetentionSet { graph, retention: set.retention }.push(&[], effects);
    Ok(Reply::RetentionSet)
}

fn trim_history<'a>(
    draft: &mut Draft<'a>,
    trim: &'a TrimHistory<'a>,
    at: Position,
    effects: &mut dyn Effects,
) -> Result<Reply, Stop> {
    if trim.from > at {
        return Err(Refusal::AheadOfLog { from: trim.from, at }.into());
    }
    let Some(graph) = draft.existing(trim.graph)? else {
        return Ok(Reply::HistoryTrimmed { from: Position::ZERO });
    };
    if trim.from > graph.history_from {
        Effect::HistoryTrimmed { graph: graph.number, from: trim.from }.push(&[], effects);
        graph.history_from = trim.from;
    }
    Ok(Reply::HistoryTrimmed { from: graph.history_from })
}
