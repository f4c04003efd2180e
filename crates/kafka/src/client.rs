//! The state of one connection besides its frames.

use std::future;

use quire_access::budget::BudgetCaller;
use tokio::sync::watch;

use crate::authentication::Authentication;
use crate::close_reason::CloseReason;
use crate::sessions::FetchSession;

/// The state of one connection that its requests share.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) caller: BudgetCaller,
    pub(crate) authentication: Authentication,
    /// Why the connection closes after the response of the running request.
    pub(crate) closing: Option<CloseReason>,
    /// The fetch session of the client.
    pub(crate) session: Option<FetchSession>,
    /// The members that joined through this connection and have not requested their assignment:
    /// group and member id. When the connection ends, they leave.
    pub(crate) joined: Vec<(String, String)>,
    pub(crate) left: ClientLeft,
}

/// Whether the client of a connection has closed its side.
#[derive(Debug, Clone)]
pub(crate) struct ClientLeft(watch::Receiver<bool>);

impl ClientLeft {
    /// `left` becomes true when the client has closed its side.
    pub(crate) fn new(left: watch::Receiver<bool>) -> Self {
        ClientLeft(left)
    }

    /// Waits until the client has closed its side.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(|left| *left).await.is_err() {
            future::pending::<()>().await;
        }
    }
}

impl ClientState {
    pub(crate) fn new(caller: BudgetCaller, authentication: Authentication, left: ClientLeft) -> Self {
        ClientState { caller, authentication, closing: None, session: None, joined: Vec::new(), left }
    }

    /// Records a member that joined.
    pub(crate) fn join(&mut self, group: &str, member: &str) {
        if !self.has(group, member) {
            self.joined.push((group.to_owned(), member.to_owned()));
        }
    }

    /// Records that a member has requested its assignment.
    pub(crate) fn sync(&mut self, group: &str, member: &str) {
        self.joined.retain(|(of, id)| of != group || id != member);
    }

    fn has(&self, group: &str, member: &str) -> bool {
        self.joined.iter().any(|(of, id)| of == group && id == member)
    }
}
