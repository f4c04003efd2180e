//! The checks that need no state: sizes, counts and names.

use crate::limits::{
    CONDITIONS_MAX, EVENTS_MAX, NAME_BYTES_MAX, PROJECTION_BYTES_MAX, QUERY_WALKS_MAX, SOURCE_BYTES_MAX, TAG_BYTES_MAX,
    TAGS_MAX, TYPE_BYTES_MAX,
};
use crate::{
    Append, Condition, EventId, EventProblem, LabelProblem, NameProblem, NewEvent, PutSubscription, Query,
    QueryProblem, Refusal, Upstream,
};

/// Checks everything about an append that does not depend on the store.
pub(crate) fn check_append(append: &Append<'_>) -> Result<(), Refusal> {
    check_name(append.store).map_err(Refusal::InvalidName)?;
    if append.events.is_empty() && append.conditions.is_empty() {
        return Err(Refusal::NothingAsked);
    }
    check_counts(append)?;
    for (index, event) in append.events.iter().enumerate() {
        check_event(event).map_err(|problem| Refusal::InvalidEvent { event: index, problem })?;
    }
    check_queries(append)
}

/// Checks the parts of an append that are looked up before its turn.
pub(crate) fn check_looked_up(append: &Append<'_>) -> Result<(), Refusal> {
    check_counts(append)?;
    check_queries(append)
}

fn check_counts(append: &Append<'_>) -> Result<(), Refusal> {
    if append.events.len() > EVENTS_MAX {
        return Err(Refusal::TooManyEvents { events: append.events.len() });
    }
    if append.conditions.len() > CONDITIONS_MAX {
        return Err(Refusal::TooManyConditions { conditions: append.conditions.len() });
    }
    Ok(())
}

fn check_queries(append: &Append<'_>) -> Result<(), Refusal> {
    for (index, condition) in append.conditions.iter().enumerate() {
        check_condition(Condition::query(condition))
            .map_err(|problem| Refusal::InvalidQuery { condition: index, problem })?;
    }
    Ok(())
}

/// Checks the query of a condition. `only_last_event` would have no effect in it.
fn check_condition(query: &Query<'_>) -> Result<(), QueryProblem> {
    check_query(query)?;
    match query.items.iter().position(|item| item.only_last_event) {
        Some(item) => Err(QueryProblem::OnlyLastEvent { item }),
        None => Ok(()),
    }
}

/// Checks everything about an upstream that does not depend on the store.
pub(crate) fn check_upstream(upstream: &Upstream<'_>) -> Result<(), Refusal> {
    check_name(upstream.store).map_err(Refusal::InvalidName)?;
    match upstream.source.len() {
        0 => Err(Refusal::InvalidSource(LabelProblem::Empty)),
        bytes if bytes > SOURCE_BYTES_MAX => {
            Err(Refusal::InvalidSource(LabelProblem::TooLong { bytes, bytes_max: SOURCE_BYTES_MAX }))
        }
        _ => Ok(()),
    }
}

/// Checks that a new name or label has no control character, if it is text. Those in the log may
/// have some. A tag that is no text is shown as base64.
pub(crate) fn check_printable(label: &[u8]) -> Result<(), LabelProblem> {
    // Every control character has such a byte, and most labels have none.
    let may_begin_control = |byte: &u8| *byte < 0x20 || matches!(byte, 0x7f | 0xc2);
    if label.iter().any(may_begin_control) { check_each_character(label) } else { Ok(()) }
}

#[cold]
fn check_each_character(label: &[u8]) -> Result<(), LabelProblem> {
    let Ok(text) = core::str::from_utf8(label) else { return Ok(()) };
    match text.char_indices().find(|(_, character)| character.is_control()) {
        Some((at, _)) => Err(LabelProblem::Control { at }),
        None => Ok(()),
    }
}

/// Checks everything about a subscription that does not depend on the state.
pub(crate) fn check_subscription(put: &PutSubscription<'_>) -> Result<(), Refusal> {
    check_name(put.store).map_err(Refusal::InvalidName)?;
    check_name(put.name).map_err(Refusal::InvalidSubscriptionName)?;
    check_query(&put.query).map_err(Refusal::InvalidSubscriptionQuery)?;
    match (put.attempts.attempts_max, put.attempts.group_by.len()) {
        (0, _) => Err(Refusal::NoAttempts),
        (_, bytes) if bytes > TAG_BYTES_MAX => {
            Err(Refusal::InvalidGroupBy(LabelProblem::TooLong { bytes, bytes_max: TAG_BYTES_MAX }))
        }
        _ => check_printable(put.attempts.group_by.as_bytes()).map_err(Refusal::InvalidGroupBy),
    }
}

