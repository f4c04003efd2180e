//! The caller of the running request, as a task-local value: handlers do not pass it on.
//!
//! A front end sets it around the handling of each request. Work that moves to another thread takes
//! it along with [`aside`](crate::aside). A task that is spawned for a request has to keep its
//! caller itself.

use std::future::Future;

use super::BudgetCaller;
use crate::aside::AsideWork;
use crate::session::Session;

tokio::task_local! {
    static CALLER: BudgetCaller;
}

/// Runs the handling of a request of `caller`.
pub fn handle_for<F: Future>(caller: BudgetCaller, handling: F) -> impl Future<Output = F::Output> {
    CALLER.scope(caller, handling)
}

/// Returns the caller of the running request; `None` outside of one.
pub fn running_caller() -> Option<BudgetCaller> {
    CALLER.try_get().ok()
}

/// Returns `work` of the running request for another thread, with its caller and its session.
pub(crate) fn carried(work: AsideWork) -> AsideWork {
    let (caller, session) = (running_caller(), Session::current());
    let work = move || match session {
        Some(session) => session.sync_scope(work),
        None => work(),
    };
    Box::new(move || match caller {
        Some(caller) => CALLER.sync_scope(caller, work),
        None => work(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aside::aside;
    use crate::budget::{ByteBudget, FREE_BYTES, FrontEnd};

    #[tokio::test]
    async fn a_request_has_its_caller_on_other_threads_too_and_no_other_task_has_it() {
        let budget = ByteBudget::new(ByteBudget::BYTES_LEAST);
        let caller = budget.caller(FrontEnd::Http, None);
        let claim = || {
            let mut claim = running_caller()?.claim();
            claim.grow(FREE_BYTES).ok()?;
            Some(claim)
        };
        let (first, aside) = handle_for(caller.clone(), async {
            let aside = aside(claim).await.expect("it runs");
            (claim(), aside)
        })
        .await;
        assert!(first.is_some() && aside.is_some() && claim().is_none());
        // The two used the free bytes of one caller.
        assert_eq!(budget.usage().bytes_used, FREE_BYTES as u64);
    }
}
