//! How a response is presented: the form of its values (the parameter `as`), and its encoding.
//!
//! Without `as`, a value has the first of three keys that can represent its bytes, so the key
//! depends on the content. With it, a value is always under its own name. The presentation belongs
//! to the task that answers the request, and goes with its work to other threads.

use std::future::Future;

use axum::extract::Query;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use axum::http::{HeaderMap, HeaderValue, Uri};

use quire_api::reply::ValueForm;

use crate::error::Problem;

/// The name of the parameter for the form of values.
pub(crate) const PARAMETER: &str = "as";

/// How a response is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presentation {
    pub(crate) values: ValueForm,
    pub(crate) encoding: Option<ContentEncoding>,
    /// Whether the work is on a thread that serves no connection, so it may take long.
    pub(crate) is_aside: bool,
}

/// An encoding that the client accepts, or of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    Gzip,
    Zstd,
}

tokio::task_local! {
    static CURRENT: Presentation;
}

impl Presentation {
    /// The presentation that a request asks for.
    ///
    /// # Errors
    /// When it asks for an unknown form of values, or for several.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap) -> Result<Self, Problem> {
        Ok(Presentation { values: form_of(uri)?, encoding: ContentEncoding::of(headers), is_aside: false })
    }

    /// The presentation of the request that this task or thread answers.
    pub(crate) fn current() -> Self {
        let default = Presentation { values: ValueForm::Tagged, encoding: None, is_aside: false };
        CURRENT.try_with(|presentation| *presentation).unwrap_or(default)
    }

    /// Answers a request in this presentation.
    pub(crate) async fn within<T>(self, answer: impl Future<Output = T>) -> T {
        CURRENT.scope(self, answer).await
    }

    /// Does the work of a request in this presentation, on this thread, which serves no connection.
    pub(crate) fn aside<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Presentation { is_aside: true, ..self }, work)
    }
}

/// Whether the response to this request has values that a client may choose the form of. An
/// export has the form that an import reads.
pub(crate) fn is_form_chosen(uri: &Uri) -> bool {
    let graph = uri.path().strip_prefix("/v1/graphs/").and_then(|path| path.strip_suffix("/export"));
    graph.is_none_or(|graph| graph.contains('/'))
}

/// The form of values that a request asks for.
fn form_of(uri: &Uri) -> Result<ValueForm, Problem> {
    // Most requests have no parameter.
    let may_choose = |query: &str| query.contains(PARAMETER) || query.contains('%');
    if !uri.query().is_some_and(may_choose) || !is_form_chosen(uri) {
        return Ok(ValueForm::Tagged);
    }
    let parameters = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(parameters) = parameters.map_err(|error| Problem::invalid(error.body_text()))?;
    let mut given = parameters.iter().filter(|(name, _)| name == PARAMETER).map(|(_, form)| &**form);
    match (given.next(), given.next()) {
        (None, _) => Ok(ValueForm::Tagged),
        (Some("json"), None) => Ok(ValueForm::Json),
        (Some("text"), None) => Ok(ValueForm::Text),
        (Some("base64"), None) => Ok(ValueForm::Base64),
        (Some(form), None) => Err(Problem::invalid(format!("as must be one of json, text, base64, got {form:?}"))),
        (Some(_), Some(_)) => Err(Problem::invalid("as occurs several times: give it once")),
    }
}

impl ContentEncoding {
    /// The encoding that a client accepts and the server prefers.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let names = accepted.flat_map(|value| value.split(',')).filter_map(|item| {
            let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let weight: f32 = weight.trim().strip_prefix("q=")?.trim().parse().ok()?;
            (weight > 0.0).then(|| name.trim())
        });
        let encodings = names.filter_map(|name| match name {
            name if name.eq_ignore_ascii_case("zstd") => Some(ContentEncoding::Zstd),
            name if name.eq_ignore_ascii_case("gzip") => Some(ContentEncoding::Gzip),
            _ => None,
        });
        encodings.reduce(|best, next| if next == ContentEncoding::Zstd { next } else { best })
    }

    /// The encoding of the body of a request; `None` when the body is not encoded.
    ///
    /// # Errors
    /// When the encoding is unknown, or there are several.
    pub(crate) fn of_body(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let values = headers.get_all(CONTENT_ENCODING).iter();
        let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let names: Vec<&[u8]> =
            names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")).collect();
        match *names {
            [] => Ok(None),
            [name] if name.eq_ignore_ascii_case(b"gzip") => Ok(Some(ContentEncoding::Gzip)),
            [name] if name.eq_ignore_ascii_case(b"zstd") => Ok(Some(ContentEncoding::Zstd)),
            _ => Err(Problem::encoded(&String::from_utf8_lossy(&names.join(&b", "[..])))),
        }
    }

    /// The value of the header `Content-Encoding`.
    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            ContentEncoding::Gzip => "gzip",
            ContentEncoding::Zstd => "zstd",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_parameter_counts_on_every_route_except_the_export_of_a_graph() {
        let form = |target: &str| form_of(&target.parse().expect("a target")).ok();
        for (target, expect) in [
            ("/v1/events/s?as=text", Some(ValueForm::Text)),
            ("/v1/events/s?%61s=text", Some(ValueForm::Text)),
            ("/v1/events/s?a%73=xml", None),
            ("/v1/events/s?as", None),
            ("/v1/events/s?type=%25as", Some(ValueForm::Tagged)),
            ("/v1/events/export?as=xml", None),
            ("/v1/topics/export?as=text", Some(ValueForm::Text)),
            ("/v1/graphs/g/blocks/export?as=text", Some(ValueForm::Text)),
            ("/v1/graphs/export?as=text", Some(ValueForm::Text)),
            ("/v1/graphs/a%2Fb/export?as=text", Some(ValueForm::Tagged)),
        ] {
            assert_eq!(form(target), expect, "{target}");
        }
    }

    #[test]
    fn the_encoding_is_one_that_the_client_accepts() {
        for (header, expect) in [
            ("", None),
            ("identity, br", None),
            ("gzip", Some(ContentEncoding::Gzip)),
            ("GZIP;q=0.5, deflate", Some(ContentEncoding::Gzip)),
            ("gzip, zstd;q=0.1", Some(ContentEncoding::Zstd)),
            ("zstd, gzip", Some(ContentEncoding::Zstd)),
            ("gzip;q=0, zstd;q=0.0", None),
            ("gzip;q=x", None),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(header))]);
            assert_eq!(ContentEncoding::of(&headers), expect, "{header}");
        }
    }
}
