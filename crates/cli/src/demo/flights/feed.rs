//! Feeds the flights: one atomic commit per step of the timeline.
//!
//! ```text
//! departure ─▶ read: the plane's last arrival (tag `plane:…`, type `Arrived`)
//!           ─▶ commit, if no `Departed` of that plane comes after it:
//!                event `Departed` in air/flights · message in departures · job in air/delays when it is late
//!                · airport blocks and the route in air/routes
//!           ─▶ refused: the plane is still in the air, and the refusal names the event
//! ```
//! The feed keeps no list of planes in the air. The condition checks it atomically with the commit.

use std::collections::HashSet;

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions, Refusal};
use quire::jobs::JobSpec;
use quire::{AcceptedCommit, Commit, CommitRefusal, Database, Message, NewBlock, NewEdge, Outcome, Reason, Reply};
use serde_json::json;

use super::flight::{Departure, Flight};
use super::input::FlightTables;
use super::names::{AIRPORT, DELAYS, DEPARTURES, FLIES_TO, FLIGHTS, LATE_MINUTES, ROUTES};
use super::tally::{RefusalExample, Tally};
use super::timeline::{FlightIndex, TimelineStep};
use crate::failure::{CommandError, Result};
use crate::stopwatch::Stopwatch;

/// Feeds the flights of an input to a database.
#[derive(Debug)]
pub(super) struct Feed<'f> {
    database: &'f Database,
    input: &'f FlightTables,
    /// The position of the departure of each flight, once it is committed.
    departed: Vec<Option<EventPosition>>,
    airports_put: HashSet<&'f str>,
    tally: &'f mut Tally,
}

impl<'f> Feed<'f> {
    /// Starts with no flight fed.
    pub(super) fn new(database: &'f Database, input: &'f FlightTables, tally: &'f mut Tally) -> Self {
        let departed = vec![None; input.flights.len()];
        Feed { database, input, departed, airports_put: HashSet::new(), tally }
    }

    /// Commits a step of the timeline.
    ///
    /// # Errors
    /// When the database fails, or refuses a step for another reason than a plane in the air.
    pub(super) fn step(&mut self, step: TimelineStep) -> Result {
        let input = self.input;
        match step {
            TimelineStep::Depart(index) => {
                let flight = &input.flights[index];
                let departure = flight.departure.as_ref().expect("a flight that departs has a departure");
                self.depart(index, flight, departure)
            }
            TimelineStep::Arrive(index) => match self.departed[index] {
                Some(departed) => self.arrive(&input.flights[index], departed),
                // Its departure was refused, so it can't arrive.
                None => Ok(()),
            },
            TimelineStep::Cancel(index) => self.cancel(&input.flights[index]),
        }
    }

    fn depart(&mut self, index: FlightIndex, flight: &'f Flight, departure: &Departure) -> Result {
        let tags = FlightTags::of(flight);
        let event = json!({
            "flight": flight.name, "plane": flight.plane, "origin": flight.origin, "dest": flight.dest,
            "scheduled": flight.scheduled.to_string(), "departed": departure.at.to_string(),
            "delay_minutes": departure.delay_minutes,
        })
        .to_string();
        let condition = tags.plane.as_deref().map(|plane| self.is_on_the_ground(plane)).transpose()?;
        let route = json!({ "distance_miles": flight.distance_miles }).to_string();
        let mut commit = Commit::new()
            .append_if(FLIGHTS, [tags.on(NewEvent::new("Departed")).data(&event)], condition)
            .produce(DEPARTURES, Message::new(&event).key(&flight.origin));
        let job_tags = [tags.flight.as_str()];
        let is_late = departure.delay_minutes >= LATE_MINUTES;
        if is_late {
            let job = JobSpec { kind: "notify-passengers", tags: &job_tags, ..JobSpec::new(event.as_bytes()) };
            commit = commit.enqueue(DELAYS, job);
        }
        let new_airports: Vec<&str> = self.airports_not_put(flight);
        let contents: Vec<Vec<u8>> = new_airports.iter().map(|code| self.airport_content(code)).collect();
        for (code, content) in new_airports.iter().zip(&contents) {
            commit = commit.put_block(ROUTES, NewBlock::new(*code, AIRPORT).content(content));
        }
        let edge = NewEdge::new(flight.origin.as_str(), FLIES_TO, flight.dest.as_str());
        commit = commit.put_edge(ROUTES, edge.properties(&*route));

        match self.commit(&commit)? {
            Outcome::Committed(committed) => {
                self.departed[index] = Some(position_of(&committed));
                self.airports_put.extend(new_airports);
                self.tally.departed += 1;
                self.tally.late += u64::from(is_late);
                Ok(())
            }
            Outcome::Refused(refused) => self.refuse(flight, departure, &refused),
        }
    }

