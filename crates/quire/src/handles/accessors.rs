//! The handles of a database, by the names of their objects.

use crate::database::Database;
use crate::handles::{EventStore, Graph, Group, Queue, Topic};

impl Database {
    /// Returns the consumer group `name`, which may not exist yet.
    pub fn group(&self, name: &str) -> Group {
        Group::new(self, name)
    }

    /// Returns the topic `name`, which may not exist yet.
    pub fn topic(&self, name: &str) -> Topic {
        Topic::new(self, name)
    }

    /// Returns the event store `name`, which may not exist yet.
    pub fn events(&self, name: &str) -> EventStore {
        EventStore::new(self, name)
    }

    /// Returns the queue `name`, which may not exist yet.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(self, name)
    }

    /// Returns the graph `name`, which may not exist yet.
    pub fn graph(&self, name: &str) -> Graph {
        Graph::new(self, name)
    }
}
