//! The components that every handler uses.

use std::sync::Arc;

use quire::Database;
use quire_access::Traffic;
use tokio::sync::{Mutex, watch};

use crate::Settings;
use crate::connection;
use crate::decompression::DecompressionTurns;
use crate::finished::FinishedJobs;
use crate::memory::ResponseMemory;

/// The components behind the routes.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) database: Database,
    /// The counts of all front ends.
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) finished: FinishedJobs,
    pub(crate) unpacking: DecompressionTurns,
    pub(crate) memory: ResponseMemory,
    /// Held during a compaction.
    pub(crate) compacting: Mutex<()>,
    /// Held during an import.
    pub(crate) importing: Arc<Mutex<()>>,
    /// Whether the server is stopping: long polls then end.
    closed: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn new(
        database: Database,
        settings: &Settings,
        traffic: Arc<Traffic>,
        closed: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let memory = ResponseMemory::new(settings.memory_bytes_max);
        let (finished, unpacking) = (FinishedJobs::default(), DecompressionTurns::default());
        let (compacting, importing) = (Mutex::default(), Arc::default());
        Arc::new(App { database, traffic, finished, unpacking, memory, compacting, importing, closed })
    }

    /// Whether the server is stopping.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the server is stopping, or the client of the current request has closed its
    /// side. A wait for data then ends.
    pub(crate) async fn closing(&self) {
        tokio::select! {
            () = closing(self.closed.clone()) => {}
            () = connection::left() => {}
        }
    }
}

/// Waits until the signal says that the server is stopping.
pub(crate) async fn closing(mut closed: watch::Receiver<bool>) {
    // A dropped sender has sent the signal before.
    drop(closed.wait_for(|closed| *closed).await);
}
