//! Refuses calls of pages of other sites, as HTTP does: a browser names the page in `Origin`, and
//! no other client sends that header.

use tonic::codegen::http::{HeaderName, Request};

use crate::connections::CallOrigin;

const ORIGIN: HeaderName = HeaderName::from_static("origin");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a call comes from a page of another site. Counts it as refused.
pub(crate) fn is_foreign<B>(call: &Request<B>) -> bool {
    let headers = call.headers();
    let site = headers.get(SEC_FETCH_SITE);
    let is_other = site.is_some_and(|site| site == "cross-site" || site == "same-site");
    let authority = call.uri().authority().map_or("", |authority| authority.as_str());
    let is_own = |origin: &str| {
        let named = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        named.is_some_and(|named| named.eq_ignore_ascii_case(authority))
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_foreign = is_other || origins.any(|origin| !origin.to_str().is_ok_and(is_own));
    if is_foreign && let Some(from) = call.extensions().get::<CallOrigin>() {
        from.counters.request_refused();
    }
    is_foreign
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_foreign_with(headers: &[(&str, &str)]) -> bool {
        let call = Request::builder().uri("http://localhost:7071/quire.v1.Events/Append");
        let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
        is_foreign(&call.body(()).expect("a request"))
    }

    #[test]
    fn a_call_of_another_page_is_foreign() {
        assert!(!is_foreign_with(&[]));
        assert!(!is_foreign_with(&[("origin", "http://localhost:7071")]));
        assert!(!is_foreign_with(&[("origin", "https://LOCALHOST:7071"), ("sec-fetch-site", "same-origin")]));
        for origin in ["null", "http://localhost", "https://localhost:7071.example", "http://a.example", ""] {
            assert!(is_foreign_with(&[("origin", origin)]), "{origin}");
        }
        assert!(is_foreign_with(&[("origin", "http://localhost:7071"), ("origin", "http://a.example")]));
        assert!(is_foreign_with(&[("sec-fetch-site", "cross-site")]));
    }
}
