//! Settings that are replaced while their server runs.

use std::sync::{Arc, PoisonError, RwLock};

/// The current settings of a server. A reader uses one state of all of them.
#[derive(Debug, Default)]
pub struct LiveSettings<S>(RwLock<Arc<S>>);

impl<S> LiveSettings<S> {
    /// Begins with these settings.
    pub fn new(settings: S) -> Arc<Self> {
        Arc::new(LiveSettings(RwLock::new(Arc::new(settings))))
    }

    /// Returns the current settings.
    pub fn current(&self) -> Arc<S> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the settings.
    pub fn replace(&self, settings: S) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
