//! The committed code is what the generator makes of `proto/`: `cargo xtask proto` writes it, and
//! this test compares it.
//!
//! So a build needs neither `protoc` nor a build script, and no change of a `.proto` file is
//! forgotten. The test is not in the crate that uses the messages, which may not compile until they
//! are generated again.

use std::fs;
use std::path::{Path, PathBuf};

/// The text above the generated code.
const HEADER: &str = "\
//! The messages, clients and servers of `proto/quire/v1`, written by `cargo xtask proto`: change those files, not this one.
#![allow(missing_docs, unreachable_pub, rust_2018_idioms, clippy::all)]

";

#[test]
fn the_generated_code_is_that_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (code, descriptors) = generate(&root.join("proto"));
    let is_current = |name: &str, wanted: &[u8]| {
        let path = root.join("crates/grpc/src/proto").join(name);
        if std::env::var_os("QUIRE_PROTO_WRITE").is_some() {
            fs::write(&path, wanted).expect("written");
        }
        fs::read(&path).is_ok_and(|found| found == wanted)
    };
    assert!(is_current("v1.rs", code.as_bytes()), "run `cargo xtask proto`");
    assert!(is_current("v1.binpb", &descriptors), "run `cargo xtask proto`");
}

/// The code, and the descriptors for reflection.
fn generate(root: &Path) -> (String, Vec<u8>) {
    let listed = fs::read_dir(root.join("quire/v1")).expect("the folder of the package");
    let mut files: Vec<PathBuf> = listed.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut compiler = protox::Compiler::new([root]).expect("a folder");
    compiler.include_source_info(true).include_imports(true).open_files(&files).expect("valid proto files");
    let documented = compiler.file_descriptor_set();
    let descriptors = compiler.include_source_info(false).encode_file_descriptor_set();
    let out = tempfile::tempdir().expect("a temporary directory");
    tonic_prost_build::configure()
        .bytes(".")
        // Otherwise a request of many small parts would take many times its bytes in memory.
        .boxed(".quire.v1.CommitPart.kind")
        .out_dir(out.path())
        .emit_rerun_if_changed(false)
        .compile_fds(documented)
        .expect("code");
    let code = fs::read_to_string(out.path().join("quire.v1.rs")).expect("the code of the package");
    // An attribute of the generator that the code does not need.
    (HEADER.to_owned() + &code.replace("        dead_code,\n", ""), descriptors)
}
