//! The error of a handler.

use std::fmt;

/// The error of a worker's or a consumer's handler: its text. The text is stored with the job, or
/// in the header `error` of a dead letter.
///
/// The operator `?` converts every error that implements [`Display`](fmt::Display), and text:
///
/// ```
/// use quire::{Commit, HandlerError, Message};
///
/// fn invoice(order: &[u8]) -> Result<Commit<'static>, HandlerError> {
///     let number: u32 = std::str::from_utf8(order)?.parse()?;
///     if number == 0 {
///         return Err(format!("order {number} has no invoice").into());
///     }
///     Ok(Commit::new().produce("invoices", Message::new(format!("invoice {number}"))))
/// }
/// assert!(invoice(b"17").is_ok());
/// assert_eq!(invoice(b"0").unwrap_err().text(), "order 0 has no invoice");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError(String);

impl HandlerError {
    /// Returns the text of the error.
    pub fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

// For this conversion, the type does not implement `Display` itself.
impl<E: fmt::Display> From<E> for HandlerError {
    fn from(error: E) -> Self {
        HandlerError(error.to_string())
    }
}
