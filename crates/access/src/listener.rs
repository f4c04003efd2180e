//! The listener: the only place of the project's front ends that accepts connections.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, timeout_at};

use crate::address::ListenAddress;
use crate::forwarding::ForwardQueue;
use crate::peer::Peer;
use crate::places::{ConnectionLimits, ConnectionPlace, Places};
use crate::settings::ConnectionSettings;
use crate::statistics::{ConnectionCounters, Deadline};
use crate::stream::{Socket, Stream, TlsStream};
use crate::tls::{ServerTls, TlsProtocol};

/// The pause after a failed accept. The process is then out of file handles, and an immediate retry
/// would only waste processor time.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// The permissions of a Unix socket: only its user connects.
const SOCKET_MODE: u32 = 0o600;

/// Accepts connections within limits. Dropping it stops listening, and removes its Unix socket.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    address: ListenAddress,
    places: Arc<Places>,
    tls: Option<(Arc<ServerTls>, TlsProtocol)>,
    forwarded: ForwardQueue,
}

/// A connection that was admitted, before its handshake.
#[derive(Debug)]
pub struct Admission {
    stream: Stream,
    peer: Peer,
    place: ConnectionPlace,
    tls: Option<(Arc<ServerTls>, TlsProtocol)>,
}

/// A connection that is ready for its protocol.
#[derive(Debug)]
pub struct EstablishedConnection {
    /// The byte stream.
    pub stream: Stream,
    /// The client.
    pub peer: Peer,
    /// To be held as long as the stream is open.
    pub place: ConnectionPlace,
}

#[derive(Debug)]
enum ListeningSocket {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a Unix socket, removed when it is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode: another server may have replaced the file.
    id: (u64, u64),
}

impl Listener {
    /// Listens on an address. Port 0 selects a free port.
    ///
    /// A Unix socket is readable and writable by its user only. It replaces the socket of a server
    /// that has ended.
    ///
    /// # Errors
    /// When it can't listen on the address; the message names the address. `InvalidInput` when
    /// settings are invalid; the message names each.
    pub async fn bind(address: &ListenAddress, settings: &ConnectionSettings) -> io::Result<Self> {
        Listener::bind_with_reserve(address, settings, 0).await
    }

