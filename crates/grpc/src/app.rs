//! What every service has at hand.

use std::convert::Infallible;
use std::sync::Arc;

use quire::Database;
use tokio::sync::{mpsc, watch};

/// The components behind the services.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) database: Database,
    /// Whether the server is about to stop: streams end then.
    closed: watch::Receiver<bool>,
    /// Its other end learns when the last call has let go of the database.
    _held: mpsc::Sender<Infallible>,
}

impl App {
    /// The components, and what to wait for until nobody holds them any more.
    pub(crate) fn new(database: Database, closed: watch::Receiver<bool>) -> (Arc<Self>, Gone) {
        let (held, gone) = mpsc::channel(1);
        (Arc::new(App { database, closed, _held: held }), Gone(gone))
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

/// The end of an [`App`].
#[derive(Debug)]
pub(crate) struct Gone(mpsc::Receiver<Infallible>);

impl Gone {
    /// Waits until nobody holds the components.
    pub(crate) async fn wait(mut self) {
        // Nothing is ever sent: this returns when the sender is gone.
        let _ = self.0.recv().await;
    }
}
