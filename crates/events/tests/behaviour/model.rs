//! Random commits and reads, compacted in between, against a store that is written as plainly as
//! possible.
//!
//! [`Plain`] keeps events in a vector and answers by looking at all of them: it shares no code with
//! the model, neither for queries nor for conditions or repetitions.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use quire_events::{
    Append, AppendResult, Command, Condition, EventId, EventPosition, Events, NewEvent, Query, QueryItem, ReadOptions,
    Refusal,
};
use quire_model::codec::Decoder;
use quire_model::memory::World;
use quire_model::{DecideError, Effects, Model, Position, Timestamp};

const STORES: [&str; 2] = ["one", "two"];
const TYPES: [&str; 3] = ["A", "B", "C"];
const TAGS: [&str; 4] = ["a", "b", "ab", "c"];

#[derive(Debug, Clone, PartialEq, Eq)]
struct NaiveEvent {
    id: Option<u8>,
    event_type: &'static str,
    tags: Vec<&'static str>,
    data: Vec<u8>,
    metadata: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Item {
    types: Vec<&'static str>,
    tags: Vec<&'static str>,
    only_last_event: bool,
}

#[derive(Debug, Clone)]
enum AppendCondition {
    FailIfMatches(Vec<Item>, u64),
    LastIs(Vec<Item>, u64),
}

#[derive(Debug, Clone)]
enum Request {
    Append { store: usize, events: Vec<NaiveEvent>, conditions: Vec<AppendCondition> },
    Trim { store: usize, up_to: u64 },
    Forget { store: usize, tag: &'static str },
}

/// The events of each store with the number of the commit that wrote them, and the positions of
/// deleted events.
#[derive(Debug, Clone, Default)]
struct NaiveStores {
    stores: [Vec<(usize, NaiveEvent)>; 2],
    gone: [BTreeSet<u64>; 2],
    /// How many events each store had when the commit began.
    before: [u64; 2],
    commits: usize,
}

impl NaiveEvent {
    /// Two events are equal by content. For events without an id, the metadata counts too.
    fn is_repeated_by(&self, event: &NaiveEvent) -> bool {
        let tags = |event: &NaiveEvent| event.tags.iter().copied().collect::<BTreeSet<_>>();
        let said = |event: &NaiveEvent| (event.id, event.event_type, event.data.clone(), tags(event));
        said(self) == said(event) && (self.id.is_some() || self.metadata == event.metadata)
    }
}

impl Item {
    fn matches(&self, event: &NaiveEvent) -> bool {
        let type_fits = self.types.is_empty() || self.types.contains(&event.event_type);
        type_fits && self.tags.iter().all(|tag| event.tags.contains(tag))
    }
}

impl NaiveStores {
    /// The positions of events that match the query.
    fn matches(&self, store: usize, items: &[Item]) -> Vec<u64> {
        let events = self.stores[store].iter().zip(1..);
        let any = |event: &NaiveEvent| items.iter().any(|item| item.matches(event));
        let there = events.filter(|((_, event), position)| any(event) && !self.gone[store].contains(position));
        there.map(|(_, position)| position).collect()
    }

    fn decide(&mut self, request: &Request) -> Result<AppendResult, Refusal> {
        let (store, gone) = match request {
            Request::Append { store, events, conditions } => return self.append(*store, events, conditions),
            Request::Trim { store, up_to } => (*store, (1..=*up_to).collect::<BTreeSet<_>>()),
            Request::Forget { store, tag } => {
                let item = Item { types: Vec::new(), tags: vec![tag], only_last_event: false };
                let before = self.before[*store];
                (*store, self.matches(*store, &[item]).into_iter().filter(|position| *position <= before).collect())
            }
        };
        if self.stores[store].is_empty() {
            return Err(Refusal::UnknownStore);
        }
        if let Request::Trim { up_to, .. } = request
            && *up_to > self.before[store]
        {
            let (position, head) = (EventPosition::new(*up_to), EventPosition::new(self.before[store]));
            return Err(Refusal::AheadOfStore { position, head });
        }
        self.gone[store].extend(gone);
        Ok(AppendResult { first: None, last: None, duplicate: false })
    }

