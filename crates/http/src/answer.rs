//! A JSON answer, and the thread on which long ones are made.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::Problem;

/// A JSON answer, written out already.
#[derive(Debug)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// Writes it out.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        Answer(serde_json::to_vec(value).expect("an answer has strings for keys and no failing parts"))
    }
}

impl Answer {
    /// As a line of text: JSON as it is written here has no line breaks.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.0).expect("JSON is text")
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// Makes an answer that takes many steps over the log apart from the threads that serve connections.
pub(crate) async fn aside<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(make).await {
        Ok(made) => made,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Problem::stopping()),
        },
    }
}
