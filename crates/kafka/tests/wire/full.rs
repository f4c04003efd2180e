//! A full disk: writes without space are refused with an error, acknowledged records are served,
//! and the server recovers by itself.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::ResponseError;
use quire::events::NewEvent;
use quire::{Access, Database, Disk, Durability, Duty, Storage, StoredFile};
use quire_kafka::Settings;

use crate::idempotence::sent;
use crate::support::{World, values};

/// A disk that accepts writes to existing files, and no new files while it is full.
#[derive(Debug, Default)]
struct SmallDisk {
    is_full: AtomicBool,
}

impl Storage for SmallDisk {
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
        Disk.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
}

#[tokio::test]
async fn a_writer_to_a_full_disk_gets_an_error_and_continues_when_there_is_space() {
    const TRIES: i32 = 100;
    for durability in [Durability::Os, Durability::Sync] {
        let small = Arc::new(SmallDisk::default());
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Database::builder(directory.path()).durability(durability).segment_bytes(64 << 10);
        let database = builder.storage(small.clone()).open().expect("a database");
        let world = World::over(directory, database, Settings::default()).await;
        let mut client = world.client().await;
        client.topic("t").await;
        let producer = client.init().await;
        world.database.events("s").append([NewEvent::new("Seen").tag("person:1")]).expect("an event");
        let value = |number: i32| format!("{number} {}", "x".repeat(10_000));
        small.is_full.store(true, Ordering::SeqCst);
        let mut kept = 0;
        let refused = loop {
            assert!(kept < TRIES, "segments of 64 KiB took all of it without a new file");
            match client.send_batch(&sent(producer, 0, kept, &[&value(kept)])).await {
                Ok(offset) => assert_eq!(offset, i64::from(kept)),
                Err(error) => break error,
            }
            kept += 1;
        };
        assert_eq!(refused, Some(ResponseError::KafkaStorageError));
        let next = sent(producer, 0, kept, &[&value(kept)]);
        assert_eq!(client.send_batch(&next).await, Err(Some(ResponseError::KafkaStorageError)));
        let mut beside = world.client().await;
        let read: Vec<_> = values(&beside.fetch("t", 0).await);
        assert_eq!(read, (0..kept).map(|number| (number.into(), value(number))).collect::<Vec<_>>());
        let database = &world.database;
        let fails = || database.failing().iter().any(|failing| failing.duty == Duty::Prepare);
        assert!(fails(), "an operator sees that there is no room");
        for person in 0..10 {
            database.events("s").forget(format!("person:{person}")).expect("there is room left to say what goes");
        }
        assert!(fails());
        small.is_full.store(false, Ordering::SeqCst);
        // The producer retries from the refused batch, as clients do after this error.
        assert_eq!(client.send_batch(&next).await, Ok(kept.into()));
        assert!(!fails());
        let world = world.restart().await;
        let mut client = world.client().await;
        assert_eq!(client.send_batch(&next).await, Ok(kept.into()));
        assert_eq!(values(&client.fetch("t", kept.into()).await), [(kept.into(), value(kept))]);
    }
}