    fn append(
        &mut self,
        store: usize,
        events: &[NaiveEvent],
        conditions: &[AppendCondition],
    ) -> Result<AppendResult, Refusal> {
        let appended = |first: u64, duplicate| AppendResult {
            first: Some(EventPosition::new(first)),
            last: Some(EventPosition::new(first + events.len() as u64 - 1)),
            duplicate,
        };
        if events.is_empty() && conditions.is_empty() {
            return Err(Refusal::NothingAsked);
        }
        let mut ids: Vec<u8> = events.iter().filter_map(|event| event.id).collect();
        ids.sort();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refusal::RepeatedId(id(pair[0])));
        }
        let stored = &self.stores[store];
        let is_gone = |index: usize| self.gone[store].contains(&(index as u64 + 1));
        let with_id = |wanted| (0..stored.len()).find(|index| stored[*index].1.id == Some(wanted) && !is_gone(*index));
        let known = events.iter().enumerate().find_map(|(index, event)| {
            let number = event.id?;
            Some((index, number, with_id(number)?))
        });
        if let Some((index, number, at)) = known {
            let run = at.checked_sub(index).and_then(|first| stored.get(first..first + events.len()));
            if let Some(run) = run
                && run.iter().all(|(commit, _)| *commit == run[0].0)
                && !(at - index..at - index + run.len()).any(is_gone)
                && run.iter().zip(events).all(|((_, stored), event)| stored.is_repeated_by(event))
            {
                return Ok(appended((at - index) as u64 + 1, true));
            }
            let position = EventPosition::new(at as u64 + 1);
            return Err(Refusal::DuplicateEvent { event: index, id: id(number), position });
        }
        let head = stored.len() as u64;
        for (condition, asked) in conditions.iter().enumerate() {
            let failed = |position: Option<u64>| {
                Err(Refusal::ConditionFailed { condition, position: position.map(EventPosition::new) })
            };
            match asked {
                AppendCondition::FailIfMatches(_, after) if *after > head => {
                    let (after, head) = (EventPosition::new(*after), EventPosition::new(head));
                    return Err(Refusal::AfterAhead { condition, after, head });
                }
                AppendCondition::FailIfMatches(items, after) => {
                    let met = self.matches(store, items).into_iter().find(|position| position > after);
                    if met.is_some() {
                        return failed(met);
                    }
                }
                AppendCondition::LastIs(items, position) => {
                    let last = self.matches(store, items).pop();
                    if last.unwrap_or(0) != *position {
                        return failed(last);
                    }
                }
            }
        }
        if events.is_empty() {
            return Ok(AppendResult { first: None, last: None, duplicate: false });
        }
        let commit = self.commits;
        self.stores[store].extend(events.iter().map(|event| (commit, event.clone())));
        Ok(appended(head + 1, false))
    }

    fn commit(&mut self, requests: &[Request]) -> Result<Vec<AppendResult>, DecideError<Refusal>> {
        let mut after = self.clone();
        after.commits += 1;
        after.before = [0, 1].map(|store: usize| self.stores[store].len() as u64);
        let mut answers = Vec::new();
        for (command, request) in requests.iter().enumerate() {
            answers.push(after.decide(request).map_err(|refusal| DecideError::Refused { command, refusal })?);
        }
        *self = after;
        Ok(answers)
    }

    fn read(&self, store: usize, items: &[Item], options: ReadOptions) -> Vec<u64> {
        let up_to = options.up_to.map_or(u64::MAX, EventPosition::get);
        let mut positions: Vec<u64> = Vec::new();
        for item in items {
            let mut of_item = self.matches(store, std::slice::from_ref(item));
            of_item.retain(|position| *position <= up_to);
            if item.only_last_event {
                of_item.drain(..of_item.len().saturating_sub(1));
            }
            positions.extend(of_item);
        }
        let before = options.before.map_or(u64::MAX, EventPosition::get);
        positions.retain(|position| *position > options.after.get() && *position < before);
        positions.sort();
        positions.dedup();
        if options.backwards {
            positions.reverse();
        }
        positions.truncate(options.limit.map_or(usize::MAX, |limit| limit as usize));
        positions
    }
}

fn id(number: u8) -> EventId {
    EventId::from_bytes([number; 16])
}

fn query(items: &[Item]) -> Query<'static> {
    let item = |item: &Item| {
        let built = item.types.iter().fold(QueryItem::new(), |built, event_type| built.event_type(*event_type));
        let built = item.tags.iter().fold(built, |built, tag| built.tag(*tag));
        if item.only_last_event { built.only_last_event() } else { built }
    };
    Query { items: items.iter().map(item).collect() }
}

