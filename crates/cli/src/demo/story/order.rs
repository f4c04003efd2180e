//! Part 1: one order is one commit, shown as the tree of what the database then holds.

use std::io::Write;

use quire::events::{Query, QueryItem, ReadOptions};
use quire::graph::BlockId;
use quire::jobs::JobState;
use quire::{Database, History, ModelId, Place, Position, Sequence};

use super::check;
use super::shop::{BOUGHT, CATALOGUE, ORDERS_STORE, ORDERS_TOPIC, PAYMENTS, ShopOrder};
use crate::failure::{CommandError, Result};

/// How many bytes of messages are read: more than one order has.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// Places order 1, reads it back from each model, and prints it.
///
/// # Errors
/// When the database fails, or a part of the order is missing.
pub(super) fn place_one(database: &Database, out: &mut dyn Write) -> Result {
    let order = ShopOrder::new(1, "ada", "lamp");
    let position = database.commit(&order.commit(None))?.committed()?.at.position;

    let missing = |part: &str| {
        CommandError::new(format!("the demo found an error in Quire: order 1 has no {part}; please report it"))
    };
    let by_tag = Query::from(QueryItem::new().tag(&order.tag));
    let events = database.events(ORDERS_STORE).read(&by_tag, ReadOptions::default())?.events;
    let event = events.first().ok_or_else(|| missing("event"))?;
    let tags: Vec<_> = event.tags.iter().map(|tag| String::from_utf8_lossy(tag)).collect();
    let jobs = database.queue(PAYMENTS).list(JobState::Pending, None, 2)?.jobs;
    let id = jobs.first().copied().ok_or_else(|| missing("job"))?;
    let job = database.queue(PAYMENTS).job(id)?.ok_or_else(|| missing("job"))?;
    let messages = database.topic(ORDERS_TOPIC).fetch(0, Sequence::new(0), MESSAGE_BYTES_MAX)?.records;
    let message = messages.first().ok_or_else(|| missing("message"))?;
    let [customer, item] = [order.customer, order.item].map(BlockId::of_name);
    let graph = database.graph(CATALOGUE).snapshot()?.ok_or_else(|| missing("graph"))?;
    graph.edge(customer, BOUGHT, item, |_| ())?.ok_or_else(|| missing("edge"))?;

    let entries = entries_by_model(database, position)?;
    let one_each = (events.len(), jobs.len(), messages.len()) == (1, 1, 1);
    check(one_each, || "order 1 has more than one event, job or message".to_owned())?;
    check(id.place().position == position, || format!("job {id} is not in commit {position}"))?;
    let models = [ModelId::EVENTS, ModelId::JOBS, ModelId::STREAMS, ModelId::GRAPH];
    check(models.iter().all(|model| entries.contains(model)), || format!("commit {position} lacks a model"))?;

    writeln!(out, "\n1. One order, one commit")?;
    writeln!(out, "   position {position} of the log: one record, all four models")?;
    writeln!(out, "   ├─ event    {ORDERS_STORE:<16} {}: {}", event.event_type, tags.join(", "))?;
    writeln!(out, "   ├─ job      {PAYMENTS:<16} {id}: {}", job.kind)?;
    writeln!(out, "   ├─ message  {ORDERS_TOPIC:<16} partition 0, offset {}: key {}", message.offset, order.tag)?;
    writeln!(out, "   └─ edge     {CATALOGUE:<16} {} ─{BOUGHT}─▶ {}", order.customer, order.item)?;
    Ok(writeln!(out, "   No crash can leave a part of it: a record is in the log whole, or not at all.")?)
}

/// The model of each entry in the record at `position`.
fn entries_by_model(database: &Database, position: Position) -> Result<Vec<ModelId>> {
    let history = database.history();
    let (mut models, mut from) = (Vec::new(), Place::new(position, 0));
    while let Some(entry) = history.next(&[], from).map_err(quire::Error::from)? {
        if entry.place.position != position {
            break;
        }
        models.push(entry.kind.model);
        from = entry.place.after();
    }
    Ok(models)
}
