//! A round: processes run on one directory and are attacked until the time is up. Then the
//! directory is compared with their answers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use crate::attack::{self, Attack};
use crate::client::Task;
use crate::inspect::inspect;
use crate::ledger::{Ledger, Line};
use crate::place::RoundPlace;
use crate::processes::{ClientLine, RunProcess};

/// Clients with an embedded database, and clients of the server.
const EMBEDDED: usize = 3;
const OVER_HTTP: usize = 2;
/// How long a round runs, unless the small filesystem fills up earlier.
const ROUND: Duration = Duration::from_secs(10);
const ROOM_BYTES_MIN: u64 = 48 << 20;
/// How long to wait until a full disk refuses a commit: the current segment is full before that.
const FULL_MAX: Duration = Duration::from_secs(10);
/// Without an acknowledgement for this time, the database counts as stuck.
const SILENCE: Duration = Duration::from_secs(30);
/// The interval of checks.
const LOOK: Duration = Duration::from_millis(10);

/// Runs rounds until the time is up.
///
/// # Errors
/// The inconsistency found.
pub(crate) fn run(seconds: u64, server: &Path, seed: u64) -> Result<(), String> {
    if !server.is_file() {
        return Err(format!("missing program {}", server.display()));
    }
    let begun = now();
    let mut random = Rng::with_seed(seed);
    let (mut filled, mut met) = (0, 0);
    for number in 0.. {
        if number > 0 && begun.elapsed() + ROUND / 2 > Duration::from_secs(seconds) {
            break;
        }
        let sync = number % 2 == 1;
        // Every third round is on the disk itself; the first of them is the second, so that a short
        // run has one.
        let place =
            if number % 3 == 1 { RoundPlace::on_disk()? } else { RoundPlace::small().or_else(on_disk_instead)? };
        let kind = if place.is_small() { "a small filesystem" } else { "the disk" };
        println!("round {number}: {} on {kind}", if sync { "sync" } else { "os" });
        let mut round = AttackRound::begin(place, server, sync, random.fork())?;
        if let Err(message) = round.go_on().and_then(|()| round.end()) {
            let attacks = round.attacks.to_string();
            round.processes.clear();
            drop(round.server.take());
            let is_small = round.place.is_small();
            let kept = round.place.keep();
            let kept = kept.display();
            let mounted = if is_small {
                format!(", a filesystem in memory: after the inspection, `umount {kept}`")
            } else {
                String::new()
            };
            return Err(format!("{message}\nafter {attacks}\nthe files are in {kept}{mounted}"));
        }
        println!("    {}\n    {}", round.attacks, round.ledger);
        filled += round.attacks.count(FILLED);
        met += round.ledger.full;
    }
    match (filled, met) {
        (0, _) => println!("NOT ATTACKED: no disk was filled, because mounting a small filesystem takes root"),
        (_, 0) => return Err(format!("the disk was full {filled} times, but no commit was refused for lack of space")),
        _ => println!("the disk was full {filled} times, and {met} commits were refused for lack of space"),
    }
    Ok(())
}

fn on_disk_instead(problem: String) -> Result<RoundPlace, String> {
    println!("{problem}: no disk is filled in this round");
    RoundPlace::on_disk()
}

struct AttackRound {
    place: RoundPlace,
    sync: bool,
    program: PathBuf,
    http: String,
    random: Rng,
    /// The clients by index, the embedded ones first.
    processes: Vec<RunProcess>,
    server: Option<RunProcess>,
    told: Sender<ClientLine>,
    lines: Receiver<ClientLine>,
    ledger: Ledger,
    attacks: Attacks,
    /// The end of each attack in progress.
    ongoing: Vec<(Instant, PendingEnd)>,
    /// When the disk became full, and how many commits had been refused for that before.
    filled: Option<(Instant, u64)>,
    /// Until when a full disk and missing handles may still cause errors.
    starved_until: Instant,
    progress: Instant,
    /// How many clients were started.
    runs: u64,
}

/// An attack that ends after a while.
enum PendingEnd {
    /// A process is stopped: a client, or the server.
    Stopped(Option<usize>),
    Full,
    /// A process gets no further handles.
    NoHandles(Option<usize>),
}

/// How often each attack was made.
#[derive(Default)]
struct Attacks(BTreeMap<&'static str, u64>);

const FILLED: &str = "filled";

impl Attacks {
    fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Attacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no attack");
        }
        let counts: Vec<_> = self.0.iter().map(|(what, count)| format!("{what} {count}")).collect();
        f.write_str(&counts.join(", "))
    }
}

