//! The program: invalid arguments, the same run in another process, and the seed that a crashed
//! process leaves.

use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quire-sim");

fn quire_sim(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("it runs")
}

#[test]
fn a_seed_is_the_same_run_in_every_process() {
    for seed in 40..60 {
        let seed = seed.to_string();
        let (once, again) = (quire_sim(&["--seed", &seed]), quire_sim(&["--seed", &seed]));
        assert!(once.status.success());
        assert!(once.stdout == again.stdout, "seed {seed}");
    }
}

#[test]
fn invalid_arguments_are_refused_with_the_valid_ones() {
    let refused: [(&[&str], &str); 5] = [
        (&["--minutes", "18446744073709551615"], "18446744073709551615 is not in 1..=527040"),
        (&["--minutes", "0"], "0 is not in 1..=527040"),
        (&["--seed", "17", "--steps", "3,100000"], "unknown step 100000: seed 17 has the steps 0 to"),
        (&["--steps", "1"], "--seed"),
        (&["--seeds", "7..7"], "use a range such as 0..1000"),
    ];
    for (arguments, says) in refused {
        let output = quire_sim(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn unwritable_output_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has one");
    let child = Command::new(PROGRAM).args(["--seeds", "0..1"]).stdout(full).stderr(Stdio::piped()).output();
    let output = child.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("can't write to standard output"));
}

#[test]
fn a_run_that_aborts_the_process_leaves_its_seed() {
    // A file that grows beyond the limit, of whatever kind, ends the process with SIGXFSZ.
    let limited = format!("ulimit -c 0; ulimit -f 8; exec {PROGRAM} --seeds 5..9");
    let output = Command::new("sh").args(["-c", &limited]).output().expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), None, "{said}");
    let path = said.split_whitespace().find(|word| word.contains("quire-sim-")).expect("it says where");
    let left = std::fs::read_to_string(path).expect("it is left");
    std::fs::remove_file(path).expect("it is there");
    assert!(left.starts_with("quire-sim --seed 5 "), "{left}");
}
