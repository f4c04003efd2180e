//! The settings of a client, and the address of its server.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ureq::Agent;
use ureq::http::uri::Authority;

use crate::client::{Client, ClientParts};
use crate::leader::KnownLeader;
use crate::unix::{SocketConnector, SocketResolver};
use crate::{ClientError, FailureKind};

/// The default limit of a call with its retries.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after the first attempt, without jitter.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The longest silence in a streamed answer. A server sends a comment every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The longest answer that is kept in memory, and the longest message of a stream. Pages of a
/// server are smaller.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The environment variable with an API key.
const KEY_VARIABLE: &str = "QUIRE_KEY";

/// The environment variable with the path of a file of trusted roots.
#[cfg(feature = "tls")]
const ROOTS_VARIABLE: &str = "QUIRE_CA";

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientBuilder {
    /// The address, as the caller gave it.
    pub(crate) address: String,
    api_key: Option<SecretText>,
    pub(crate) timeout: Duration,
    pub(crate) pause: Duration,
    pub(crate) silence: Duration,
    pub(crate) answer_bytes_max: u64,
    pub(crate) is_repeating: bool,
    #[cfg(feature = "tls")]
    roots: crate::tls::TrustedRoots,
}

/// A text that is not shown.
#[derive(Clone)]
struct SecretText(String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

impl ClientBuilder {
    pub(crate) fn new(address: String) -> Self {
        let (timeout, pause, silence) = (TIMEOUT, PAUSE_FIRST, SILENCE_MAX);
        ClientBuilder {
            address,
            api_key: None,
            timeout,
            pause,
            silence,
            answer_bytes_max: ANSWER_BYTES_MAX,
            is_repeating: true,
            #[cfg(feature = "tls")]
            roots: crate::tls::TrustedRoots::System,
        }
    }

    /// Sends this API key with each request, as a bearer token.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(SecretText(key.into()));
        self
    }

    /// Takes the settings of the environment: the API key in `QUIRE_KEY`, and with the feature
    /// `tls` the file of trusted roots in `QUIRE_CA`. A variable that is unset or empty changes
    /// nothing.
    #[must_use]
    pub fn of_environment(mut self) -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(key) = variable(KEY_VARIABLE) {
            // A variable that is not text has no key: `build` refuses the empty one.
            self = self.api_key(key.into_string().unwrap_or_default());
        }
        #[cfg(feature = "tls")]
        if let Some(file) = variable(ROOTS_VARIABLE) {
            self = self.roots_file(Path::new(&file));
        }
        self
    }

    /// Sets the limit of a call with its retries, 30 seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the pause before the first retry, 50 ms by default. Later pauses double, up to 5
    /// seconds. A pause that the server asks for takes precedence.
    #[must_use]
    pub fn retry_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Sets the longest silence in a streamed answer, a minute by default. A server is silent for
    /// 15 seconds at most, except before a backup.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets the longest answer that is kept in memory, and the longest message of a subscription:
    /// 256 MiB by default. A longer one is an error. [`Client::stream`] and [`Client::download`]
    /// have no limit.
    #[must_use]
    pub fn answer_bytes_max(mut self, bytes: u64) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// Trusts the certificates of these authorities, in PEM, instead of those of the system.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn roots(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = crate::tls::TrustedRoots::Pem(pem.into());
        self
    }

    /// The same, in a file that is read when the client is made.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn roots_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.roots = crate::tls::TrustedRoots::File(file.into());
        self
    }

    /// Sends each request once: a lost answer is an error.
    #[must_use]
    pub fn without_retries(mut self) -> Self {
        self.is_repeating = false;
        self
    }

    /// Makes the client. It does not connect yet.
    ///
    /// # Errors
    /// When the address is invalid, the API key can't be sent, or there are no trusted roots.
    pub fn build(self) -> Result<Client, ClientError> {
        let address = Endpoint::parse(&self.address)?;
        let authorization = self.api_key.as_ref().map(authorization).transpose()?;
        // A server of Quire redirects no request, and a key must not reach another host.
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        #[cfg(feature = "tls")]
        let config = if address.has_tls() { config.tls_config(self.roots.config()?) } else { config };
        let config = config.build();
        let (agent, base) = match address {
            Endpoint::Url(url) => (config.into(), url),
            Endpoint::Socket(path) => {
                let agent = Agent::with_parts(config, SocketConnector::new(path), SocketResolver);
                (agent, "http://localhost".to_owned())
            }
        };
        let random = || RandomState::new().hash_one(std::process::id());
        let key_start = format!("{:016x}{:016x}", random(), random());
        let keys = AtomicU64::new(0);
        let leader = KnownLeader::default();
        let parts = ClientParts { agent, base, leader, authorization, settings: self, key_start, keys };
        Ok(Client { parts: Arc::new(parts), local: None })
    }
}