impl AttackRound {
    fn begin(place: RoundPlace, server: &Path, sync: bool, random: Rng) -> Result<Self, String> {
        let (told, lines) = mpsc::channel();
        let mut round = AttackRound {
            place,
            sync,
            program: server.to_owned(),
            http: free_address()?,
            random,
            processes: Vec::new(),
            server: None,
            told,
            lines,
            ledger: Ledger::default(),
            attacks: Attacks::default(),
            ongoing: Vec::new(),
            filled: None,
            starved_until: now(),
            progress: now(),
            runs: 0,
        };
        round.start_server()?;
        for place in 0..EMBEDDED + OVER_HTTP {
            let client = round.start_client(place)?;
            round.processes.push(client);
        }
        Ok(round)
    }

    fn start_server(&mut self) -> Result<(), String> {
        self.server = Some(RunProcess::server(&self.program, &self.place.data(), &self.http, self.sync)?);
        Ok(())
    }

    fn start_client(&mut self, place: usize) -> Result<RunProcess, String> {
        self.runs += 1;
        let name = format!("client{place}");
        let task = if place < EMBEDDED {
            Task::embedded(self.place.data(), self.sync, &name, self.runs)
        } else {
            Task::over_http(&self.http, &name, self.runs)
        };
        RunProcess::client(&task, &name, &self.told)
    }

    /// Attacks until the time is up, and then waits until every client makes progress.
    fn go_on(&mut self) -> Result<(), String> {
        let begun = now();
        let mut next = begun + attack::pause(&mut self.random);
        // The disk is filled only while there is space for further rounds.
        let mut first = self.place.is_small().then(|| attack::fill(&mut self.random));
        while begun.elapsed() < ROUND
            && (!self.place.is_small() || self.is_full() || self.place.free_bytes()? > ROOM_BYTES_MIN)
        {
            self.listen()?;
            self.look_after()?;
            if now() >= next {
                let attack = first.take();
                let attack = attack.unwrap_or_else(|| attack::next(&mut self.random, self.place.is_small()));
                self.attack(attack)?;
                next = now() + attack::pause(&mut self.random);
            }
        }
        while !self.ongoing.is_empty() {
            self.listen()?;
            self.look_after()?;
        }
        // Recovery: every client gets a new acknowledgement.
        let mut waited_for: Vec<_> = self.processes.iter().map(|process| process.name.clone()).collect();
        while !waited_for.is_empty() {
            self.look_after()?;
            if let Some(name) = self.listen()? {
                waited_for.retain(|waited_for| *waited_for != name);
            }
        }
        Ok(())
    }

