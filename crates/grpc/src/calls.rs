//! The calls: every call passes here before the services, and its messages get a deadline.
//!
//! A message that has begun must arrive completely in time. So must the first message of a call,
//! and the end of a call that has only one. A stream of the client may be silent between messages.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use quire_access::{ArrivalDeadline, AuthenticationError, BoxedFuture, ConnectionSettings};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Body as HttpBody, Service};
use tonic::service::Routes;

use crate::app::ServiceComponents;
use crate::connections::CallOrigin;
use crate::{error, forwarding, linearizable, local_read};

/// The calls in which a client sends messages at any time.
const CLIENT_STREAMS: [&str; 2] = ["/quire.v1.Jobs/Work", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"];

/// The bytes before each message: a flag, and its length.
const PREFIX_BYTES: usize = 5;

/// The services behind the deadlines; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    routes: Routes,
    settings: Arc<ConnectionSettings>,
    // Dropped after the services.
    components: Arc<ServiceComponents>,
}

impl Calls {
    pub(crate) fn new(routes: Routes, settings: ConnectionSettings, components: Arc<ServiceComponents>) -> Self {
        Calls { routes: routes.prepare(), settings: Arc::new(settings), components }
    }
}

impl Service<Request<Body>> for Calls {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxedFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<ArrivingMessages>>::poll_ready(&mut self.routes, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let origin = request.extensions().get::<CallOrigin>().expect("every connection has its origin").clone();
        origin.first.arrived();
        let is_stream = CLIENT_STREAMS.contains(&request.uri().path());
        let messages = |body| ArrivingMessages {
            body,
            settings: Arc::clone(&self.settings),
            origin: origin.clone(),
            progress: MessageProgress { is_stream, ..MessageProgress::default() },
            deadline: ArrivalDeadline::default(),
        };
        let local_read = match local_read::of_call(request.uri().path(), request.headers()) {
            Ok(local_read) => local_read,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let (path, metadata) = (request.uri().path(), request.headers());
        let forwarding = forwarding::forwarding_of(&self.components, path, metadata, &origin).cloned();
        match forwarding {
            Some(forwarding) => {
                let (components, request) =
                    (Arc::clone(&self.components), request.map(|body| Body::new(messages(body))));
                Box::pin(async move { Ok(forwarding::ask_leader(&components, forwarding, origin, request).await) })
            }
            None => {
                // The credential was left to the leader, and this node leads by now. It may know
                // the credential meanwhile.
                if request.extensions().get::<AuthenticationError>().is_some() {
                    let status = error::not_leader(self.components.served().owner());
                    return Box::pin(async move { Ok(status.into_http()) });
                }
                let confirmation = match local_read {
                    Some(_) => None,
                    None => linearizable::confirmation(&self.components, request.uri().path()),
                };
                let handling = self.routes.call(request.map(messages));
                if let Some(read) = local_read {
                    let components = Arc::clone(&self.components);
                    return Box::pin(
                        async move { local_read::answer(read, components.served().owner(), handling).await },
                    );
                }
                Box::pin(async move {
                    if let Some(confirmation) = confirmation
                        && let Err(error) = confirmation.await
                    {
                        return Ok(error::failed(error).into_http());
                    }
                    handling.await
                })
            }
        }
    }
}

/// The messages of a call while they arrive.
#[derive(Debug)]
pub(crate) struct ArrivingMessages {
    body: Body,
    settings: Arc<ConnectionSettings>,
    origin: CallOrigin,
    progress: MessageProgress,
    deadline: ArrivalDeadline,
}

/// The place of the next byte within the messages.
#[derive(Debug, Default)]
struct MessageProgress {
    is_stream: bool,
    /// Whether a whole message has arrived.
    has_message: bool,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// The missing bytes of the message.
    missing: usize,
    /// The bytes that arrived since the last message.
    bytes: u64,
}

impl MessageProgress {
    /// Follows these bytes.
    fn follow(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let taken = if self.missing > 0 {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                taken
            } else {
                let taken = (PREFIX_BYTES - self.prefix_bytes).min(data.len());
                self.prefix[self.prefix_bytes..][..taken].copy_from_slice(&data[..taken]);
                self.prefix_bytes += taken;
                if self.prefix_bytes == PREFIX_BYTES {
                    self.missing = (&self.prefix[1..]).get_u32() as usize;
                }
                taken
            };
            self.bytes += taken as u64;
            data = &data[taken..];
            if self.prefix_bytes == PREFIX_BYTES && self.missing == 0 {
                (self.has_message, self.prefix_bytes, self.bytes) = (true, 0, 0);
            }
        }
    }

    /// Whether the client may be silent now.
    fn may_rest(&self) -> bool {
        self.is_stream && self.has_message && self.prefix_bytes == 0
    }
}

impl HttpBody for ArrivingMessages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => {
                if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                    this.progress.follow(data);
                }
                if this.progress.may_rest() {
                    this.deadline.rest();
                }
                Poll::Ready(frame)
            }
            Poll::Pending if this.progress.may_rest() => Poll::Pending,
            Poll::Pending => {
                let (bytes, counters) = (this.progress.bytes, &this.origin.counters);
                ready!(this.deadline.poll_late(context, &this.settings, bytes, counters));
                Poll::Ready(Some(Err(error::late())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    /// Follows the pieces, and reports after each whether the client may rest.
    fn rests(is_stream: bool, pieces: &[&[u8]]) -> Vec<bool> {
        let mut progress = MessageProgress { is_stream, ..MessageProgress::default() };
        let rest = |piece: &&[u8]| {
            progress.follow(piece);
            progress.may_rest()
        };
        pieces.iter().map(rest).collect()
    }

    #[test]
    fn a_stream_may_rest_between_messages_only() {
        let pieces = [&b""[..], b"\0\0\0", b"\0\x03", b"ab", b"c", b"\0\0\0\0\x01x\0", b"\0\0\0\0", b"\0\0\0\0\0"];
        assert_eq!(rests(true, &pieces), [false, false, false, false, true, false, true, true]);
    }

    #[test]
    fn every_stream_of_a_client_may_rest() {
        let files = FileDescriptorSet::decode(crate::services::DESCRIPTORS).expect("descriptors").file;
        let mut streams = Vec::new();
        for (file, service) in files.iter().flat_map(|file| file.service.iter().map(move |service| (file, service))) {
            let methods = service.method.iter().filter(|method| method.client_streaming());
            streams.extend(methods.map(|method| format!("/{}.{}/{}", file.package(), service.name(), method.name())));
        }
        let known: Vec<_> = CLIENT_STREAMS.into_iter().filter(|path| path.starts_with("/quire.")).collect();
        assert_eq!(streams, known);
    }

    #[test]
    fn a_call_of_one_message_has_to_end() {
        assert_eq!(rests(false, &[b"\0\0\0\0\x01x"]), [false]);
    }
}
