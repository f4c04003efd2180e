//! Access: what every front end shares before it reads a request.
//!
//! ```text
//!            accept ─▶ limits: in all, per address ─▶ first request in time ─▶ protocol
//! listener     │
//!              └ file handles reserved for the log
//! budget: the bytes that clients make the server hold, shared by all front ends, with a share per caller
//! ```
//!
//! # What is not here
//! Protocol formats, and decisions about data.
