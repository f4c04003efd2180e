//! Replays a corpus in a test: each file as it is, and damaged copies of it, the same ones in every
//! run.
//!
//! The tests of the crates include this file, each with the body of a fuzz target. The fuzz targets
//! do not use it.

use std::path::Path;

/// The memory limit of a process that replays. A parser that trusts a damaged length exceeds it.
const MEMORY_BYTES_MAX: u64 = 3 << 30;

/// Numbers that replace lengths and counts.
const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Bytes with a meaning in texts.
const SIGNS: &[u8] = b"{}[]\"\\:,<>/&=%-+.0129eE \n\0";

/// The files of a directory, ordered by name.
fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(Path::new(folder)).expect("the corpus").map(|entry| entry.expect("an entry"));
    let read = |path: std::path::PathBuf| std::fs::read(path).expect("a file");
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path()))).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} is empty");
    files
}

/// Passes each file of a directory to `check`, and `copies` damaged copies of each. `check` learns
/// whether it gets a copy. A process that allocates what a damaged length asks for ends here. With
/// `QUIRE_CORPUS=write`, the files that the test made are first written to the directory.
pub(crate) fn replay(folder: &str, made: &[(String, Vec<u8>)], copies: usize, mut check: impl FnMut(&[u8], bool)) {
    limit_memory();
    if std::env::var_os("QUIRE_CORPUS").is_some_and(|what| what == "write") {
        std::fs::create_dir_all(folder).expect("made");
        made.iter().for_each(|(name, bytes)| std::fs::write(Path::new(folder).join(name), bytes).expect("written"));
    }
    let corpus = corpus(folder);
    let mut random = Random(0x5eed);
    for (name, bytes) in &corpus {
        let told = Told { name, copy: None, bytes };
        check(bytes, false);
        std::mem::forget(told);
        for copy in 0..copies {
            let (_, other) = &corpus[random.below(corpus.len())];
            let damaged = damaged(bytes, other, &mut random);
            let told = Told { name, copy: Some(copy), bytes: &damaged };
            check(&damaged, true);
            std::mem::forget(told);
        }
    }
}

fn limit_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Data).maximum;
    setrlimit(Resource::Data, Rlimit { current: Some(MEMORY_BYTES_MAX), maximum }).expect("less than before");
}

/// Reports the current input when it is dropped, which happens only by a panic.
struct Told<'t> {
    name: &'t str,
    copy: Option<usize>,
    bytes: &'t [u8],
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let kept = std::env::temp_dir().join(format!("quire-corpus-{}", std::process::id()));
        let written = std::fs::write(&kept, self.bytes);
        eprintln!("failed on {}, copy {:?}, saved as {} ({written:?})", self.name, self.copy, kept.display());
    }
}

/// Makes one to four changes. A change flips a bit, replaces a byte, a number or a range, cuts the
/// end off, or inserts a piece of another file.
fn damaged(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let count = 1 + random.below(32);
        let range = at..(at + count).min(bytes.len());
        match random.below(10) {
            0..3 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 if at < bytes.len() => bytes[at] = random.next() as u8,
            4 if at < bytes.len() => bytes[at] = SIGNS[random.below(SIGNS.len())],
            5 => {
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                let number = NUMBERS[random.below(NUMBERS.len())].wrapping_add(random.next() % 3);
                bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
            6 => bytes[range].fill(0),
            7 => drop(bytes.drain(range)),
            8 => {
                let from = random.below(other.len() + 1);
                let piece = other[from..(from + count).min(other.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            9 if random.below(3) == 0 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
