//! A boxed future, which is compiled in the crate that boxes it.

use std::pin::Pin;

/// A future of any type.
///
/// The compiler generates the code of an `async fn` in the crate that awaits it. So each program
/// that awaits the large future of a server would compile it again. A boxed future is compiled
/// once.
pub type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
