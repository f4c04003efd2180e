//! Processes that race and die: their calls and answers arrive through one pipe. A step whose
//! process died within it may have taken effect, or not.
//!
//! ```text
//! this test ─▶ four processes: "7"  ─▶ round 7 on the same directory ─▶ one pipe: a line before each step, and one behind it
//!           ─▶ one of them aborts a moment after it began a step; the others go on
//!           ─▶ another process opens the directory, and looks at what there is ─▶ the whole history is checked
//! ```
//! A line is one write, shorter than the atomic size of a pipe. So the order of the lines is
//! consistent: the answer of one call stands before a call that began after it.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use quire::{Database, Durability};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stateright::semantics::SequentialSpec;

use crate::events::Events;
use crate::graph::Block;
use crate::jobs::Jobs;
use crate::streams::Partition;
use crate::{Client, HistoryEntry, HistoryRecorder, Recorder, STEPS, events, graph, jobs, streams};

const PROCESSES: usize = 4;

/// The bytes of a line that a pipe takes whole, on every system.
const LINE_BYTES_MAX: usize = 512;

/// A step takes a few spins, or thousands when it waits for the disk.
const SPINS_LOG_2_MAX: u32 = 14;

const TASK: &str = "QUIRE_LINEARIZABLE_TASK";
const PATH: &str = "QUIRE_LINEARIZABLE_PATH";

/// A line of the pipe.
#[derive(Serialize, Deserialize)]
enum Line<N> {
    /// A process has opened the database.
    Ready,
    Noted(usize, N),
    /// A process has taken all its steps, under this number.
    Done(usize),
    /// The victim has died before this.
    Dead,
}

