//! The speed of the machine without Quire, so that a slow machine is not mistaken for a slow
//! program.
//!
//! All four loops are measured before a run, for its heading. The loop that bounds a case is
//! measured before and after the case, because a machine also has slow seconds.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hasher};
use std::hint::spin_loop;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use quire::Durability;

use super::case::Case;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

/// The number of small records in a loop, and their size in bytes.
const RECORDS: usize = 10_000;
const RECORD_BYTES: usize = 116;
/// The size of the lookup table: larger than the caches nearest to a processor.
const TABLE_WORDS: usize = 1 << 20;
const PASSES: usize = 50;
const SYNCS: u64 = 50;
const BLOCK_BYTES: usize = 4096;
const ROUND_TRIPS: usize = 1_000;
const HAND_OVERS: usize = 10_000;
const SPINS: usize = 1_000;

/// Medians of four loops. The names are the JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Calibration {
    /// 10,000 records of 116 bytes. A step hashes a record, finds the hash in a table of 8 MiB, and
    /// copies the record to a place like that in a log.
    ///
    /// A commit consists of such steps, and each step depends on the result of the previous one.
    /// The speed of a large copy says less: it differs by a factor of 3 between machines on which
    /// commits take the same time.
    pub(super) work_ns: u64,
    /// A `pwrite` of 4 KiB to blocks that were written before, and an `fdatasync`.
    pub(super) sync_ns: u64,
    /// A byte over a loopback connection and one back, both ends in one thread.
    ///
    /// Two threads take longer on an idle machine, because the other thread's processor sleeps.
    /// Measured: 51 to 59 us on an idle machine, 13 to 16 us on a busy one.
    pub(super) loopback_ns: u64,
    /// A word handed to a thread on another processor, and one back. Both threads spin.
    ///
    /// The time depends on the two processors, which the host of a virtual machine chooses: 105 ns
    /// and 510 ns, a second apart. 0 in earlier reports.
    #[serde(default)]
    pub(super) handover_ns: u64,
}

impl Calibration {
    /// Runs all four loops, with a file below `place`. This takes about a second.
    ///
    /// # Errors
    /// When a file or a connection can't be opened.
    pub(super) fn measure(place: &Path) -> Result<Self> {
        Ok(Calibration {
            work_ns: LimitingResource::Work.sample(place)?.quantile_ns(0.5),
            sync_ns: LimitingResource::Sync.sample(place)?.quantile_ns(0.5),
            loopback_ns: LimitingResource::Loopback.sample(place)?.quantile_ns(0.5),
            handover_ns: LimitingResource::Handover.sample(place)?.quantile_ns(0.5),
        })
    }
}

/// The resource that bounds a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitingResource {
    /// The processor and its memory.
    Work,
    /// The disk.
    Sync,
    /// The network within the machine.
    Loopback,
    /// The path between two processors.
    Handover,
}

impl LimitingResource {
    /// Chooses the disk when commits wait for it, else the network for a served suite. Of the rest,
    /// a case with a spinning reader is bounded by the path between processors, and others by the
    /// processor and its memory.
    pub(super) fn of(case: &Case) -> Self {
        let served = ["grpc-", "http-", "stream-"];
        let is_served = case.suite == "kafka" || served.iter().any(|prefix| case.name.starts_with(prefix));
        match case.durability {
            Durability::Sync => LimitingResource::Sync,
            Durability::Os if is_served => LimitingResource::Loopback,
            Durability::Os if case.name.ends_with("seen-spinning") => LimitingResource::Handover,
            Durability::Os => LimitingResource::Work,
        }
    }

    /// Runs the loop of this resource many times, with a file below `place`. This takes about a
    /// tenth of a second.
    ///
    /// # Errors
    /// When a file or a connection can't be opened.
    pub(super) fn sample(self, place: &Path) -> Result<Latencies> {
        let sample = match self {
            LimitingResource::Work => work(),
            LimitingResource::Sync => sync(&place.join("calibration")),
            LimitingResource::Loopback => loopback(),
            LimitingResource::Handover => hand_over(),
        };
        sample.map_err(|error| CommandError::at("calibrate", error))
    }
}