    /// Listens on an address, and admits up to `reserve` connections beyond the limits. They are
    /// for health and metrics only, see [`ConnectionPlace::is_reserved`].
    ///
    /// # Errors
    /// Like [`Listener::bind`].
    pub async fn bind_with_reserve(
        address: &ListenAddress,
        settings: &ConnectionSettings,
        reserve: usize,
    ) -> io::Result<Self> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        let (socket, address) = listen(address).await.map_err(|error| named(address, &error))?;
        let (places, forwarded) = (Places::new(settings, reserve), ForwardQueue::default());
        Ok(Listener { socket, address, places, tls: None, forwarded })
    }

    /// Listens on another address too. Both listeners share the limits and the counts.
    ///
    /// # Errors
    /// When it can't listen on the address; the message names the address.
    pub async fn and_on(&self, address: &ListenAddress) -> io::Result<Self> {
        let (socket, address) = listen(address).await.map_err(|error| named(address, &error))?;
        let (places, forwarded) = (Arc::clone(&self.places), ForwardQueue::default());
        Ok(Listener { socket, address, places, tls: None, forwarded })
    }

    /// Gives every connection TLS, for this protocol.
    ///
    /// # Errors
    /// `InvalidInput` for a Unix socket, which has no TLS.
    pub fn with_tls(self, tls: Arc<ServerTls>, protocol: TlsProtocol) -> io::Result<Self> {
        if self.address.tcp().is_none() {
            let why = format!("{} is a Unix socket, which has no TLS", self.address);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Listener { tls: Some((tls, protocol)), ..self })
    }

    /// The TLS of its connections, if they have TLS.
    pub fn tls(&self) -> Option<&Arc<ServerTls>> {
        self.tls.as_ref().map(|(tls, _)| tls)
    }

    /// The address that it listens on, with the real port.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The running counts.
    pub fn counters(&self) -> &Arc<ConnectionCounters> {
        self.places.counters()
    }

    /// The limits on connections, to change them while it listens.
    pub fn limits(&self) -> ConnectionLimits {
        self.places.limits()
    }

    /// The places of its connections.
    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// The connections that other nodes forward.
    pub(crate) fn forwarded(&self) -> &ForwardQueue {
        &self.forwarded
    }

    /// Admits the next connection, of its own socket or forwarded. Beyond the limits, an idle
    /// connection is closed for it. Without an idle connection, the new one is closed at once, and
    /// counted. Dropping the future loses no connection.
    pub async fn accept(&self) -> Admission {
        tokio::select! {
            admission = self.accept_from_socket() => admission,
            admission = self.forwarded.next() => admission,
        }
    }

    async fn accept_from_socket(&self) -> Admission {
        loop {
            self.places.settled().await;
            let accepted = match &self.socket {
                ListeningSocket::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
                ListeningSocket::Unix { listener, .. } => {
                    listener.accept().await.map(|(stream, _)| Stream::Unix(stream))
                }
            };
            let Ok(stream) = accepted else {
                // The failure concerns only that connection, or is temporary.
                self.counters().accept_failed();
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            };
            // A connection without a peer has been closed already.
            let Ok(peer) = Peer::of(&stream) else { continue };
            let Ok(place) = self.places.take(&peer) else { continue };
            if let Stream::Tcp(stream) = &stream {
                // Responses are written whole, so delaying small packets only adds latency. A
                // failure to set the option is harmless.
                let _ = stream.set_nodelay(true);
            }
            return Admission { stream, peer, place, tls: self.tls.clone() };
        }
    }
}

impl Admission {
    /// A connection whose handshake is done.
    pub(crate) fn forwarded(stream: Stream, peer: Peer, place: ConnectionPlace) -> Self {
        Admission { stream, peer, place, tls: None }
    }

    /// The place of the connection.
    pub fn place(&self) -> &ConnectionPlace {
        &self.place
    }

    /// Completes the TLS handshake of a connection with TLS. `None` when the handshake fails or is
    /// not complete at `end`; the counters have the reason.
    pub async fn establish(self, end: Instant) -> Option<EstablishedConnection> {
        let Admission { stream, peer, place, tls } = self;
        let (socket, (tls, protocol)) = match (stream, tls) {
            (Stream::Tcp(stream), Some(tls)) => (Socket(Arc::new(stream)), tls),
            (stream, _) => return Some(EstablishedConnection { stream, peer, place }),
        };
        let Ok(accepted) = timeout_at(end, tls.accept(protocol, socket.clone())).await else {
            place.counters().expired(Deadline::FirstRequest);
            return None;
        };
        let Ok((bytes, found)) = accepted else {
            place.counters().handshake_failed();
            return None;
        };
        let peer = match peer {
            Peer::Tcp { local, remote, .. } => Peer::Tcp { local, remote, tls: Some(found) },
            other => other,
        };
        Some(EstablishedConnection { stream: Stream::Tls(Box::new(TlsStream { bytes, socket })), peer, place })
    }
}

/// Checks that a server can listen on an address.
///
/// # Errors
/// Like [`Listener::bind`].
pub fn check_address(address: &ListenAddress) -> io::Result<()> {
    let checked = match address {
        ListenAddress::Tcp(address) => std::net::TcpListener::bind(address).map(drop),
        ListenAddress::Unix(path) => check_free(path),
    };
    checked.map_err(|error| named(address, &error))
}

fn named(address: &ListenAddress, error: &io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("can't listen on {address}: {why}"))
}

