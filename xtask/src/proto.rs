//! `cargo xtask proto`: the gRPC messages and services, generated from the files in `proto/`.
//!
//! The generator is the test that compares the committed files; here it writes instead. So neither
//! this program nor a build of the project depends on it.

use crate::test::in_root;
use crate::workspace::Workspace;

/// Writes the generated files of `quire-grpc`.
///
/// # Errors
/// When a file in `proto/` is invalid; the generator has printed the error.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let generator = in_root(workspace, &["test", "--quiet", "--package", "xtask", "--test", "proto"])
        .env("QUIRE_PROTO_WRITE", "1")
        .status()
        .map_err(|error| format!("could not start cargo: {error}"))?;
    if generator.success() { Ok(()) } else { Err("proto: nothing was generated".to_owned()) }
}
