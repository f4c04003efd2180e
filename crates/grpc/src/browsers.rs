//! Refuses calls of pages of other sites, as HTTP does: a browser names the page in `Origin`, and
//! no other client sends that header. Pages of this server and of allowed origins call with
//! gRPC-Web.
//!
//! Over HTTP/1.1, `Host` must name this server: otherwise an attacker could point a name of theirs
//! at this address, and their page would have the origin of this server. Browsers have HTTP/2 over
//! TLS only. The authority of their calls is checked alike.

use quire_access::Peer;
use quire_access::browser::{HostProblem, check_host, is_allowed_origin, is_own_origin};
use tonic::Status;
use tonic::codegen::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};

use crate::Settings;
use crate::connections::CallOrigin;
use crate::error::{foreign_origin, invalid_host, unknown_host};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The headers of a response that a page may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("grpc-status, grpc-message, grpc-status-details-bin, idempotent-replay, quire-position");

/// The names of this server and the origins that it allows; see the module.
#[derive(Debug)]
pub(crate) struct BrowserGate {
    hosts: Vec<String>,
    allowed_origins: Vec<String>,
}

/// What happens to a request.
#[derive(Debug)]
pub(crate) enum GateResult {
    /// It is called. A page of another, allowed origin may read the response.
    Call(Option<HeaderValue>),
    /// The browser asks whether a page of an allowed origin may call.
    Preflight(HeaderValue),
    Refused(Status),
}

impl BrowserGate {
    pub(crate) fn new(settings: &Settings) -> Self {
        BrowserGate { hosts: settings.hosts.clone(), allowed_origins: settings.allowed_origins.clone() }
    }

    /// Checks where a request comes from. Counts a refused one.
    pub(crate) fn check<B>(&self, call: &Request<B>) -> GateResult {
        let from = call.extensions().get::<CallOrigin>();
        let entry = self.host(call, from).and_then(|host| self.origin(call, host));
        entry.unwrap_or_else(|status| {
            if let Some(from) = from {
                from.counters.request_refused();
            }
            GateResult::Refused(status)
        })
    }

    /// The name by which the client reaches this server.
    fn host<'r, B>(&self, call: &'r Request<B>, from: Option<&CallOrigin>) -> Result<&'r str, Status> {
        if call.version() >= Version::HTTP_2 {
            let host = call.uri().authority().map_or("", |authority| authority.as_str());
            return match from {
                Some(from) if from.peer.has_tls() && is_of_browser(call.headers()) => {
                    self.check_authority(&from.peer, host)
                }
                _ => Ok(host),
            };
        }
        let mut hosts = call.headers().get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(invalid_host()) };
        let host = host.to_str().map_err(|_| invalid_host())?;
        let from = from.expect("every connection has its origin");
        self.check_authority(&from.peer, host)
    }

    /// Checks that a name stands for this server.
    fn check_authority<'r>(&self, peer: &Peer, host: &'r str) -> Result<&'r str, Status> {
        match check_host(&self.hosts, peer, host) {
            Ok(()) => Ok(host),
            Err(HostProblem::Invalid) => Err(invalid_host()),
            Err(HostProblem::Unknown) => Err(unknown_host(host)),
        }
    }

    fn origin<B>(&self, call: &Request<B>, host: &str) -> Result<GateResult, Status> {
        let headers = call.headers();
        let mut origins = headers.get_all(ORIGIN).iter();
        let (first, further) = (origins.next(), origins.next());
        let text = first.map(|origin| origin.to_str().unwrap_or_default());
        match (first, text) {
            _ if further.is_some() => Err(foreign_origin()),
            (Some(origin), Some(text)) if is_allowed_origin(&self.allowed_origins, text) => {
                let is_preflight =
                    call.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
                let origin = origin.clone();
                Ok(if is_preflight { GateResult::Preflight(origin) } else { GateResult::Call(Some(origin)) })
            }
            _ if is_of_another_site(headers) => Err(foreign_origin()),
            (Some(_), Some(text)) if !is_own_origin(text, host) => Err(foreign_origin()),
            _ => Ok(GateResult::Call(None)),
        }
    }
}

/// Whether a browser sends the call. Other clients name the server as they like over HTTP/2, and so
/// do proxies.
fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE)
}

/// Whether a browser says that the call is part of a page of another site.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Lets a page of an allowed origin read the response.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// The response to a request that is not called.
pub(crate) fn answer<R: Default>(entry: GateResult) -> Response<R> {
    match entry {
        GateResult::Refused(status) => status.into_http(),
        GateResult::Call(_) => Response::default(),
        GateResult::Preflight(origin) => {
            let mut response = Response::new(R::default());
            *response.status_mut() = StatusCode::NO_CONTENT;
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
            let asked = "authorization, content-type, x-grpc-web, x-user-agent, grpc-timeout, idempotency-key";
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(asked));
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            allow(headers, origin);
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use quire_access::TlsPeer;

    use super::*;

    fn is_called(headers: &[(&str, &str)]) -> bool {
        let settings = Settings { allowed_origins: vec!["https://app.example".to_owned()], ..Settings::default() };
        let call = Request::builder().version(Version::HTTP_2).uri("http://localhost:7071/quire.v1.Events/Append");
        let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
        let entry = BrowserGate::new(&settings).check(&call.body(()).expect("a request"));
        matches!(entry, GateResult::Call(_))
    }

    #[test]
    fn the_authority_of_a_call_of_a_browser_names_this_server() {
        let settings = Settings { hosts: vec!["quire.example".to_owned()], ..Settings::default() };
        let gate = BrowserGate::new(&settings);
        let local = "192.0.2.7:7071".parse().expect("an address");
        let secure = Peer::Tcp { local, remote: local, tls: Some(TlsPeer::default()) };
        for known in ["localhost:7071", "192.0.2.7:7071", "quire.example:7071", "QUIRE.example"] {
            assert!(gate.check_authority(&secure, known).is_ok(), "{known}");
        }
        for foreign in ["evil.example:7071", "evil.example", "192.0.2.8:7071", "", "user@quire.example"] {
            assert!(gate.check_authority(&secure, foreign).is_err(), "{foreign}");
        }
        let headers = |name: &'static str| HeaderMap::from_iter([(HeaderName::from_static(name), EXPOSED)]);
        assert!(is_of_browser(&headers("origin")) && is_of_browser(&headers("sec-fetch-site")));
        assert!(!is_of_browser(&headers("user-agent")));
    }

    #[test]
    fn a_call_of_another_page_is_foreign_unless_its_origin_is_allowed() {
        assert!(is_called(&[]));
        assert!(is_called(&[("origin", "http://localhost:7071")]));
        assert!(is_called(&[("origin", "https://LOCALHOST:7071"), ("sec-fetch-site", "same-origin")]));
        assert!(is_called(&[("origin", "https://app.example"), ("sec-fetch-site", "cross-site")]));
        for origin in
            ["null", "http://localhost", "https://localhost:7071.example", "http://a.example", "http://app.example", ""]
        {
            assert!(!is_called(&[("origin", origin)]), "{origin}");
        }
        assert!(!is_called(&[("origin", "http://localhost:7071"), ("origin", "http://a.example")]));
        assert!(!is_called(&[("origin", "https://app.example"), ("origin", "https://app.example")]));
        assert!(!is_called(&[("sec-fetch-site", "cross-site")]));
    }
}
