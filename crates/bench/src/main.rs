//! The program `quire-bench`: the benchmarks, and the servers that they load.

use std::process::ExitCode;

fn main() -> ExitCode {
    quire_bench::main()
}