fn command(request: &Request) -> Command<'_> {
    let (store, events, conditions) = match request {
        Request::Append { store, events, conditions } => (STORES[*store], events, conditions),
        Request::Trim { store, up_to } => {
            return Command::Trim { store: STORES[*store], up_to: EventPosition::new(*up_to) };
        }
        Request::Forget { store, tag } => return Command::Forget { store: STORES[*store], tag: tag.as_bytes() },
    };
    let event = |event: &'static str| NewEvent::new(event);
    let events = events.iter().map(|happened| {
        let new = happened.tags.iter().fold(event(happened.event_type), |new, tag| new.tag(*tag));
        NewEvent {
            id: happened.id.map(id),
            data: (&happened.data).into(),
            metadata: (&happened.metadata).into(),
            ..new
        }
    });
    let conditions = conditions.iter().map(|asked| match asked {
        AppendCondition::FailIfMatches(items, after) => {
            Condition::fail_if_matches_after(query(items), EventPosition::new(*after))
        }
        AppendCondition::LastIs(items, position) => Condition::last_is(query(items), EventPosition::new(*position)),
    });
    Command::Append(Append { store, events: events.collect(), conditions: conditions.collect() })
}

fn happened() -> impl Strategy<Value = NaiveEvent> {
    let bytes = || vec(any::<u8>(), 0..3);
    let id = proptest::option::weighted(0.3, 1..13u8);
    (id, select(&TYPES[..]), subsequence(&TAGS[..], 0..=3), bytes(), bytes())
        .prop_map(|(id, event_type, tags, data, metadata)| NaiveEvent { id, event_type, tags, data, metadata })
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let item = (subsequence(&TYPES[..], 0..=2), subsequence(&TAGS[..], 0..=2), proptest::bool::weighted(0.2));
    vec(item.prop_map(|(types, tags, only_last_event)| Item { types, tags, only_last_event }), 1..4)
}

