//! `quire demo`: a story about what Quire promises, then a week of flights as the bulk load.
//!
//! ```text
//! place (an empty directory) ─▶ story (processes are killed) ─▶ servers ─▶ flights ─▶ explore (commands to look around)
//! ```

mod cluster;
mod explore;
mod flights;
mod place;
mod story;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use quire::{Database, Position};

use crate::connections::ServerSettings;
use crate::durability::DurabilityArg;
use crate::exposure::ServerProtection;
use crate::failure::{CommandError, Result};
use crate::opening::{DamageReports, open};
use crate::serve::tell_addresses;
use crate::servers::{Addresses, Servers};
use crate::stop::StopSignal;
use crate::threads;
use explore::{Example, Explore};
use flights::FlightTables;

/// The arguments of `quire demo`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Demo {
    #[command(subcommand)]
    child: Option<ChildProcess>,
    /// Tell the story only; skip the bulk load of flights
    #[arg(long)]
    fast: bool,
    /// Start three nodes instead, and kill the leader under load
    #[arg(long, conflicts_with_all = ["fast", "keep", "flights"])]
    cluster: bool,
    /// Keep serving after the demo, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Directory for the database, new or empty [default: quire-demo in the system's temporary
    /// directory, replaced each time]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Durability of commits
    #[arg(long, value_enum, default_value = "sync")]
    durability: DurabilityArg,
    #[command(flatten)]
    addresses: Addresses,
    /// Directory with flights*.csv and airports.csv of your own [default: the built-in week of
    /// flights]
    #[arg(long, value_name = "DIR", conflicts_with = "fast")]
    flights: Option<PathBuf>,
}

/// The child processes of the demo.
#[derive(Debug, Subcommand)]
enum ChildProcess {
    /// Take payments
    #[command(hide = true)]
    Worker(story::PaymentWorker),
}

impl Demo {
    pub(crate) fn run(mut self, out: &mut dyn Write) -> Result {
        if let Some(ChildProcess::Worker(worker)) = self.child {
            return worker.run(out);
        }
        if self.cluster {
            let data = place::prepare(self.data.take())?;
            let runtime = threads::start(1)?;
            let stop = StopSignal::on_signals(&runtime)?;
            return cluster::tell(&data, &stop, out);
        }
        let input = if self.fast { None } else { Some(FlightTables::read(self.flights.as_deref())?) };
        if self.serves() {
            let protection = ServerProtection { requires_certificates: None, has_access_control: false, data: None };
            self.addresses.check(None, protection)?;
        }
        let data = place::prepare(self.data.take())?;
        let database = open(Database::builder(&data).durability(self.durability.into()))?.database;
        if database.published() > Position::ZERO {
            let message =
                format!("{} already holds a database; the demo needs a new or empty directory", data.display());
            return Err(CommandError::new(message));
        }
        let runtime = threads::start(1)?;
        let stop = StopSignal::on_signals(&runtime)?;
        writeln!(out, "data        {}", data.display())?;
        match self.play(database, &data, input.as_ref(), &stop, out) {
            // Child processes get the signal too, and fail for that reason.
            Err(_) if stop.is_asked() => {
                writeln!(out, "stopped before the end; what was committed is in {}", data.display())?;
                Err(CommandError::Interrupted)
            }
            played => played,
        }
    }

    /// Whether the demo serves its database, during the load or afterwards.
    fn serves(&self) -> bool {
        self.keep || !self.fast
    }

    fn play(
        &self,
        database: Database,
        data: &Path,
        input: Option<&FlightTables>,
        stop: &StopSignal,
        out: &mut dyn Write,
    ) -> Result {
        let durability = database.durability();
        story::tell(database, data, stop, out)?;
        if !self.serves() {
            return self.explore(data, &self.addresses, &Example::shop()).write(out);
        }
        let database = open(Database::builder(data).durability(durability))?.database;
        let servers = Servers::start(&database, None, &self.addresses, ServerSettings::default(), None, None, None)?;
        let served = self.serve(&database, &servers, data, input, out);
        servers.stop()?;
        served
    }

    /// Loads the flights while the servers run. Keeps them running with `--keep`.
    fn serve(
        &self,
        database: &Database,
        servers: &Servers,
        data: &Path,
        input: Option<&FlightTables>,
        out: &mut dyn Write,
    ) -> Result {
        let mut example = Example::shop();
        if let Some(input) = input {
            writeln!(out, "\n5. A week of flights out of New York, loaded in bulk while the servers run")?;
            tell_addresses(out, servers.addresses(), false)?;
            out.flush()?;
            let plane = flights::load(database, input, &servers.stop_signal(), out)?;
            example = Example::flights(&plane);
        } else {
            writeln!(out)?;
            tell_addresses(out, servers.addresses(), false)?;
        }
        self.explore(data, servers.addresses(), &example).write(out)?;
        if self.keep {
            writeln!(out, "\nserving until Ctrl-C")?;
            out.flush()?;
            let mut damage = DamageReports::default();
            servers.wait(|| damage.tell_new(database));
        }
        Ok(())
    }

    fn explore<'e>(&self, data: &'e Path, addresses: &'e Addresses, example: &'e Example) -> Explore<'e> {
        Explore { data, addresses, is_serving: self.keep, example }
    }
}
