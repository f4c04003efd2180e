//! The processes of a round: how they are started and ended, and their output.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process, prlimit, set_parent_process_death_signal,
};

use crate::client::Task;
use crate::ledger::Line;

/// A process of a round.
pub(crate) struct RunProcess {
    pub(crate) name: String,
    child: Child,
    /// The end of its standard error.
    errors: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// The usual limit on file handles.
    handles: Rlimit,
}

/// A program with its arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct WrapArguments {
    /// The id of the process whose end also ends this one
    with: u32,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

impl WrapArguments {
    /// Replaces this program by the command.
    fn of(command: &Command) -> Result<Command, String> {
        let mut wrapper = own_program()?;
        wrapper.arg("with-parent").arg(std::process::id().to_string());
        wrapper.arg(command.get_program()).args(command.get_args());
        Ok(wrapper)
    }

    /// Returns the reason, only if it fails.
    pub(crate) fn become_it(self) -> Result<(), String> {
        // The setting survives the exec: prctl(2), PR_SET_PDEATHSIG.
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("can't bind its life to the run: {error}"))?;
        if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != self.with) {
            return Err("the run has ended".to_owned());
        }
        let (program, arguments) = self.command.split_first().expect("clap requires it");
        Err(format!("can't start {}: {}", program.display(), Command::new(program).args(arguments).exec()))
    }
}

fn own_program() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|error| format!("can't find the program: {error}"))
}

/// The client's name, and a line of its output.
pub(crate) type ClientLine = (String, Line);

impl RunProcess {
    /// Starts a client, and a thread that sends its lines to `lines`.
    pub(crate) fn client(task: &Task, name: &str, lines: &Sender<ClientLine>) -> Result<Self, String> {
        let mut command = own_program()?;
        task.to_arguments(&mut command);
        let mut process = RunProcess::start(name, &command)?;
        let output = process.output();
        let (name, lines) = (name.to_owned(), lines.clone());
        process.readers.push(std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            // Half a line at the end counts as no answer.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let read = Line::read(line.trim_end());
                let read = read.unwrap_or_else(|| Line::Unknown(format!("invalid line of a client: {line}")));
                if lines.send((name.clone(), read)).is_err() {
                    break;
                }
                line.clear();
            }
        }));
        Ok(process)
    }

    /// Starts a server.
    pub(crate) fn server(program: &Path, data: &Path, http: &str, sync: bool) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(data).args(["--http", http, "--profile", "small-disk"]);
        command.args(["--kafka", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--durability", if sync { "sync" } else { "os" }]);
        RunProcess::of("the server", &command)
    }

    /// Starts a program, and discards its output.
    pub(crate) fn of(name: &str, command: &Command) -> Result<Self, String> {
        let mut process = RunProcess::start(name, command)?;
        let mut output = process.output();
        process.readers.push(std::thread::spawn(move || {
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        }));
        Ok(process)
    }

    fn start(name: &str, command: &Command) -> Result<Self, String> {
        let mut command = WrapArguments::of(command)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("can't start {name}: {error}"))?;
        let errors = Arc::new(Mutex::new(String::new()));
        let (mut from, into) = (child.stderr.take().expect("it is piped"), Arc::clone(&errors));
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            *into.lock().unwrap_or_else(PoisonError::into_inner) = String::from_utf8_lossy(&bytes).into_owned();
        });
        let handles = getrlimit(Resource::Nofile);
        Ok(RunProcess { name: name.to_owned(), child, errors, readers: vec![reader], handles })
    }

    fn output(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("it is piped, and taken once")
    }

    /// Kills it, and waits until all of its output was read.
    ///
    /// # Errors
    /// When it had already ended.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        if let Some(status) = self.ended()? {
            return Err(self.obituary(status));
        }
        let failed = |error| format!("can't end a process: {error}");
        self.child.kill().map_err(failed)?;
        let status = self.child.wait().map_err(failed)?;
        if status.signal() == Some(Signal::KILL.as_raw()) { self.join() } else { Err(self.obituary(status)) }
    }

    /// Asks a server to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not end well. A server that does not listen yet may end by the signal itself:
    /// it handles signals after its recovery, and nobody waits for its answers before that.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.signal(Signal::TERM)?;
        let status = self.child.wait().map_err(|error| format!("can't wait for a process: {error}"))?;
        if status.success() {
            return self.join();
        }
        let report = self.obituary(status);
        let is_early = status.signal() == Some(Signal::TERM.as_raw()) && !report.contains("listening");
        if is_early { Ok(()) } else { Err(report) }
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("can't check a process: {error}"))
    }

    /// The report of an unexpected end.
    pub(crate) fn obituary(&mut self, status: ExitStatus) -> String {
        let _ = self.join();
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{} ended by itself: {status}\n{errors}", self.name)
    }

    /// Waits for its end, and returns its standard error.
    pub(crate) fn last_words(&mut self) -> String {
        let _ = self.child.wait();
        let _ = self.join();
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{}:\n{errors}\n", self.name)
    }

    fn join(&mut self) -> Result<(), String> {
        let joined = self.readers.drain(..).try_for_each(JoinHandle::join);
        joined.map_err(|_| "the thread that reads a process's output panicked".to_owned())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        kill_process(self.pid(), signal).map_err(|error| format!("can't signal {}: {error}", self.name))
    }

    /// Limits it to the file handles that it has.
    pub(crate) fn use_up_handles(&self) -> Result<(), String> {
        let path = format!("/proc/{}/fd", self.child.id());
        // It may have ended.
        let held = std::fs::read_dir(path).map_or(0, Iterator::count) as u64;
        self.limit_handles(Rlimit { current: Some(held), maximum: self.handles.maximum })
    }

    /// Restores the usual limit.
    pub(crate) fn give_back_handles(&self) -> Result<(), String> {
        self.limit_handles(Rlimit { current: self.handles.current, maximum: self.handles.maximum })
    }

    fn limit_handles(&self, limit: Rlimit) -> Result<(), String> {
        match prlimit(Some(self.pid()), Resource::Nofile, limit) {
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(format!("can't limit the handles of {}: {error}", self.name)),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for RunProcess {
    fn drop(&mut self) {
        // No process survives a failed run; it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