fn repeat(times: usize, mut run: impl FnMut() -> std::io::Result<()>) -> std::io::Result<Latencies> {
    let mut latencies = Latencies::new();
    let mut watch = Stopwatch::start();
    for _ in 0..times {
        run()?;
        latencies.record(watch.lap());
    }
    Ok(latencies)
}

fn work() -> std::io::Result<Latencies> {
    let mut record = [0x51_u8; RECORD_BYTES];
    let mut table = vec![1_u64; TABLE_WORDS];
    let mut log = vec![0_u8; RECORDS * RECORD_BYTES];
    let mut found = 0_u64;
    repeat(PASSES, || {
        for place in log.chunks_exact_mut(RECORD_BYTES) {
            record[..8].copy_from_slice(&found.to_le_bytes());
            let mut hasher = DefaultHasher::new();
            hasher.write(&record);
            let hash = hasher.finish();
            let known = &mut table[hash as usize % TABLE_WORDS];
            *known = known.wrapping_add(hash);
            found = *known;
            place.copy_from_slice(&record);
        }
        std::hint::black_box(&mut log);
        Ok(())
    })
}

fn sync(path: &Path) -> std::io::Result<Latencies> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let block = [0x51; BLOCK_BYTES];
    for number in 0..SYNCS {
        file.write_all_at(&block, number * BLOCK_BYTES as u64)?;
    }
    file.sync_all()?;
    let mut number = 0;
    let synced = repeat(SYNCS as usize, || {
        file.write_all_at(&block, number * BLOCK_BYTES as u64)?;
        number += 1;
        file.sync_data()
    })?;
    std::fs::remove_file(path)?;
    Ok(synced)
}

fn loopback() -> std::io::Result<Latencies> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let mut byte = [7];
    repeat(ROUND_TRIPS, || {
        near.write_all(&byte)?;
        far.read_exact(&mut byte)?;
        far.write_all(&byte)?;
        near.read_exact(&mut byte)
    })
}

fn hand_over() -> std::io::Result<Latencies> {
    let (there, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let await_in = |word: &AtomicUsize, number: usize| {
        // On a single processor, the other thread needs it.
        while !(0..SPINS).any(|_| {
            spin_loop();
            word.load(Ordering::Acquire) >= number
        }) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=HAND_OVERS {
                await_in(&there, number);
                back.store(number, Ordering::Release);
            }
        });
        let mut number = 0;
        repeat(HAND_OVERS, || {
            number += 1;
            there.store(number, Ordering::Release);
            await_in(&back, number);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SUITES;

    #[test]
    fn served_cases_are_bound_by_the_network_unless_commits_wait_for_the_disk() {
        let bound = |suite, name, durability| {
            let case = |case: &&&Case| (case.suite, case.name, case.durability) == (suite, name, durability);
            LimitingResource::of(
                SUITES.iter().copied().flatten().collect::<Vec<_>>().iter().find(case).expect("there is such a case"),
            )
        };
        assert_eq!(bound("jobs", "grpc-enqueue", Durability::Os), LimitingResource::Loopback);
        assert_eq!(bound("jobs", "http-pick-up", Durability::Os), LimitingResource::Loopback);
        assert_eq!(bound("jobs", "stream-life-64", Durability::Os), LimitingResource::Loopback);
        assert_eq!(bound("jobs", "stream-life-64", Durability::Sync), LimitingResource::Sync);
        assert_eq!(bound("jobs", "life", Durability::Os), LimitingResource::Work);
        assert_eq!(bound("log", "seen-spinning", Durability::Os), LimitingResource::Handover);
        assert_eq!(bound("kafka", "consume", Durability::Os), LimitingResource::Loopback);
    }

    #[test]
    fn everything_takes_some_time() {
        let place = tempfile::tempdir().expect("a folder");
        let Calibration { work_ns, sync_ns, loopback_ns, handover_ns } =
            Calibration::measure(place.path()).expect("measured");
        assert!(work_ns > 0 && sync_ns > 0 && loopback_ns > 0 && handover_ns > 0);
        assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0);
    }
}