/// The model on which a process takes its steps.
trait Model: SequentialSpec + Clone + Default + 'static
where
    Self::Op: Clone + Debug + Serialize + DeserializeOwned,
    Self::Ret: Clone + Debug + Serialize + DeserializeOwned,
{
    const NAME: &'static str;
    const ROUND: fn(&Database, &Client<'_, Self>);
    const LOOK: fn(&Database, &Client<'_, Self>);
}

impl Model for Events {
    const NAME: &'static str = "events";
    const ROUND: fn(&Database, &Client<'_, Self>) = events::round;
    const LOOK: fn(&Database, &Client<'_, Self>) = events::look;
}

impl Model for Jobs {
    const NAME: &'static str = "jobs";
    const ROUND: fn(&Database, &Client<'_, Self>) = jobs::round;
    const LOOK: fn(&Database, &Client<'_, Self>) = jobs::look;
}

impl Model for Block {
    const NAME: &'static str = "graph";
    const ROUND: fn(&Database, &Client<'_, Self>) = graph::round;
    const LOOK: fn(&Database, &Client<'_, Self>) = graph::look;
}

impl Model for Partition {
    const NAME: &'static str = "streams";
    const ROUND: fn(&Database, &Client<'_, Self>) = streams::round;
    const LOOK: fn(&Database, &Client<'_, Self>) = streams::look;
}

/// The body of a child process. Does nothing in an ordinary run of the tests.
#[test]
fn process() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else { return };
    let task = std::env::var(TASK).expect("it comes with the path");
    let (model, durability) = task.split_once(' ').expect("a model and a durability");
    let durability = if durability == "os" { Durability::Os } else { Durability::Sync };
    match model {
        Events::NAME => take_steps::<Events>(&path, durability),
        Jobs::NAME => take_steps::<Jobs>(&path, durability),
        Block::NAME => take_steps::<Block>(&path, durability),
        Partition::NAME => take_steps::<Partition>(&path, durability),
        other => panic!("there is no model {other}"),
    }
}

/// Prints each recorded call and response.
#[derive(Default)]
struct PrintedSteps {
    /// How many steps were begun in this round.
    begun: AtomicUsize,
}

fn print<N: Serialize>(line: &Line<N>) {
    let mut text = serde_json::to_string(line).expect("plain data");
    text.push('\n');
    assert!(text.len() <= LINE_BYTES_MAX, "a line is written whole: {text}");
    std::io::stdout().lock().write_all(text.as_bytes()).expect("somebody reads");
}

impl<S: SequentialSpec> HistoryRecorder<S> for PrintedSteps
where
    S::Op: Serialize,
    S::Ret: Serialize,
{
    fn note(&self, thread: usize, noted: HistoryEntry<S>) {
        let begins = matches!(noted, HistoryEntry::Called(_));
        print(&Line::Noted(thread, noted));
        self.begun.fetch_add(usize::from(begins), Ordering::SeqCst);
    }
}

/// When a process dies: after a delay within one of its steps.
#[derive(Clone, Copy)]
struct Death {
    steps: usize,
    spins: usize,
}

impl PrintedSteps {
    /// Waits for that moment, and dies.
    fn die(&self, Death { steps, spins }: Death) {
        while self.begun.load(Ordering::SeqCst) < steps {
            std::hint::spin_loop();
        }
        (0..spins).for_each(|_| std::hint::spin_loop());
        std::process::abort();
    }
}

/// Runs the steps of each round, until it is killed.
fn take_steps<M: Model>(path: &Path, durability: Durability)
where
    M::Op: Clone + Debug + Serialize + DeserializeOwned,
    M::Ret: Clone + Debug + Serialize + DeserializeOwned,
{
    let database = Database::builder(path).durability(durability).segment_bytes(256 << 10).open().expect("it opens");
    print(&Line::<()>::Ready);
    for line in std::io::stdin().lines() {
        let line = line.expect("readable");
        let mut words = line.split(' ').map(|word| word.parse::<usize>().expect("a number"));
        let (number, thread) = words.next().zip(words.next()).expect("a round and a thread");
        let death = words.next().zip(words.next()).map(|(steps, spins)| Death { steps, spins });
        let printed = &PrintedSteps::default();
        let client = Client::<M> { number: number as u64, thread, notes: printed, may_die: true };
        let act = if thread == PROCESSES { M::LOOK } else { M::ROUND };
        std::thread::scope(|scope| {
            if let Some(death) = death {
                scope.spawn(move || printed.die(death));
            }
            act(&database, &client);
        });
        print(&Line::<()>::Done(thread));
    }
}

/// The processes of a test, and the pipe of them all.
struct Processes {
    task: String,
    path: PathBuf,
    write: PipeWriter,
    lines: BufReader<PipeReader>,
    running: Vec<Child>,
}

impl Processes {
    fn start(model: &str, durability: Durability, path: &Path) -> Self {
        let (read, write) = std::io::pipe().expect("a pipe");
        let task = format!("{model} {durability}");
        let mut processes =
            Processes { task, path: path.to_owned(), write, lines: BufReader::new(read), running: Vec::new() };
        for _ in 0..PROCESSES {
            let child = processes.another();
            processes.running.push(child);
        }
        processes
    }

    /// Starts one, and waits until it has opened the database.
    fn another(&mut self) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("the test knows itself"));
        command.args(["--exact", "deaths::process", "--nocapture", "--test-threads=1"]);
        command.env(TASK, &self.task).env(PATH, &self.path).stdin(Stdio::piped());
        let child = command.stdout(self.write.try_clone().expect("another end")).spawn().expect("it starts");
        assert!(matches!(self.line::<()>(), Line::Ready), "nobody else has anything to say");
        child
    }

    fn tell(child: &mut Child, round: u64, thread: usize, death: Option<Death>) {
        let stdin = child.stdin.as_mut().expect("it is piped");
        let death = death.map_or(String::new(), |Death { steps, spins }| format!(" {steps} {spins}"));
        writeln!(stdin, "{round} {thread}{death}").expect("it reads");
    }

    /// Waits until the victim has died, and writes a line about it after all of its own lines.
    fn bury(&mut self, victim: usize) {
        self.running[victim].wait().expect("it is a child");
        let line = serde_json::to_string(&Line::<()>::Dead).expect("plain data");
        writeln!(self.write, "{line}").expect("a pipe with a reader");
    }

    /// Reads the next line, and skips the output of the test harness of the child.
    fn line<N: DeserializeOwned>(&mut self) -> Line<N> {
        let mut text = String::new();
        loop {
            text.clear();
            let count = self.lines.read_line(&mut text).expect("readable");
            assert!(count > 0, "this process has an end of the pipe");
            let line = text.find(['{', '"']).and_then(|begin| serde_json::from_str(&text[begin..]).ok());
            match line {
                Some(line) => return line,
                None => assert!(!text.contains("FAILED"), "a process failed: {text}"),
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.running {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Compares the answers of processes, of which one dies in each round, with the specification.
fn check<M: Model>()
where
    M::Op: Clone + Debug + Serialize + DeserializeOwned + Send,
    M::Ret: Clone + Debug + Serialize + DeserializeOwned + Send,
{
    let within = rounds::<M>(Durability::Os, 120) + rounds::<M>(Durability::Sync, 30);
    assert!(within > 0, "nobody died within a step");
    println!("in {within} of 150 rounds somebody died within a step");
}

/// Runs `rounds` rounds; returns in how many of them a process died within a step.
fn rounds<M: Model>(durability: Durability, rounds: u64) -> usize
where
    M::Op: Clone + Debug + Serialize + DeserializeOwned + Send,
    M::Ret: Clone + Debug + Serialize + DeserializeOwned + Send,
{
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut processes = Processes::start(M::NAME, durability, &directory.path().join("data"));
    let mut told_nothing = 0;
    for number in 0..rounds {
        let mut choices = Rng::with_seed(number);
        let victim = choices.usize(..PROCESSES);
        let death = Death { steps: choices.usize(1..=STEPS), spins: 1 << choices.u32(..SPINS_LOG_2_MAX) };
        let recorder = Recorder::<M>::new();
        for (thread, child) in processes.running.iter_mut().enumerate() {
            Processes::tell(child, number, thread, (thread == victim).then_some(death));
        }
        let (mut open, mut left, mut is_dead) = ([false; PROCESSES], PROCESSES - 1, false);
        while left > 0 || !is_dead {
            match processes.line() {
                Line::Ready => unreachable!("all are ready"),
                Line::Done(thread) => {
                    assert_ne!(thread, victim, "it dies before it is done");
                    left -= 1;
                    if left == 0 {
                        processes.bury(victim);
                    }
                }
                Line::Dead => is_dead = true,
                Line::Noted(thread, step) => {
                    open[thread] = matches!(step, HistoryEntry::Called(_));
                    recorder.note(thread, step);
                }
            }
        }
        told_nothing += usize::from(open[victim]);
        let mut next = processes.another();
        Processes::tell(&mut next, number, PROCESSES, None);
        loop {
            match processes.line() {
                Line::Noted(thread, step) => recorder.note(thread, step),
                Line::Done(_) => break,
                Line::Ready | Line::Dead => unreachable!("one process looks"),
            }
        }
        processes.running[victim] = next;
        recorder.check();
    }
    told_nothing
}

#[test]
fn conditional_appends_are_linearizable_though_processes_die_within_them() {
    check::<Events>();
}

#[test]
fn fetches_of_jobs_are_linearizable_though_processes_die_within_them() {
    check::<Jobs>();
}

#[test]
fn puts_under_a_version_are_linearizable_though_processes_die_within_them() {
    check::<Block>();
}

#[test]
fn produces_are_linearizable_though_processes_die_within_them() {
    check::<Partition>();
}
