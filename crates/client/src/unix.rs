//! Connections over a Unix socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};
use ureq::{Error, Timeout};

/// Connects to one socket, regardless of the host in a URL.
#[derive(Debug)]
pub(crate) struct SocketConnector {
    path: PathBuf,
}

/// A connection over a Unix socket.
#[derive(Debug)]
pub(crate) struct SocketTransport {
    socket: Arc<SharedSocket>,
    buffers: LazyBuffers,
}

/// A socket that another thread can shut down.
#[derive(Debug)]
struct SharedSocket(UnixStream);

impl ShutdownHandle for SharedSocket {
    fn shutdown(&self) {
        // A socket that is shut down already needs nothing more.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Resolves no host: a socket has none.
#[derive(Debug)]
pub(crate) struct SocketResolver;

impl Resolver for SocketResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Ok(addresses)
    }
}

impl SocketConnector {
    pub(crate) fn new(path: PathBuf) -> Self {
        SocketConnector { path }
    }
}

impl Connector for SocketConnector {
    type Out = SocketTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<SocketTransport>, Error> {
        let socket = Arc::new(SharedSocket(UnixStream::connect(&self.path)?));
        let handle: Weak<SharedSocket> = Arc::downgrade(&socket);
        (details.register_shutdown)(handle)?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(SocketTransport { socket, buffers: LazyBuffers::new(input, output) }))
    }
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let mut stream = &self.socket.0;
        stream.set_write_timeout(limit(timeout)?)?;
        let output = &self.buffers.output()[..amount];
        stream.write_all(output).map_err(|error| failure(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let mut stream = &self.socket.0;
        stream.set_read_timeout(limit(timeout)?)?;
        let input = self.buffers.input_append_buf();
        let count = loop {
            match stream.read(input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| failure(error, timeout.reason))?,
            }
        };
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // A server sends nothing between two answers: bytes, or the end, mean a broken connection.
        let is_silent = |mut stream: &UnixStream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok::<_, std::io::Error>(matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock))
        };
        is_silent(&self.socket.0).unwrap_or(false)
    }
}

/// The limit of one read or write; none for no limit.
fn limit(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    match timeout.not_zero() {
        Some(_) if timeout.after.is_zero() => Err(Error::Timeout(timeout.reason)),
        limit => Ok(limit.map(|limit| *limit)),
    }
}

fn failure(error: std::io::Error, reason: Timeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(reason),
        _ => Error::Io(error),
    }
}
