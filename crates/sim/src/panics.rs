//! Panics of a run. A single panic is a failure like others: silent, caught, and reported with its
//! run.
//!
//! A panic within a panic ends the process before it can be caught. So the hook itself reports the
//! second one, with the seed.

use std::any::Any;
use std::cell::RefCell;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::thread;

thread_local! {
    /// The seed of the runs whose panics this thread catches.
    static CATCHES: RefCell<Option<PanicCapture>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct PanicCapture {
    seed: u64,
    /// The messages of the panics so far.
    said: Vec<String>,
}

/// Installs the hook. A panic within a run prints nothing, unless it is the second, which may end
/// the process. The second is printed on standard output with its seed, and the command that
/// replays it. Panics outside of runs are printed as before.
pub fn keep_quiet() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_within = CATCHES.with_borrow_mut(|catches| catches.as_mut().map(|catches| note(catches, info)));
        if is_within.is_none() {
            before(info);
        }
    }));
}

fn note(catches: &mut PanicCapture, info: &PanicHookInfo<'_>) {
    let at = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
    catches.said.push(format!("{}{at}", message(info.payload())));
    if let [first, second] = &catches.said[..] {
        let (seed, said) = (catches.seed, format!("{second}, while it unwound from: {first}").replace('\n', " "));
        // The process may end here, so this is the only chance to report it.
        let _ = writeln!(
            io::stdout(),
            "seed {seed} fails: a panic within a panic: {said}\nreplay it with: quire-sim --seed {seed}"
        );
    }
}

/// Runs a part of a run of this seed, and catches its panic.
pub(crate) fn caught<T>(seed: u64, part: impl FnOnce() -> T) -> thread::Result<T> {
    CATCHES.set(Some(PanicCapture { seed, said: Vec::new() }));
    let outcome = panic::catch_unwind(AssertUnwindSafe(part));
    CATCHES.set(None);
    outcome
}

/// The message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("it is not as it was");
        }
    }

    /// Makes [`panics_within_a_panic`] end the process that runs it.
    const ENDS: &str = "QUIRE_SIM_ENDS";

    /// Runs in a process of its own, for the test below.
    #[test]
    fn panics_within_a_panic() {
        if std::env::var_os(ENDS).is_none() {
            return;
        }
        keep_quiet();
        let _ = caught(17, || {
            let _dropped = PanicsWhenDropped;
            panic!("a commit fails");
        });
    }

    #[test]
    fn a_panic_within_a_panic_prints_its_seed_before_it_aborts_the_process() {
        let program = std::env::current_exe().unwrap();
        let name = "panics::tests::panics_within_a_panic";
        let ran = Command::new(program).args(["--exact", name, "--nocapture"]).env(ENDS, "yes").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(!ran.status.success());
        assert!(said.contains("seed 17 fails: a panic within a panic: it is not as it was"), "{said}");
        assert!(said.contains("a commit fails") && said.contains("quire-sim --seed 17"), "{said}");
    }

    #[test]
    fn a_panic_of_a_run_is_caught_with_its_message() {
        let caught = caught(3, || panic!("a commit fails")).unwrap_err();
        assert_eq!(message(&*caught), "a commit fails");
    }
}