async fn listen(address: &ListenAddress) -> io::Result<(ListeningSocket, ListenAddress)> {
    match address {
        ListenAddress::Tcp(address) => {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((ListeningSocket::Tcp(listener), address.into()))
        }
        ListenAddress::Unix(path) => {
            let (listener, file) = listen_on_file(path)?;
            Ok((ListeningSocket::Unix { listener, _file: file }, address.clone()))
        }
    }
}

/// Binds a Unix socket. It gets its permissions before its name, so other users can never connect.
fn listen_on_file(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    check_free(path)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let listener = UnixListener::bind(&temporary)?;
    let named = fs::set_permissions(&temporary, Permissions::from_mode(SOCKET_MODE))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| fs::symlink_metadata(path));
    match named {
        Ok(metadata) => Ok((listener, SocketFile { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) })),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}

/// Checks that a path is free, or has the socket of a server that has ended.
fn check_free(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.id) {
            // If the file can't be removed, the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpStream, UnixStream};

    use super::*;

    fn any() -> ListenAddress {
        "127.0.0.1:0".parse().expect("an address")
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_is_closed_and_a_place_is_free_again() {
        let settings = ConnectionSettings { connections_max: 1, ..ConnectionSettings::default() };
        let listener = Listener::bind(&any(), &settings).await.expect("a port");
        let address = listener.address().tcp().expect("TCP");
        let first = TcpStream::connect(address).await.expect("connected");
        let admission = listener.accept().await;
        assert_eq!(admission.peer, Peer::tcp(address, first.local_addr().expect("connected")));
        let running = admission.place.activity().begin();
        let second = TcpStream::connect(address).await.expect("connected");
        tokio::select! {
            biased;
            _ = listener.accept() => panic!("there is no place"),
            read = second.readable() => read.expect("readable"),
        }
        assert_eq!(second.try_read(&mut [0; 1]).expect("closed"), 0);
        drop((running, admission));
        let third = TcpStream::connect(address).await.expect("connected");
        let admission = listener.accept().await;
        assert_eq!(admission.peer, Peer::tcp(address, third.local_addr().expect("connected")));
        assert_eq!(listener.counters().statistics().refused_limit, 1);
    }

    #[tokio::test]
    async fn an_address_in_use_and_invalid_settings_are_errors() {
        let listener = Listener::bind(&any(), &ConnectionSettings::default()).await.expect("a port");
        let error = Listener::bind(listener.address(), &ConnectionSettings::default()).await.expect_err("taken");
        assert_eq!(error.to_string(), format!("can't listen on {}: address already in use", listener.address()));
        let settings = ConnectionSettings { first_request_ms: 0, ..ConnectionSettings::default() };
        let error = Listener::bind(&any(), &settings).await.expect_err("invalid");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[tokio::test]
    async fn a_unix_socket_is_its_users_own_names_its_clients_and_is_removed_with_its_listener() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("quire.sock");
        let address = ListenAddress::Unix(path.clone());
        let listener = Listener::bind(&address, &ConnectionSettings::default()).await.expect("bound");
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, SOCKET_MODE);
        let _client = UnixStream::connect(&path).await.expect("connected");
        let Peer::Unix { uid, pid, .. } = listener.accept().await.peer else { panic!("a Unix socket") };
        assert_eq!(uid, fs::metadata(&path).expect("a file").uid());
        assert_eq!(pid, i32::try_from(std::process::id()).ok());
        let error = Listener::bind(&address, &ConnectionSettings::default()).await.expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_left_socket_is_replaced_and_another_file_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("quire.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "nobody removed it");
        let address = ListenAddress::Unix(path.clone());
        drop(Listener::bind(&address, &ConnectionSettings::default()).await.expect("replaced"));
        fs::write(&path, "a file").expect("written");
        let error = Listener::bind(&address, &ConnectionSettings::default()).await.expect_err("a file");
        assert!(error.to_string().ends_with("the file exists and is not a socket"), "{error}");
        assert_eq!(fs::read(&path).expect("kept"), b"a file");
    }
}