/// Checks the names of a projection.
pub(crate) fn check_projection(store: &str, name: &str) -> Result<(), Refusal> {
    check_name(store).map_err(Refusal::InvalidName)?;
    match name.len() {
        0 => Err(Refusal::InvalidProjectionName(LabelProblem::Empty)),
        bytes if bytes > PROJECTION_BYTES_MAX => {
            Err(Refusal::InvalidProjectionName(LabelProblem::TooLong { bytes, bytes_max: PROJECTION_BYTES_MAX }))
        }
        _ => Ok(()),
    }
}

/// Names are paths of segments: `[A-Za-z0-9._-]`, joined by single slashes. The names `.` and `..`
/// are refused, because clients remove them from the path of an address, escaped or not.
pub(crate) fn check_name(name: &str) -> Result<(), NameProblem> {
    if name.is_empty() {
        return Err(NameProblem::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameProblem::TooLong { bytes: name.len() });
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if let Some(at) = name.bytes().position(|byte| !allowed(byte)) {
        return Err(NameProblem::Character { at });
    }
    if name.split('/').any(str::is_empty) {
        return Err(NameProblem::EmptySegment);
    }
    if matches!(name, "." | "..") {
        return Err(NameProblem::Dots);
    }
    Ok(())
}

fn check_event(event: &NewEvent<'_>) -> Result<(), EventProblem> {
    check_type(&event.event_type).map_err(EventProblem::Type)?;
    check_printable(event.event_type.as_bytes()).map_err(EventProblem::Type)?;
    if event.id == Some(EventId::NIL) {
        return Err(EventProblem::NilId);
    }
    if event.tags.len() > TAGS_MAX {
        return Err(EventProblem::TooManyTags { tags: event.tags.len() });
    }
    for (tag, bytes) in event.tags.iter().enumerate() {
        check_tag(bytes).and_then(|()| check_printable(bytes)).map_err(|problem| EventProblem::Tag { tag, problem })?;
    }
    Ok(())
}

/// Checks everything about a query. A query that no event can match is refused rather than answered
/// with no events.
pub(crate) fn check_query(query: &Query<'_>) -> Result<(), QueryProblem> {
    if query.items.is_empty() {
        return Err(QueryProblem::NoItems);
    }
    let walks = query.items.iter().map(|item| item.walk_count()).sum();
    if walks > QUERY_WALKS_MAX {
        return Err(QueryProblem::TooManyWalks { walks });
    }
    for (item, asked) in query.items.iter().enumerate() {
        for (index, event_type) in asked.types.iter().enumerate() {
            check_type(event_type).map_err(|problem| QueryProblem::Type { item, index, problem })?;
        }
        if asked.tags.len() > TAGS_MAX {
            return Err(QueryProblem::TooManyTags { item, tags: asked.tags.len() });
        }
        for (index, tag) in asked.tags.iter().enumerate() {
            check_tag(tag).map_err(|problem| QueryProblem::Tag { item, index, problem })?;
        }
    }
    Ok(())
}

fn check_type(event_type: &str) -> Result<(), LabelProblem> {
    match event_type.len() {
        0 => Err(LabelProblem::Empty),
        bytes if bytes > TYPE_BYTES_MAX => Err(LabelProblem::TooLong { bytes, bytes_max: TYPE_BYTES_MAX }),
        _ => Ok(()),
    }
}

/// Checks a tag.
pub(crate) fn check_label(tag: &[u8]) -> Result<(), LabelProblem> {
    check_tag(tag)
}

fn check_tag(tag: &[u8]) -> Result<(), LabelProblem> {
    match tag.len() {
        0 => Err(LabelProblem::Empty),
        bytes if bytes > TAG_BYTES_MAX => Err(LabelProblem::TooLong { bytes, bytes_max: TAG_BYTES_MAX }),
        _ => match tag.iter().position(|byte| *byte == 0) {
            Some(at) => Err(LabelProblem::Nul { at }),
            None => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn exactly_the_control_characters_are_not_printable() {
        for character in '\0'..=char::MAX {
            let checked = check_printable(format!("a{character}b").as_bytes());
            let expected = if character.is_control() { Err(LabelProblem::Control { at: 1 }) } else { Ok(()) };
            assert_eq!(checked, expected, "{character:?}");
        }
    }

    #[test]
    fn a_label_that_is_not_text_is_not_searched_for_control_characters() {
        assert_eq!(check_printable(b"\x00\xff"), Ok(()));
    }
}
