//! A boxed future, which is compiled in the crate that boxes it.

use std::pin::Pin;

/// A future of any type.
///
/// The compiler translates an `async fn` where it is awaited. A server that is one large future
/// would so be compiled again by each program that runs it; boxed, it is compiled once.
pub type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
