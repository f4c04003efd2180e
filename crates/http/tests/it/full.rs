//! A full disk, and a folder that is moved, as who looks after a server sees them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quire::{Access, Database, Disk, Storage, StoredFile};
use serde_json::json;

use crate::served::Served;

/// "Input/output error" on Linux.
const EIO: i32 = 5;

/// A disk with space for existing files. While it is full or broken, no file can be created.
#[derive(Debug, Default)]
struct Small {
    is_full: AtomicBool,
    is_broken: AtomicBool,
}

impl Storage for Small {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        Disk.list(directory)
    }

    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Disk.create_directories(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        Disk.remove_directory(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        if access == Access::CreateNew && self.is_full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if access == Access::CreateNew && self.is_broken.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Disk.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
}

#[test]
fn a_server_without_disk_space_reports_that_until_there_is_some_and_accepts_deletions() {
    let small = Arc::new(Small::default());
    let served = Served::with(|builder| builder.segment_bytes(64 << 10).storage(small.clone()));
    let append = json!({"parts": [{"append": {"store": "s", "events": [{"type": "T", "tags": ["person:1"], "data_text": "x".repeat(10_000)}]}}]});
    let forget = json!({"parts": [{"forget_tag": {"store": "s", "tag": "person:1"}}]});
    served.write("/v1/commit", append.clone());
    small.is_full.store(true, Ordering::SeqCst);
    let refused = (0..100).find(|_| served.ask("POST", "/v1/commit", &append.to_string()).status != 200);
    assert!(refused.is_some(), "segments of 64 KiB took all of it without a new file");
    served.fails("POST", "/v1/commit", &append.to_string(), 507, "no_space");
    let health = served.read("/healthz");
    assert_eq!((&health["status"], &health["failing"][0]["duty"]), (&json!("no_space"), &json!("prepare")));
    served.fails("GET", "/readyz", "", 503, "no_space");
    // Making a topic keep unread records needs no further space, and does not hide that the disk is
    // full.
    served.write("/v1/commit", forget);
    assert_eq!(served.read("/healthz")["status"], "no_space");
    small.is_full.store(false, Ordering::SeqCst);
    assert_eq!(served.get("/readyz").text, "ok\n", "a server without clients is ready again");
    served.write("/v1/commit", append);
    assert_eq!(served.read("/healthz")["status"], "ok");
}

#[test]
fn a_server_that_can_not_create_a_segment_reports_the_reason_until_it_can() {
    let small = Arc::new(Small::default());
    let served = Served::with(|builder| builder.segment_bytes(64 << 10).storage(small.clone()));
    let append =
        json!({"parts": [{"append": {"store": "s", "events": [{"type": "T", "data_text": "x".repeat(10_000)}]}}]});
    small.is_broken.store(true, Ordering::SeqCst);
    let refused = (0..100).find(|_| served.ask("POST", "/v1/commit", &append.to_string()).status != 200);
    assert!(refused.is_some(), "segments of 64 KiB took all of it without a new file");
    served.fails("POST", "/v1/commit", &append.to_string(), 500, "io");
    let health = served.read("/healthz");
    assert_eq!((&health["status"], &health["failing"][0]["duty"]), (&json!("no_segment"), &json!("prepare")));
    served.fails("GET", "/readyz", "", 503, "no_segment");
    assert_eq!(served.get("/livez").text, "ok\n");
    let said = health["failing"][0]["message"].as_str().expect("it says what is wrong");
    assert!(said.contains("spare-00"), "{said}");
    small.is_broken.store(false, Ordering::SeqCst);
    served.write("/v1/commit", append);
    assert_eq!(served.read("/healthz")["status"], "ok");
}

#[test]
fn a_server_whose_directory_was_moved_reports_that_and_continues_when_it_is_back() {
    let served = Served::with(|builder| builder);
    let append = json!({"parts": [{"append": {"store": "s", "events": [{"type": "T"}]}}]});
    served.write("/v1/commit", append.clone());
    let moved = served.path().with_extension("moved");
    std::fs::rename(served.path(), &moved).expect("moved");
    let said = served.fails("GET", "/healthz", "", 500, "io");
    assert!(said["detail"].as_str().is_some_and(|message| message.contains("was moved or removed")), "{said}");
    served.fails("GET", "/readyz", "", 503, "io");
    std::fs::rename(&moved, served.path()).expect("put back");
    assert_eq!(served.read("/healthz")["status"], "ok");
    served.write("/v1/commit", append);
}

#[test]
fn a_server_of_a_read_only_database_is_alive_and_not_ready() {
    let served = Served::with(|builder| builder);
    assert_eq!(served.get("/readyz").text, "ok\n");
    let read_only = Served::with(|_| Database::builder(served.path()).read_only(true));
    read_only.fails("GET", "/readyz", "", 503, "read_only");
    assert_eq!(read_only.get("/livez").text, "ok\n");
    assert_eq!(read_only.read("/healthz")["status"], "ok");
}