    /// Processes a client's line. Returns the client's name if the line shows progress.
    fn listen(&mut self) -> Result<Option<String>, String> {
        let (name, line) = match self.lines.recv_timeout(LOOK) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) if self.progress.elapsed() < SILENCE => return Ok(None),
            Err(_) => return Err(format!("nothing was acknowledged for {} s", SILENCE.as_secs())),
        };
        let may_fail = self.may_fail();
        match &line {
            Line::Full | Line::Refused(_) | Line::Failed(_) if !may_fail => {
                return Err(format!("{name} got an unexpected error: {line}"));
            }
            Line::Failed(_) if !name_is_embedded(&name) => {
                // The server's health says so, too; its supervisor restarts it.
                self.count("servers that failed");
                self.replace_server()?;
            }
            _ => {}
        }
        let is_progress = line.is_progress();
        self.ledger.note(line)?;
        if is_progress {
            self.progress = now();
        }
        Ok(is_progress.then_some(name))
    }

    /// Ends attacks that are due, and checks that no process ended by itself.
    fn look_after(&mut self) -> Result<(), String> {
        let time = now();
        while let Some(index) = self.ongoing.iter().position(|(until, _)| *until <= time) {
            match self.ongoing.swap_remove(index).1 {
                PendingEnd::Stopped(of) => self.process(of).map_or(Ok(()), |process| process.signal(Signal::CONT))?,
                PendingEnd::NoHandles(of) => {
                    self.process(of).map_or(Ok(()), RunProcess::give_back_handles)?;
                    self.starve();
                }
                PendingEnd::Full if self.is_yet_to_be_met(time) => self.ongoing.push((time + LOOK, PendingEnd::Full)),
                PendingEnd::Full => {
                    self.place.free()?;
                    self.filled = None;
                    self.starve();
                }
            }
        }
        let may_fail = self.may_fail();
        for process in &mut self.processes {
            if let Some(status) = process.ended()? {
                return Err(process.obituary(status));
            }
        }
        if let Some(server) = &mut self.server
            && let Some(status) = server.ended()?
        {
            let told = server.obituary(status);
            // The server does not start without space or handles, and reports it.
            if !may_fail || status.code() != Some(1) {
                return Err(told);
            }
            self.count("servers that did not start");
            self.start_server()?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.filled.is_some()
    }

    /// Whether the full disk has not refused a commit yet, but still may.
    fn is_yet_to_be_met(&self, time: Instant) -> bool {
        self.filled.is_some_and(|(since, full)| self.ledger.full == full && time < since + FULL_MAX)
    }

    fn may_fail(&self) -> bool {
        self.is_full() || now() < self.starved_until
    }

    /// A shortage may still cause errors for a while after its end: answers may be read late.
    fn starve(&mut self) {
        self.starved_until = now() + Duration::from_secs(2);
    }

    fn attack(&mut self, attack: Attack) -> Result<(), String> {
        let victim = self.random.usize(0..self.processes.len());
        // A client, or the server.
        let anyone = (self.random.usize(0..=self.processes.len()) < self.processes.len()).then_some(victim);
        match attack {
            Attack::KillClient => {
                self.count("clients killed");
                self.replace_client(victim)?;
            }
            Attack::KillServer => {
                self.count("servers killed");
                self.replace_server()?;
            }
            Attack::KillAll => {
                self.count("all killed");
                let clients = self.processes.len();
                self.processes.drain(..).try_for_each(RunProcess::kill)?;
                self.replace_server()?;
                for place in 0..clients {
                    let client = self.start_client(place)?;
                    self.processes.push(client);
                }
            }
            Attack::Stop(time) => {
                self.count("stopped");
                if let Some(process) = self.process(anyone) {
                    process.signal(Signal::STOP)?;
                    self.ongoing.push((now() + time, PendingEnd::Stopped(anyone)));
                }
            }
            Attack::Fill(time) => {
                if !self.is_full() {
                    self.count(FILLED);
                    self.filled = Some((now(), self.ledger.full));
                    self.place.fill()?;
                    self.ongoing.push((now() + time, PendingEnd::Full));
                }
            }
            Attack::UseUpHandles(time) => {
                self.count("handles used up");
                if let Some(process) = self.process(anyone) {
                    process.use_up_handles()?;
                    self.ongoing.push((now() + time, PendingEnd::NoHandles(anyone)));
                    self.starved_until = now() + time + Duration::from_secs(2);
                }
            }
        }
        Ok(())
    }

    fn replace_client(&mut self, place: usize) -> Result<(), String> {
        let next = self.start_client(place)?;
        std::mem::replace(&mut self.processes[place], next).kill()
    }

    fn replace_server(&mut self) -> Result<(), String> {
        let before = self.server.take();
        // A process that did not start may have ended.
        let killed = before.map_or(Ok(()), RunProcess::kill);
        self.start_server()?;
        if self.may_fail() { Ok(()) } else { killed }
    }

    fn process(&self, of: Option<usize>) -> Option<&RunProcess> {
        of.map_or(self.server.as_ref(), |place| self.processes.get(place))
    }

    fn count(&mut self, what: &'static str) {
        *self.attacks.0.entry(what).or_default() += 1;
    }

    /// Ends every process, and compares the directory with the answers.
    fn end(&mut self) -> Result<(), String> {
        for process in self.processes.drain(..) {
            process.kill()?;
        }
        self.server.take().map_or(Ok(()), RunProcess::stop)?;
        while let Ok((_, line)) = self.lines.try_recv() {
            self.ledger.note(line)?;
        }
        inspect(&self.place.data(), self.sync, &self.ledger)
    }
}

fn name_is_embedded(name: &str) -> bool {
    let number = name.trim_start_matches("client").parse::<usize>();
    number.is_ok_and(|number| number < EMBEDDED)
}

/// A free address.
pub(crate) fn free_address() -> Result<String, String> {
    let failed = |error: std::io::Error| format!("can't find a free port: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    Ok(listener.local_addr().map_err(failed)?.to_string())
}

#[expect(clippy::disallowed_methods, reason = "the duration of a run is real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
