//! What every handler has at hand.

use std::sync::Arc;

use quire::Database;
use tokio::sync::{Mutex, watch};

use crate::Settings;
use crate::memory::Memory;
use crate::requests::Requests;
use crate::unpacking::Unpacking;

/// The components behind the routes.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) database: Database,
    pub(crate) requests: Requests,
    pub(crate) unpacking: Unpacking,
    pub(crate) memory: Memory,
    /// Held while somebody has the log compacted.
    pub(crate) compacting: Mutex<()>,
    /// Whether the server is about to stop: long polls end then.
    closed: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn new(database: Database, settings: &Settings, closed: watch::Receiver<bool>) -> Arc<Self> {
        let memory = Memory::new(settings.memory_bytes_max);
        let (requests, unpacking) = (Requests::default(), Unpacking::default());
        Arc::new(App { database, requests, unpacking, memory, compacting: Mutex::default(), closed })
    }

    /// Waits until the server is about to stop.
    pub(crate) async fn closing(&self) {
        closing(self.closed.clone()).await;
    }
}

/// Waits until this says that the server is about to stop.
pub(crate) async fn closing(mut closed: watch::Receiver<bool>) {
    // A sender that is gone has told everybody before it went.
    drop(closed.wait_for(|closed| *closed).await);
}
