//! Access: what every front end shares before it reads a request.
//!
//! ```text
//!            accept ─▶ limits: in all, per address ─▶ TLS ─▶ first request in time ─▶ protocol
//! listener     │                                      │
//!              └ file handles reserved for the log    └ certificate of the client ─▶ its name
//! request: the steps of one request, which end when its client leaves
//! ```
//!
//! * [`Listener`]: admits connections within the limits of [`ConnectionSettings`].
//! * [`ConnectionActivity`]: the running requests of a connection. Idle connections give their
//!   places to new ones at a limit.
//! * [`ServerTls`]: the certificate of a server, and the certificates of its clients.
//! * [`Connection`]: an established connection with its deadlines.
//! * [`ArrivalDeadline`]: the deadline of a body or a message that has begun.
//! * [`LiveSettings`] and [`ConnectionLimits`]: settings that are replaced while a server runs.
//! * [`ConnectionCounters`] and [`ConnectionStatistics`]: counts of connections by how they ended.
//! * [`Traffic`]: requests of all front ends by name, with their durations.
//! * [`RequestSpan`]: the span of a request, for traces.
//! * [`browser`]: the rules for requests of web pages.
//! * [`budget`]: the memory of all clients, with a share for each address.
//! * [`sasl`]: authentication with API keys and passwords.
//! * [`RecordsRead`]: records of a topic for one response.
//! * [`ReadTurns`]: the number of reads that decompress much at a time.
//! * [`StatementTurns`]: the number of SQL statements at a time.
//! * [`QuotaBuckets`]: how long clients wait that used more than their quotas.
//! * [`FetchTurns`]: which of the waiting fetches is woken when jobs arrive.
//! * [`raise_handle_limit`] and [`share_out`]: file handles.
//! * [`ServedDatabase`] and [`Session`]: who a client is, and the database as it may use it.
//! * [`TokenVerifier`]: bearer tokens of an OpenID provider, and the sign-in of browsers there.
//! * [`SessionCache`]: the session of a request by its `Authorization` fields.
//! * [`LocalRead`]: reads that a node of a cluster answers, whichever node leads.
//! * [`BrowserSessions`]: sessions that browsers present as a cookie.
//! * [`Forwarder`]: requests that a node of a cluster forwards to the leader.
//! * [`BoxedFuture`]: a server's future.
//!
//! # What is not here
//! Protocol formats, and decisions about data.

mod address;
mod settings;

mod file_stamp;
mod future;
mod handles;

mod listener;
mod live;
mod peer;
mod places;
mod stream;
mod tls;

mod halves;

mod activity;
mod arrival;
mod aside;
mod audit;
mod authorization;
mod browser_sessions;
mod connection;
mod fetch_turns;
mod forwarding;
mod local_read;
mod oidc;
mod quotas;
mod records;
mod request;
mod request_id;
mod session;
mod span;
mod statement_turns;
mod statistics;
mod traffic;
mod turns;

pub mod browser;
pub mod budget;
pub mod sasl;

pub use activity::{ConnectionActivity, RunningRequest};
pub use address::ListenAddress;
pub use arrival::ArrivalDeadline;
pub use aside::{AsideWork, RunningWork, RuntimeStopping, WorkResult, aside};
pub use authorization::SessionCache;
pub use browser_sessions::{BROWSER_SESSION, BROWSER_SESSION_IDLE, BrowserSessions};
pub use connection::{Connection, FirstRequest};
pub use fetch_turns::{FetchTurn, FetchTurns};
pub use forwarding::{
    ForwardOrigin, ForwardRefusal, ForwardedRequest, Forwarder, ForwardsBusy, LeaderConnection, LeaderConnector,
};
pub use future::BoxedFuture;
pub use halves::{StreamReader, StreamWriter};
pub use handles::{LOG_HANDLES, raise_handle_limit, share_out};
pub use listener::{Admission, EstablishedConnection, Listener, check_address};
pub use live::LiveSettings;
pub use local_read::{LocalRead, LocalReadError};
pub use oidc::{
    LOGIN, LoginAnswer, LoginError, LoginSettings, OidcSettings, PreparedLogin, ProviderLogin, RoleMapping,
    TokenVerifier,
};
pub use peer::{Peer, TlsPeer};
pub use places::{ConnectionLimits, ConnectionPlace};
pub use quotas::{QuotaBuckets, QuotaClient};
pub use records::{
    Decompression, LargeRecord, RECORDS_BYTES_DEFAULT, RECORDS_BYTES_MAX, RecordVisitor, RecordsEnd, RecordsError,
    RecordsRead,
};
pub use request::BoundedRequest;
pub use request_id::{MadeRequestId, is_request_id};
pub use session::{AuthenticationError, Credential, ServedDatabase, Session};
pub use settings::ConnectionSettings;
pub use span::{RequestSpan, SPAN_TARGET, TRACEPARENT};
pub use statement_turns::{StatementTurn, StatementTurns, StatementsBusy};
pub use statistics::{ConnectionCounters, ConnectionStatistics, Deadline};
pub use stream::{Stream, TlsStream};
pub use tls::{
    ClientCertificates, NameRule, PeerBytes, PeerConnector, PeerStream, ServerTls, TlsProtocol, TlsSettings, TlsVersion,
};
pub use traffic::{ActiveRequest, EndedRequests, FrontEndTraffic, Traffic};
pub use turns::{ReadTurn, ReadTurns, ThreadTurns};
