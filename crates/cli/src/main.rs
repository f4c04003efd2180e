//! The program `quire`: the command, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    quire_cli::main()
}