/// The header with a key. The message of an error does not contain the key.
fn authorization(SecretText(key): &SecretText) -> Result<ureq::http::HeaderValue, ClientError> {
    let is_plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    let header = is_plain.then(|| ureq::http::HeaderValue::from_str(&format!("Bearer {key}")).ok()).flatten();
    let mut header = header.ok_or_else(|| {
        ClientError::new(FailureKind::Invalid, "an API key must be of visible ASCII characters, without spaces")
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// How a client reaches its server.
#[derive(Debug, PartialEq, Eq)]
enum Endpoint {
    /// A URL, without a slash at its end.
    Url(String),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self, ClientError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Endpoint::Socket(Path::new(path).to_owned()));
        }
        let url = Endpoint::url(text);
        url.map(Endpoint::Url).map_err(|message| ClientError::new(FailureKind::Invalid, message))
    }

    /// The URL of an address. A message does not contain what may be a secret.
    fn url(text: &str) -> Result<String, String> {
        if text.contains('@') {
            return Err("the address of a server has a user: give an API key by `api_key`, or in the variable \
                        QUIRE_KEY"
                .to_owned());
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("the address of a server must be http://HOST:PORT or unix:PATH, got {text:?}"));
        };
        let scheme = scheme.to_ascii_lowercase();
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if !["http", "https"].contains(&&*scheme) {
            return Err(format!("unknown scheme {scheme:?} in the address of a server: expected http://HOST:PORT"));
        }
        if !path.trim_matches('/').is_empty() {
            let message = "the address of a server has a path or a query: expected";
            return Err(format!("{message} {scheme}://{authority}"));
        }
        let host = authority.parse::<Authority>().ok().filter(|authority| !authority.host().is_empty());
        // A port that is no number is taken for none.
        let is_whole = host.is_some_and(|host| host.port_u16().is_some() || host.as_str() == host.host());
        if !is_whole {
            return Err(format!("invalid host or port {authority:?} in the address of a server"));
        }
        if scheme == "https" && !cfg!(feature = "tls") {
            return Err(format!("this build of the client has no TLS for {authority:?}: enable its feature `tls`"));
        }
        Ok(format!("{scheme}://{authority}"))
    }

    #[cfg(feature = "tls")]
    fn has_tls(&self) -> bool {
        matches!(self, Endpoint::Url(url) if url.starts_with("https://"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_or_a_socket() {
        let parse = |text: &str| Endpoint::parse(text).ok();
        assert_eq!(parse("http://db:7070//"), Some(Endpoint::Url("http://db:7070".to_owned())));
        assert_eq!(parse("unix:/run/quire"), Some(Endpoint::Socket("/run/quire".into())));
        assert_eq!(parse("https://db:7070").is_some(), cfg!(feature = "tls"));
        assert_eq!(parse("HTTP://[::1]:7070"), Some(Endpoint::Url("http://[::1]:7070".to_owned())));
        assert_eq!(parse("http://db"), Some(Endpoint::Url("http://db".to_owned())));
        for odd in ["", "127.0.0.1:7070", "unix:", "http://", "https://", "ftp://db", "http://d b", "http://db:x"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_address_with_more_than_a_host_is_refused_with_the_reason_and_without_its_secrets() {
        for (text, reason) in [
            ("http://ada:secret@db:7070", "has a user"),
            ("http://secret@db", "has a user"),
            ("http://ada:se/cret@db:7070", "has a user"),
            ("http://127.0.0.1:7070@secret.example", "has a user"),
            ("http://db:7070/secret", "has a path or a query: expected http://db:7070"),
            ("http://db:7070?key=secret", "has a path or a query: expected http://db:7070"),
            ("http://db:7070/#secret", "has a path or a query"),
            ("ftp://db:7070", "unknown scheme \"ftp\""),
            ("http://db:70700", "invalid host or port \"db:70700\""),
            ("http://:7070", "invalid host or port"),
            ("http://db:", "invalid host or port"),
        ] {
            let error = Endpoint::parse(text).expect_err(text);
            assert_eq!(error.kind(), FailureKind::Invalid, "{text}");
            assert!(error.to_string().contains(reason), "{text}: {error}");
            assert!(!error.to_string().contains("secret"), "{text}: {error}");
        }
    }

    #[test]
    fn a_key_is_not_shown_in_settings_and_errors() {
        let settings = Client::builder("http://db:7070").api_key("quire_secret");
        assert!(!format!("{settings:?}").contains("secret"));
        let client = settings.build().expect("a client");
        assert!(!format!("{client:?}").contains("secret"));
        for odd in ["secret\nx", "secret x", "", "secret\u{e9}"] {
            let error = Client::builder("http://db:7070").api_key(odd).build().expect_err("an invalid key");
            assert_eq!(error.kind(), FailureKind::Invalid);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
