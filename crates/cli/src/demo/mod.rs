//! `quire demo`: a week of flights out of New York, through all four models, while the servers run beside it.
//!
//! ```text
//! input (flights, airports) ─▶ timeline (what happened, minute by minute) ─▶ feed: one atomic commit a step
//!                                                                             │ late flights
//!                                                                             ▼
//!                              report ◀─ made (read back) ◀──────────── worker: ack + event, one commit
//! ```

mod airports;
mod explore;
mod feed;
mod flight;
mod input;
mod made;
mod minute;
mod names;
mod place;
mod report;
mod tally;
mod timeline;
mod worker;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::{Database, Position};

use crate::failure::{Failure, Result};
use crate::opening::open;
use crate::progress::Progress;
use crate::promise::Promise;
use crate::serve::tell_addresses;
use crate::servers::{Addresses, Servers};
use crate::stop::Stop;
use crate::stopwatch::Stopwatch;
use explore::Explore;
use feed::Feed;
use input::Input;
use made::Made;
use report::Report;
use tally::Tally;

/// How many partitions the topic gets, so that keys mean something.
const PARTITIONS: u32 = 3;

/// What `quire demo` takes.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Go on serving when everything is fed, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Where the database goes, a new or empty folder [default: quire-demo in the system's folder for temporary files, made
    /// anew each time]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// When a commit counts as kept
    #[arg(long, value_enum, default_value = "sync")]
    durability: Promise,
    #[command(flatten)]
    addresses: Addresses,
    /// A folder with other tables of the same form: flights*.csv and airports.csv [default: a week that is built in]
    #[arg(long, value_name = "DIR")]
    flights: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let input = Input::read(self.flights.as_deref())?;
        self.addresses.check()?;
        let data = place::prepare(self.data)?;
        let database = open(Database::builder(&data).durability(self.durability.into()))?.database;
        if database.published() > Position::ZERO {
            let message = format!("{} holds a database already; the demo wants a new or empty folder", data.display());
            return Err(Failure::new(message));
        }
        let servers = Servers::start(
            &database,
            self.addresses,
            quire_kafka::Settings::default(),
            quire_http::Settings::default(),
        )?;
        writeln!(out, "data        {}", data.display())?;
        tell_addresses(out, servers.addresses())?;
        out.flush()?;

        let mut tally = Tally::new(&input);
        let watch = Stopwatch::start();
        if !play(&database, &input, &mut tally, &servers.stop_signal())? {
            servers.stop()?;
            writeln!(out, "stopped before the end; what was committed is in {}", data.display())?;
            return Err(Failure::Interrupted);
        }
        let elapsed = watch.elapsed();
        let made = Made::read(&database)?;
        made.check(&tally)?;
        Report { tally: &tally, made: &made, elapsed, durability: database.durability() }.write(out)?;
        let addresses = servers.addresses();
        // The aircraft that was refused has a story to tell.
        let plane = tally.refusal_example.as_ref().map_or("N14228", |example| &example.plane);
        Explore { data: &data, addresses, is_serving: self.keep, plane }.write(out)?;
        if self.keep {
            writeln!(out, "\nserving until Ctrl-C")?;
            out.flush()?;
            servers.wait(&database, 0);
        }
        servers.stop()
    }
}

/// Feeds the flights and works the queue off; says whether it came to the end before it was to stop.
fn play(database: &Database, input: &Input, tally: &mut Tally, stop: &Stop) -> Result<bool> {
    database.topic(names::DEPARTURES).create(PARTITIONS)?;
    let steps = timeline::timeline(&input.flights);
    let mut progress = Progress::new("feeding flights", steps.len() as u64);
    let mut feed = Feed::new(database, input, tally);
    for step in steps {
        if stop.is_asked() {
            return Ok(false);
        }
        feed.step(step)?;
        progress.add(1);
    }
    progress.finish();
    let mut progress = Progress::new("working the queue off", tally.late);
    loop {
        let done = worker::work(database, tally)?;
        progress.add(done);
        match done {
            0 => break,
            _ if stop.is_asked() => return Ok(false),
            _ => {}
        }
    }
    progress.finish();
    Ok(true)
}
