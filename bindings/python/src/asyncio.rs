//! Futures of asyncio that the database, or the answer of a server, completes.
//!
//! A waker of the database sends its work to one thread of the process, which hands it to the event
//! loops. So the threads of the database never wait for the interpreter's lock, and a call that
//! waits costs no thread.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::{self, CallError};
use crate::held::forks_so_far;

/// Makes the value of a completed future.
type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
type Work = Pin<Box<dyn Future<Output = Convert> + Send>>;

/// A future of Rust, and the future of asyncio that it completes.
struct Completion {
    /// `None` once it is complete or cancelled.
    work: Mutex<Option<Work>>,
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
}

/// Starts `work` in the running event loop. Returns the future of asyncio, which is already
/// complete when the work does not wait.
pub(crate) fn spawn<T: Send + 'static, E: Into<CallError> + 'static>(
    py: Python<'_>,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let event_loop = RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?;
    let future = event_loop.call_method0("create_future")?;
    let work: Work = Box::pin(async move {
        let result = work.await;
        let result = result.map_err(Into::into);
        Box::new(move |py: Python<'_>| convert(py, errors::result::<T, CallError>(py, result)?)) as Convert
    });
    let completion = Arc::new(Completion {
        work: Mutex::new(Some(work)),
        event_loop: event_loop.unbind(),
        future: future.clone().unbind(),
    });
    if !completion.poll(py)? {
        // A cancelled future ends its work at once.
        future.call_method1("add_done_callback", (Poller(completion),))?;
    }
    Ok(future.unbind())
}

impl Completion {
    /// Advances the work, in the thread of the event loop. Returns whether it is over.
    fn poll(self: &Arc<Self>, py: Python<'_>) -> PyResult<bool> {
        let future = self.future.bind(py);
        let is_cancelled = future.call_method0("done")?.is_truthy()?;
        let polled = py.detach(|| {
            let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            if is_cancelled {
                *work = None;
            }
            let polled = work.as_mut()?.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))));
            if polled.is_ready() {
                *work = None;
            }
            Some(polled)
        });
        match polled {
            None => {}
            Some(Poll::Pending) => return Ok(false),
            Some(Poll::Ready(convert)) => match convert(py) {
                Ok(value) => drop(future.call_method1("set_result", (value,))?),
                Err(error) => drop(future.call_method1("set_exception", (error.into_value(py),))?),
            },
        }
        Ok(true)
    }
}

impl Wake for Completion {
    fn wake(self: Arc<Self>) {
        static WOKEN: Mutex<Option<(u32, Sender<Arc<Completion>>)>> = Mutex::new(None);
        let mut woken = WOKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if woken.as_ref().is_none_or(|(forks, _)| *forks != forks_so_far()) {
            let (sender, receiver) = channel();
            let thread = std::thread::Builder::new().name("quire-asyncio".to_owned());
            thread.spawn(move || pass_on(&receiver)).expect("the system starts a thread");
            *woken = Some((forks_so_far(), sender));
        }
        let (_, sender) = woken.as_ref().expect("it was set just now");
        // Without the thread the interpreter has ended.
        let _ = sender.send(self);
    }
}

/// Hands woken work to its event loops, until the interpreter ends.
fn pass_on(woken: &Receiver<Arc<Completion>>) {
    while let Ok(first) = woken.recv() {
        let batch = [first].into_iter().chain(woken.try_iter()).collect::<Vec<_>>();
        let passed = Python::try_attach(|py| {
            for completion in batch {
                let event_loop = completion.event_loop.clone_ref(py);
                // An event loop that is closed does not want its results.
                let _ = event_loop.call_method1(py, "call_soon_threadsafe", (Poller(completion),));
            }
        });
        if passed.is_none() {
            return;
        }
    }
}

/// The call that advances a completion.
#[pyclass(frozen)]
struct Poller(Arc<Completion>);

#[pymethods]
impl Poller {
    #[pyo3(signature = (_done=None))]
    fn __call__(&self, py: Python<'_>, _done: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.0.poll(py).map(drop)
    }
}
