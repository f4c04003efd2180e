//! The leader of a cluster, as the other nodes name it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire_api::Code;

use crate::{ClientError, FailureKind};

/// The start of the URLs of the leader, when it is not the server that the client was given.
#[derive(Debug, Default)]
pub(crate) struct KnownLeader(Mutex<Option<Arc<str>>>);

impl KnownLeader {
    /// The start of URLs: `own`, or that of the leader.
    pub(crate) fn base(&self, own: &str) -> Arc<str> {
        self.lock().clone().unwrap_or_else(|| own.into())
    }

    /// Learns from the failure of a request that was sent to `base`. Returns whether the leader is
    /// another node, which is known now: nothing was done, and the request may be sent there at
    /// once.
    pub(crate) fn learn(&self, own: &str, base: &str, error: &ClientError) -> bool {
        if error.kind() == FailureKind::Unanswered {
            // The server that the client was given may know the next leader.
            *self.lock() = None;
            return false;
        }
        if error.code() != Some(Code::NotLeader) {
            return false;
        }
        let named = error.facts().get("leader_http").and_then(|address| address.as_str());
        let scheme = own.split_once("://").map_or("", |(scheme, _)| scheme);
        match named {
            Some(address) if matches!(scheme, "http" | "https") => {
                let leader: Arc<str> = format!("{scheme}://{address}").into();
                let is_other = *leader != *base;
                *self.lock() = is_other.then_some(leader);
                is_other
            }
            _ => {
                *self.lock() = None;
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_leader(leader: &str) -> ClientError {
        let body = format!(
            r#"{{"status":503,"code":"not_leader","title":"t","detail":"d","type":"about:blank","leader":2{leader}}}"#
        );
        ClientError::of_response("http://10.0.0.1:7070", 503, body.as_bytes(), None)
    }

    #[test]
    fn a_client_follows_the_leader_and_returns_when_it_does_not_answer() {
        let (own, leader) = ("https://10.0.0.1:7070", KnownLeader::default());
        assert_eq!(&*leader.base(own), own);
        assert!(leader.learn(own, own, &not_leader(r#","leader_http":"10.0.0.2:7070""#)));
        assert_eq!(&*leader.base(own), "https://10.0.0.2:7070");
        // Two nodes that name each other are not asked in turn.
        assert!(!leader.learn(own, "https://10.0.0.2:7070", &not_leader(r#","leader_http":"10.0.0.2:7070""#)));
        assert_eq!(&*leader.base(own), own);
        assert!(leader.learn(own, own, &not_leader(r#","leader_http":"10.0.0.3:7070""#)));
        assert!(!leader.learn(own, "https://10.0.0.3:7070", &ClientError::new(FailureKind::Unanswered, "gone")));
        assert_eq!(&*leader.base(own), own);
        assert!(!leader.learn(own, own, &not_leader("")), "no leader is known");
        assert!(!leader.learn("unix:/run/quire.sock", own, &not_leader(r#","leader_http":"10.0.0.2:7070""#)));
    }
}
