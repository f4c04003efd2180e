//! The items of a request, such as its topics and partitions: a request may name 250,000.
//!
//! Each item claims steps from the budget of the request. After every few steps the request pauses,
//! so other connections of the thread are served, and commits of other clients come in between.
//! After its first pause, a request runs in turns: [`TURNS`] requests at a time. An item beyond the
//! budget gets the error of its budget, and the items before it keep their results.

use std::sync::Arc;

use quire::PermittedView;
use quire_access::BoundedRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::memory::GrowingResponse;
use crate::pause::STEPS_AT_ONCE;
use crate::topics;

/// The steps of an item that is committed by itself: its checks, its record and its reply.
const COMMIT_STEPS: usize = 8;

/// The number of long requests that run at a time. Each of them may use a processor.
pub(crate) const TURNS: usize = 2;

/// The partitions of a topic: from 0 on. An unknown topic has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionNumbers(u32);

impl PartitionNumbers {
    pub(crate) fn contains(self, partition: i32) -> bool {
        u32::try_from(partition).is_ok_and(|number| number < self.0)
    }
}

/// The steps of a running request.
#[derive(Debug)]
pub(crate) struct RequestItems {
    bounded: BoundedRequest,
    /// The steps since the last pause.
    steps: usize,
    turns: Arc<Semaphore>,
    /// The turn of a request that has paused before.
    turn: Option<OwnedSemaphorePermit>,
    is_long: bool,
}

impl RequestItems {
    /// Begins a request with the budget of the database's settings. Dropping it cancels the
    /// request's work.
    pub(crate) fn begin(broker: &Broker) -> Self {
        let turns = Arc::clone(&broker.item_turns);
        RequestItems { bounded: BoundedRequest::begin(&broker.database()), steps: 0, turns, turn: None, is_long: false }
    }

    /// Claims the steps of an item that is committed, or may be.
    ///
    /// # Errors
    /// When the request exceeds its steps.
    pub(crate) async fn commit(&mut self) -> Result<(), KafkaError> {
        self.claim(COMMIT_STEPS).await
    }

    /// Claims the steps of `count` items that are looked up.
    ///
    /// # Errors
    /// When the request exceeds its steps.
    pub(crate) async fn look(&mut self, count: usize) -> Result<(), KafkaError> {
        self.claim(count).await
    }

    async fn claim(&mut self, steps: usize) -> Result<(), KafkaError> {
        self.steps += steps;
        if self.steps >= STEPS_AT_ONCE {
            (self.steps, self.turn, self.is_long) = (0, None, true);
            yield_now().await;
        }
        if self.is_long && self.turn.is_none() {
            self.turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        }
        let claimed = self.bounded.database().budget().map_or(Ok(()), |budget| budget.claim(steps as u64));
        claimed.map_err(|error| quire::Error::from(error).into())
    }

    /// Claims memory of the response without a turn: others that have the memory may need it.
    ///
    /// # Errors
    /// Those of [`GrowingResponse::claim`].
    pub(crate) async fn grow(&mut self, memory: &mut GrowingResponse<'_>, bytes: usize) -> Result<(), CloseReason> {
        if memory.try_claim(bytes) {
            return Ok(());
        }
        self.turn = None;
        memory.claim(bytes).await
    }

    /// Reads each of `items` from the published log, some at a time. Commits continue in between.
    ///
    /// # Errors
    /// When the database has failed. The inner error is that of [`RequestItems::look`].
    pub(crate) async fn read_each<I, T>(
        &mut self,
        broker: &Broker,
        items: &[I],
        mut look: impl FnMut(u128, &PermittedView<'_>, &I) -> T,
    ) -> Result<Vec<Result<T, KafkaError>>, CloseReason> {
        let mut found = Vec::with_capacity(items.len());
        for few in items.chunks(STEPS_AT_ONCE) {
            if let Err(failure) = self.look(few.len()).await {
                found.extend(few.iter().map(|_| Err(failure.clone())));
                continue;
            }
            let read = broker.read_published(|database, view| {
                found.extend(few.iter().map(|item| Ok(look(database, view, item))));
            });
            read.map_err(|_| CloseReason::Failed)?;
        }
        Ok(found)
    }

    /// Returns the partitions of each topic of `names`.
    ///
    /// # Errors
    /// Like [`RequestItems::read_each`].
    pub(crate) async fn partitions(
        &mut self,
        broker: &Broker,
        names: &[&str],
    ) -> Result<Vec<Result<PartitionNumbers, KafkaError>>, CloseReason> {
        let look = |database: u128, view: &PermittedView<'_>, name: &&str| {
            PartitionNumbers(topics::named(database, view, name).map_or(0, |topic| topic.partitions()))
        };
        self.read_each(broker, names, look).await
    }
}
