//! `search(index, words)`: the events whose text has these words, the best matches first.

use std::sync::Arc;

use quire::Result;
use quire_vtab::{ColumnKind, EQUAL, NoRows, RowSource, ScanRequest, TableColumn};

use super::{TableKind, never};
use crate::SqlValue;
use crate::context::{StatementContext, invalid};
use crate::search;

pub(super) const SEARCH: TableKind = TableKind {
    name: "search",
    about: "An event whose text has some words, by a [text index](#text-indexes). For example, \
        `search('orders', 'fragile glass')`. The arguments are the last two columns. Join it with `events` by `store` \
        and `position`.",
    columns: &[
        TableColumn::new("store", ColumnKind::Text, "The name of the store."),
        TableColumn::new("position", ColumnKind::Integer, "The position of the event in its store."),
        TableColumn::new("rank", ColumnKind::Real, "How well the text matches; smaller is better."),
        TableColumn::new("text_index", ColumnKind::Text, "The name of the index, or of a store that has one index.")
            .filtered(EQUAL, 1_000)
            .argument(),
        TableColumn::new("words", ColumnKind::Text, "The words, in the query language of FTS5.")
            .filtered(EQUAL, 1_000)
            .argument(),
    ],
    rows: 1_000_000_000,
    order: Some((RANK, &[INDEX, WORDS])),
    in_order: never,
    scan,
};

const RANK: usize = 2;
const INDEX: usize = 3;
const WORDS: usize = 4;

/// How many events are looked up before writers get their turn.
const ROWS_AT_ONCE: usize = 256;

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let argument = |column: usize| request.texts(column).map(|mut texts| texts.pop());
    let (Some(name), Some(words)) = (argument(INDEX), argument(WORDS)) else {
        return Err(invalid("search takes a text index and words, for example search('orders', 'fragile glass')"));
    };
    let (Some(name), Some(words)) = (name, words) else { return Ok(Box::new(NoRows)) };
    let index = search::find(&context.database, &name)?;
    let mut found = search::search(context, &index, &words)?;
    if request.is_descending {
        found.reverse();
    }
    let (mut found, reading) = (found.into_iter(), Arc::clone(context));
    Ok(context.source(move |page, count| {
        while page.is_empty() {
            let some: Vec<_> = found.by_ref().take(count.clamp(1, ROWS_AT_ONCE)).collect();
            if some.is_empty() {
                return Ok(());
            }
            reading.check(some.len() as u64)?;
            let positions = search::readable(&reading, &index, some.iter().map(|event| event.position))?;
            for event in some.iter().filter(|event| positions.contains(&event.position)) {
                let row = [
                    index.store.as_str().into(),
                    SqlValue::count(event.position),
                    SqlValue::Real(event.rank),
                    name.as_str().into(),
                    words.as_str().into(),
                ];
                page.push(super::key(&[&index.store, &event.position.to_string(), &name, &words]), row);
            }
        }
        Ok(())
    }))
}