/// A condition with `only_last_event` is refused.
fn asked() -> impl Strategy<Value = AppendCondition> {
    let items = || {
        items().prop_map(|mut items| {
            items.iter_mut().for_each(|item| item.only_last_event = false);
            items
        })
    };
    prop_oneof![
        (items(), 0..16u64).prop_map(|(items, after)| AppendCondition::FailIfMatches(items, after)),
        (items(), 0..12u64).prop_map(|(items, position)| AppendCondition::LastIs(items, position)),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let store = || 0..2usize;
    let append = (store(), vec(happened(), 0..4), vec(asked(), 0..2));
    prop_oneof![
        12 => append.prop_map(|(store, events, conditions)| Request::Append { store, events, conditions }),
        1 => (store(), 0..9u64).prop_map(|(store, up_to)| Request::Trim { store, up_to }),
        2 => (store(), select(&TAGS[..])).prop_map(|(store, tag)| Request::Forget { store, tag }),
    ]
}

/// Some commits send an earlier one again.
fn commits() -> impl Strategy<Value = Vec<Vec<Request>>> {
    vec((vec(request(), 1..4), any::<Option<prop::sample::Index>>()), 1..24).prop_map(|drawn| {
        let mut commits: Vec<Vec<Request>> = Vec::new();
        for (index, (fresh, again)) in drawn.into_iter().enumerate() {
            let repeated = again.filter(|_| index % 3 == 2).map(|again| again.get(&commits).clone());
            commits.push(repeated.unwrap_or(fresh));
        }
        commits
    })
}

fn options() -> impl Strategy<Value = ReadOptions> {
    let position = || (0..40u64).prop_map(EventPosition::new);
    let after = prop_oneof![Just(EventPosition::ZERO), position()];
    let maybe = || proptest::option::of(position());
    (after, maybe(), maybe(), any::<bool>(), proptest::option::of(0..5u64))
        .prop_map(|(after, up_to, before, backwards, limit)| ReadOptions { after, up_to, before, backwards, limit })
}

/// The positions that a read returns; checks that each event is the appended one.
fn read(world: &World<Events>, plain: &NaiveStores, store: usize, items: &[Item], options: ReadOptions) -> Vec<u64> {
    let selection = world.model.select(STORES[store], &query(items)).expect("the query can be asked");
    let reading = selection.read(&world.log, options).expect("memory can be read");
    assert_eq!(reading.head().get(), plain.stores[store].len() as u64);
    let events = reading.map(|event| event.expect("memory can be read"));
    let positions = events.map(|event| {
        let (_, given) = &plain.stores[store][event.position.get() as usize - 1];
        assert_eq!(event.event_type, given.event_type);
        assert_eq!(event.given_id, given.id.map(id));
        assert_eq!(event.data, given.data);
        assert_eq!(event.metadata, given.metadata);
        assert!(event.tags().eq(given.tags.iter().map(|tag| tag.as_bytes())));
        event.position.get()
    });
    let positions: Vec<u64> = positions.collect();
    let mut visited = Vec::new();
    let reading = selection.read(&world.log, options).expect("memory can be read");
    let read = reading.visit(&mut |event| {
        visited.push(event.position.get());
        ControlFlow::Continue(())
    });
    read.expect("memory can be read");
    assert_eq!(visited, positions, "a visit passes the events of the iteration");
    positions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn replies_and_reads_equal_those_of_a_naive_store(
        commits in commits(),
        compactions in vec(proptest::option::weighted(0.3, 0..24u64), 24),
        reads in vec((0..2usize, items(), options()), 1..24),
    ) {
        let (mut world, mut plain) = (World::<Events>::new(), NaiveStores::default());
        for (requests, compaction) in commits.iter().zip(compactions) {
            let commands: Vec<Command<'_>> = requests.iter().map(command).collect();
            let answer = world.commit(Timestamp::from_millis(plain.commits as u64), &commands);
            prop_assert_eq!(answer, plain.commit(requests));
            if let Some(before) = compaction {
                let World { log, model } = &mut world;
                log.compact(Position::new(before), |entry| model.survives(entry, Timestamp::ZERO));
            }
        }
        for (store, items, options) in &reads {
            let found = read(&world, &plain, *store, items, *options);
            prop_assert_eq!(found, plain.read(*store, items, *options));
        }
        for (store, name) in STORES.iter().enumerate() {
            for ((_, event), position) in plain.stores[store].iter().zip(1..) {
                if let Some(number) = event.id
                    && !plain.gone[store].contains(&position)
                {
                    let found = world.model.event_by_id(&world.log, name, id(number)).expect("memory can be read");
                    prop_assert_eq!(found.map(|event| event.position.get()), Some(position));
                }
            }
        }
    }

    #[test]
    fn an_earlier_lookup_changes_no_reply(
        commits in commits(),
        lags in vec((0..4usize, 0..4usize), 1..8),
    ) {
        let mut world = World::<Events>::new();
        let mut past = vec![(world.model.clone(), world.log.clone())];
        for (index, requests) in commits.iter().enumerate() {
            let commands: Vec<Command<'_>> = requests.iter().map(command).collect();
            let time = Timestamp::from_millis(index as u64);
            let (state_lag, log_lag) = lags[index % lags.len()];
            let before = |lag: usize| &past[past.len().saturating_sub(lag + 1)];
            let prepared = before(state_lag).0.prepare(&commands).look(&before(log_lag).1).expect("memory can be read");
            let (mut draft, mut replies) = (world.log.draft(time), Vec::new());
            let at = draft.at();
            let decided =
                world.model.decide_prepared(&world.log, at, &commands, &prepared, &mut draft, &mut replies);
            let (mut plain_draft, mut plain_replies) = (world.log.draft(time), Vec::new());
            let plain = world.model.decide(&world.log, at, &commands, &mut plain_draft, &mut plain_replies);
            prop_assert_eq!(&decided, &plain);
            if plain.is_ok() {
                prop_assert_eq!(replies, plain_replies);
                prop_assert_eq!(format!("{:?}", draft.finish()), format!("{:?}", plain_draft.finish()));
            }
            let _ = world.commit(time, &commands);
            past.push((world.model.clone(), world.log.clone()));
        }
    }

    #[test]
    fn a_restart_anywhere_finds_the_same_state(commits in commits()) {
        let mut world = World::<Events>::new();
        for requests in &commits {
            let commands: Vec<Command<'_>> = requests.iter().map(command).collect();
            let _ = world.commit(Timestamp::ZERO, &commands);
        }
        let live = World::saved(&world.model);
        for position in 0..=world.log.tail().get() {
            let restarted = world.restarted(Position::new(position));
            prop_assert_eq!(&World::saved(&restarted), &live);
            prop_assert_eq!(&restarted, &world.model);
        }
    }

    #[test]
    fn invalid_bytes_of_a_checkpoint_are_an_error_and_not_a_panic(bytes in any::<Vec<u8>>()) {
        let _ = Events::load(&mut Decoder::new(&bytes));
    }
}
