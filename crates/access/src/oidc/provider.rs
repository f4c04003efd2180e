//! Requests to an OpenID provider: its discovery document, and the exchange of a code for a token.
//!
//! A request takes at most [`TIMEOUT`] and follows no redirect, and a response has at most
//! [`RESPONSE_BYTES_MAX`] bytes.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire::Timestamp;
use serde_json::{Map, Value};
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use super::login::LoginError;
use super::settings::LoginSettings;
use super::url::{encoded, is_protected, query_of};
use crate::tls;

/// The limit of a request to the provider.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest response of the provider, in bytes.
const RESPONSE_BYTES_MAX: u64 = 256 << 10;

/// The longest file of a client's secret, in bytes.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// How long a discovery document is used.
const DOCUMENT: Duration = Duration::from_secs(3_600);

/// How long the provider is not asked for its document again after a failure.
const FAILURE: Duration = Duration::from_secs(5);

/// Asks the provider. It blocks its thread.
#[derive(Debug)]
pub(super) struct ProviderClient {
    agent: Agent,
    issuer: String,
    /// The lock is held during a request for the document, so there is one at a time.
    document: Mutex<Option<KnownDocument>>,
}

/// The result of the last request for the document.
#[derive(Debug)]
struct KnownDocument {
    endpoints: Result<Arc<ProviderEndpoints>, LoginError>,
    ends: Timestamp,
}

/// What the discovery document says (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug)]
pub(super) struct ProviderEndpoints {
    /// Where the browser signs in.
    pub(super) authorization: String,
    /// Where the server exchanges a code.
    token: String,
    /// Whether the client's secret is a parameter, and not HTTP Basic authentication.
    has_secret_in_body: bool,
}

impl ProviderClient {
    /// A client of this provider. It does not connect yet.
    ///
    /// # Errors
    /// When the system has no certificate of an authority to trust.
    pub(super) fn new(issuer: &str) -> io::Result<Self> {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).timeout_global(Some(TIMEOUT));
        let config = match issuer.starts_with("https://") {
            true => config.tls_config(trusted_roots()?).https_only(true),
            // A provider on this machine.
            false => config.proxy(None),
        };
        Ok(ProviderClient { agent: config.build().into(), issuer: issuer.to_owned(), document: Mutex::default() })
    }

    /// The endpoints, by the discovery document at `now`.
    ///
    /// # Errors
    /// When the document can't be read, or is of another issuer.
    pub(super) fn endpoints(&self, now: Timestamp) -> Result<Arc<ProviderEndpoints>, LoginError> {
        let mut document = self.document.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(KnownDocument { endpoints, ends }) = &*document
            && now < *ends
        {
            return endpoints.clone();
        }
        let endpoints = self.discover().map(Arc::new);
        let lasts = if endpoints.is_ok() { DOCUMENT } else { FAILURE };
        let ends = now.plus_micros(lasts.as_secs() * 1_000_000);
        *document = Some(KnownDocument { endpoints: endpoints.clone(), ends });
        endpoints
    }

    fn discover(&self) -> Result<ProviderEndpoints, LoginError> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let failed = |problem: String| LoginError::Unavailable(format!("can't use {url}: {problem}"));
        let response = self.agent.get(&url).call().map_err(|error| failed(error.to_string()))?;
        let (status, document) = object_of(response).map_err(failed)?;
        if status != 200 {
            return Err(failed(format!("status {status}")));
        }
        let text = |name: &str| {
            let value = document.get(name).and_then(Value::as_str);
            value.ok_or_else(|| failed(format!("the document has no text {name:?}")))
        };
        let issuer = text("issuer")?;
        if issuer != self.issuer {
            return Err(failed(format!("the document is of the issuer {issuer:?}")));
        }
        let endpoint = |name: &str| match text(name)? {
            url if is_protected(url) && (url.starts_with("https://") || self.issuer.starts_with("http://")) => {
                Ok(url.to_owned())
            }
            url => Err(failed(format!("{name} must be an https URL, got {url:?}"))),
        };
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let has = |method: &str| methods.is_some_and(|methods| methods.iter().any(|known| known == method));
        Ok(ProviderEndpoints {
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?,
            has_secret_in_body: has("client_secret_post") && !has("client_secret_basic"),
        })
    }

    /// Exchanges a code for an ID token, with the code verifier of PKCE.
    ///
    /// # Errors
    /// When the provider refuses the code, or can't be used.
    pub(super) fn exchange(
        &self,
        settings: &LoginSettings,
        code: &str,
        verifier: &str,
        now: Timestamp,
    ) -> Result<String, LoginError> {
        let endpoints = self.endpoints(now)?;
        let unavailable = |problem: String| LoginError::Unavailable(format!("can't exchange the code: {problem}"));
        let redirect_url = settings.redirect_url();
        let mut parameters = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_url),
            ("code_verifier", verifier),
        ];
        let secret = settings.client_secret.as_deref().map(read_secret).transpose();
        let secret = secret.map_err(|error| unavailable(error.to_string()))?;
        let mut request = self.agent.post(&endpoints.token).header("accept", "application/json");
        match &secret {
            Some(secret) if !endpoints.has_secret_in_body => {
                let pair = format!("{}:{}", encoded(&settings.client_id), encoded(secret));
                request = request.header("authorization", format!("Basic {}", STANDARD.encode(pair)));
            }
            Some(secret) => parameters.extend([("client_id", &*settings.client_id), ("client_secret", secret)]),
            None => parameters.push(("client_id", &settings.client_id)),
        }
        let request = request.content_type("application/x-www-form-urlencoded");
        let response = request.send(query_of(&parameters)).map_err(|error| unavailable(error.to_string()))?;
        let (status, answer) = object_of(response).map_err(unavailable)?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        match (status, text("id_token")) {
            (200, Some(token)) => Ok(token.to_owned()),
            (200, None) => Err(unavailable("the response has no ID token".to_owned())),
            (400, _) => {
                let error = text("error").unwrap_or_default();
                Err(LoginError::Refused(format!("the provider refused the code with the error {error:?}")))
            }
            _ => Err(unavailable(format!("status {status}"))),
        }
    }
}

/// The status of a response, and its body, which is a JSON object.
fn object_of(mut response: Response<Body>) -> Result<(u16, Map<String, Value>), String> {
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec();
    let body = body.map_err(|error| error.to_string())?;
    match serde_json::from_slice(&body) {
        Ok(Value::Object(object)) => Ok((status, object)),
        _ => Err(format!("a response with status {status} that is no JSON object")),
    }
}

/// The certificates of the system's authorities.
fn trusted_roots() -> io::Result<TlsConfig> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        let message = "the system has no certificate of an authority to trust: the provider can't be verified";
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let roots = found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let config = TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(RootCerts::Specific(Arc::new(roots)));
    Ok(config.unversioned_rustls_crypto_provider(Arc::new(tls::provider())).build())
}

/// The secret in a file, without the end of its line.
///
/// # Errors
/// When the file can't be read, or has no secret.
pub(super) fn read_secret(path: &Path) -> io::Result<String> {
    let at = |problem: &dyn std::fmt::Display| {
        let message = format!("can't use {} as the secret of a client: {problem}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let metadata = fs::metadata(path).map_err(|error| at(&error))?;
    // A pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(at(&"not a regular file"));
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| at(&error))?;
    file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| at(&error))?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(at(&format_args!("the file has more than {SECRET_BYTES_MAX} bytes")));
    }
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err(at(&"the file is empty")),
        secret => Ok(secret.to_owned()),
    }
}
