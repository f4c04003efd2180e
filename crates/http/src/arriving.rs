//! The body of a request while it arrives: within a deadline, and read to its end even when no
//! handler needs it.
//!
//! The next request of a connection stands behind the body, so a body that is not read would end
//! the connection. The rest of a short body that a handler drops is therefore drained.

use std::error::Error;
use std::fmt;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use quire_access::ArrivalDeadline;
use tokio::runtime::Handle;

use crate::gate::ConnectionGate;

/// Maximum bytes of a body that are drained; a longer one ends its connection.
const DRAINED_BYTES_MAX: u64 = 256 << 10;

/// A body that arrives; see the module.
#[derive(Debug)]
pub(crate) struct ArrivingBody {
    /// `None` when the body has ended.
    arrival: Option<PendingBody>,
    /// Whether the rest is drained when the body is dropped.
    drains: bool,
}

#[derive(Debug)]
struct PendingBody {
    body: Incoming,
    gate: Arc<ConnectionGate>,
    bytes: u64,
    deadline: ArrivalDeadline,
}

/// The body did not arrive in time.
#[derive(Debug)]
pub(crate) struct LateBody;

impl fmt::Display for LateBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body did not arrive in time")
    }
}

impl Error for LateBody {}

impl LateBody {
    /// Whether a late body caused this error.
    pub(crate) fn caused(error: &(dyn Error + 'static)) -> bool {
        error.is::<LateBody>() || error.source().is_some_and(LateBody::caused)
    }
}

impl ArrivingBody {
    /// `drains` is false for a client that may send its next request instead of the body.
    pub(crate) fn new(body: Incoming, gate: &Arc<ConnectionGate>, drains: bool) -> Self {
        let arrival = (!body.is_end_stream()).then(|| PendingBody {
            body,
            gate: Arc::clone(gate),
            bytes: 0,
            deadline: ArrivalDeadline::default(),
        });
        ArrivingBody { arrival, drains }
    }

    /// Reads the rest of a body, up to [`DRAINED_BYTES_MAX`].
    async fn drain(mut self) {
        let mut bytes = 0;
        while bytes <= DRAINED_BYTES_MAX
            && let Some(Ok(frame)) = future::poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await
        {
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
    }
}

impl Body for ArrivingBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(arrival) = &mut self.arrival else { return Poll::Ready(None) };
        match Pin::new(&mut arrival.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                arrival.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(ended) => {
                self.arrival = None;
                Poll::Ready(ended.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                let (settings, counters) = (arrival.gate.settings(), arrival.gate.counters());
                ready!(arrival.deadline.poll_late(context, &settings.connections, arrival.bytes, counters));
                self.arrival = None;
                Poll::Ready(Some(Err(LateBody.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.arrival.as_ref().is_none_or(|arrival| arrival.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.arrival.as_ref().map_or(SizeHint::with_exact(0), |arrival| arrival.body.size_hint())
    }
}

impl Drop for ArrivingBody {
    fn drop(&mut self) {
        let Some(arrival) = self.arrival.take() else { return };
        let is_short = arrival.body.size_hint().lower() <= DRAINED_BYTES_MAX;
        if self.drains
            && is_short
            && !arrival.body.is_end_stream()
            && let Ok(runtime) = Handle::try_current()
        {
            drop(runtime.spawn(ArrivingBody { arrival: Some(arrival), drains: false }.drain()));
        }
    }
}
