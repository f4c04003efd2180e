//! SASL: clients prove which user they are, with an API key, a password or a token.
//!
//! ```text
//! mechanism ─▶ begin ─▶ SaslExchange ◀──── the client's messages
//!                            │
//!            answer ─────────┼─▶ Challenge: to the client, which answers it
//!                            ├─▶ Password: checked on a thread of its own, two at a time
//!                            ├─▶ Authenticated: the principal
//!                            ├─▶ Refused: the reason, to the client, which fails after it
//!                            └─▶ failure: the same, whatever failed, after a pause (`failures.rs`)
//! ```
//!
//! * [`SaslAuthenticator`]: the part that all connections of a server share. It adds random
//!   numbers, threads and pauses.
//! * [`SaslExchange`]: the exchange of one connection, without input or output. Its messages are at
//!   most [`MESSAGE_BYTES_MAX`] long, and those with a token as long as tokens may be.
//! * [`SaslMechanism`]: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER on servers that accept
//!   tokens.
//!
//! # What a client without a credential can learn
//! Nothing about users. A user that does not exist, is disabled or has no password gets a salt that
//! looks like those of others, and takes the same steps as a wrong password. Made-up salts follow
//! from a secret of the database, so they stay the same after a restart. Iterations that most users
//! do not have, or a salt of an unusual length, can give a user away.
//!
//! # What is not here
//! * Channel binding. Clients that would support it may say so.
//! * A principal other than the user that the credential belongs to.

mod authenticator;
mod exchange;
mod failures;
mod hashes;
mod mechanism;
mod oauth_bearer;
mod password;
mod plain;
mod scram;
mod scram_message;
mod secret;
#[cfg(test)]
mod tests;

pub use authenticator::{SaslAuthenticator, SaslProgress};
pub use exchange::{MESSAGE_BYTES_MAX, SaslExchange, SaslFailure, SaslStep};
pub use mechanism::SaslMechanism;
pub use password::PasswordCheck;
pub use secret::SaslSecret;