    /// The condition that this plane has not departed since its last arrival.
    fn is_on_the_ground<'t>(&self, plane_tag: &'t str) -> Result<Condition<'t>> {
        let arrivals = Query::from(QueryItem::new().event_type("Arrived").tag(plane_tag).only_last_event());
        let mut last_arrival = EventPosition::ZERO;
        self.database
            .events(FLIGHTS)
            .visit(&arrivals, ReadOptions::default(), |event| last_arrival = event.position)?;
        let departures = Query::from(QueryItem::new().event_type("Departed").tag(plane_tag));
        Ok(Condition::fail_if_matches_after(departures, last_arrival))
    }

    fn arrive(&mut self, flight: &Flight, departed: EventPosition) -> Result {
        let tags = FlightTags::of(flight);
        let arrival = flight.departure.as_ref().and_then(|departure| departure.arrival.minute());
        let arrived = arrival.map(|minute| minute.to_string());
        let event = json!({ "flight": flight.name, "plane": flight.plane, "dest": flight.dest, "arrived": arrived });
        let event = event.to_string();
        let condition = tags.plane.as_deref().map(|plane| {
            let moves = QueryItem::new().event_type("Departed").event_type("Arrived").tag(plane);
            Condition::last_is(Query::from(moves), departed)
        });
        let commit = Commit::new().append_if(FLIGHTS, [tags.on(NewEvent::new("Arrived")).data(&event)], condition);
        self.commit(&commit)?.committed()?;
        self.tally.arrived += 1;
        Ok(())
    }

    fn cancel(&mut self, flight: &Flight) -> Result {
        let tags = FlightTags::of(flight);
        let event = json!({
            "flight": flight.name, "plane": flight.plane, "origin": flight.origin, "dest": flight.dest,
            "scheduled": flight.scheduled.to_string(),
        })
        .to_string();
        let commit = Commit::new().append(FLIGHTS, [tags.on(NewEvent::new("Cancelled")).data(&event)]);
        self.commit(&commit)?.committed()?;
        self.tally.cancelled += 1;
        Ok(())
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome> {
        let watch = Stopwatch::start();
        let outcome = self.database.commit(commit)?;
        if matches!(outcome, Outcome::Committed(_)) {
            self.tally.latencies.record(watch.elapsed());
        }
        Ok(outcome)
    }

    /// Counts a refused departure, and describes the first one.
    fn refuse(&mut self, flight: &Flight, departure: &Departure, refused: &CommitRefusal) -> Result {
        let Reason::Events(Refusal::ConditionFailed { position: Some(met), .. }) = refused.reason else {
            return Err(CommandError::new(format!("flight {} was refused: {refused}", flight.name)));
        };
        self.tally.refused += 1;
        if self.tally.refusal_example.is_none() {
            let before = EventPosition::new(met.get() - 1);
            let options = ReadOptions { after: before, limit: Some(1), ..ReadOptions::default() };
            let read = self.database.events(FLIGHTS).read(&Query::all(), options)?;
            let event = read.events.first().expect("the event that a refusal names is there");
            let earlier: serde_json::Value = serde_json::from_slice(&event.data).unwrap_or_default();
            let said = |field: &str| earlier[field].as_str().unwrap_or("?").to_owned();
            let plane = flight.plane.clone().unwrap_or_default();
            let story = [
                format!(
                    "{} {} to {} was to leave at {} with {plane}, which is still in the air:",
                    flight.name, flight.origin, flight.dest, departure.at
                ),
                format!(
                    "it left as {} {} to {} at {} (event {met}), and has not arrived since.",
                    said("flight"),
                    said("origin"),
                    said("dest"),
                    said("departed"),
                ),
                format!("Quire refused the commit: {}.", refused.reason),
            ];
            self.tally.refusal_example = Some(RefusalExample { plane, story });
        }
        Ok(())
    }

    fn airports_not_put(&self, flight: &'f Flight) -> Vec<&'f str> {
        let mut codes = vec![flight.origin.as_str(), flight.dest.as_str()];
        codes.dedup();
        codes.retain(|code| !self.airports_put.contains(code));
        codes
    }

    /// The table's row of an airport; only the code for an airport that is not in the table.
    fn airport_content(&self, code: &str) -> Vec<u8> {
        let content = match self.input.airports.get(code) {
            Some(airport) => json!(airport),
            None => json!({ "code": code, "unknown": true }),
        };
        content.to_string().into_bytes()
    }
}

/// The position of the event that the first part appended.
fn position_of(committed: &AcceptedCommit) -> EventPosition {
    match committed.replies.first() {
        Some(Reply::Events(appended)) => appended.first.expect("an event was appended"),
        other => unreachable!("the first part appends an event, and was answered by {other:?}"),
    }
}

/// The tags of a flight's events.
struct FlightTags {
    plane: Option<String>,
    flight: String,
    airports: [String; 2],
}

impl FlightTags {
    fn of(flight: &Flight) -> Self {
        FlightTags {
            plane: flight.plane.as_ref().map(|plane| format!("plane:{plane}")),
            flight: format!("flight:{}", flight.name),
            airports: [&flight.origin, &flight.dest].map(|code| format!("airport:{code}")),
        }
    }

    fn on<'t>(&'t self, event: NewEvent<'t>) -> NewEvent<'t> {
        let all = self.plane.iter().chain([&self.flight]).chain(&self.airports);
        all.fold(event, |event, tag| event.tag(tag))
    }
}
