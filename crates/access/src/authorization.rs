//! The credentials of a request of HTTP or gRPC: an API key in `Authorization: Bearer`, or else the
//! name that the connection has verified.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use quire::system::Principal;

use crate::session::{AuthenticationError, Credential, ServedDatabase, Session};

const SCHEME: &[u8] = b"bearer ";

/// The last session of a connection. A client that sends the same credential again is not verified
/// again, as long as the session is live.
#[derive(Debug, Default)]
pub struct SessionCache(Mutex<Option<CachedSession>>);

struct CachedSession {
    key: Option<Box<str>>,
    session: Session,
}

/// It does not show the key.
impl fmt::Debug for CachedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedSession").field("session", &self.session).finish_non_exhaustive()
    }
}

impl ServedDatabase {
    /// Returns the session of a request. `authorization` has the values of the request's
    /// `Authorization` fields; `verified` is the principal that the connection has verified, by a
    /// certificate or by the credentials of a Unix socket; `address` is that of the client.
    ///
    /// # Errors
    /// As [`ServedDatabase::session`]. Several fields, and other schemes, are wrong credentials.
    pub fn request_session<'r>(
        &self,
        cache: &SessionCache,
        authorization: impl IntoIterator<Item = &'r [u8]>,
        verified: Option<&Principal>,
        address: &str,
    ) -> Result<Session, AuthenticationError> {
        let mut fields = authorization.into_iter();
        let key = match (fields.next(), fields.next()) {
            (None, _) => None,
            (Some(field), None) => Some(bearer(field)),
            (Some(_), Some(_)) => Some(None),
        };
        // While access control is disabled, credentials have no effect, whatever their form.
        let key = match key {
            Some(None) if self.is_access_enabled() => {
                if self.forwarding().is_none() {
                    self.login_refused("authorization", address);
                }
                return Err(AuthenticationError::Wrong);
            }
            key => key.flatten(),
        };
        let mut cached = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(CachedSession { key: known, session }) = &*cached
            && known.as_deref() == key
            && session.is_live()
        {
            return Ok(session.clone());
        }
        let credential = match (key, verified) {
            (Some(key), _) => Credential::Key(key),
            (None, Some(principal)) => Credential::Verified(principal),
            (None, None) => Credential::Absent,
        };
        // The leader gets the request too, and records who logs in. This node can't write.
        let session = match self.forwarding() {
            Some(_) => self.begin(&credential, Some(address.into()))?,
            None => self.session_from(&credential, Some(address))?,
        };
        *cached = Some(CachedSession { key: key.map(Into::into), session: session.clone() });
        Ok(session)
    }
}

/// The token of a field with the scheme `Bearer`.
fn bearer(field: &[u8]) -> Option<&str> {
    let (scheme, token) = field.split_at_checked(SCHEME.len())?;
    let token = std::str::from_utf8(token).ok()?.trim_matches(' ');
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
}

#[cfg(test)]
mod tests {
    use quire::{Database, NewApiKey};

    use super::*;

    #[test]
    fn a_request_has_one_bearer_key_or_the_name_of_its_connection() {
        let directory = tempfile::tempdir().expect("a directory");
        let served = ServedDatabase::new(Database::open(directory.path()).expect("a database"));
        let cache = SessionCache::default();
        let names = |fields: &[&str], verified: Option<&str>| {
            let (fields, verified) = (fields.iter().map(|field| field.as_bytes()), verified.map(Principal::named));
            let session = served.request_session(&cache, fields, verified.as_ref(), "")?;
            Ok(session.principal().map(|principal| principal.name.to_string()))
        };
        assert_eq!(names(&["Basic YTpi"], None), Ok(None), "credentials have no effect yet");
        let key = served.owner().access().init("root").expect("initialised");
        let (right, lower) = (format!("Bearer {}", key.reveal()), format!("bearer  {} ", key.reveal()));
        let (missing, wrong) = (Err(AuthenticationError::Missing), Err(AuthenticationError::Wrong));
        assert_eq!(names(&[], None), missing);
        assert_eq!(names(&[], Some("uid:1000")), Ok(Some("uid:1000".to_owned())));
        assert_eq!(names(&[&right], Some("uid:1000")), Ok(Some("root".to_owned())));
        assert_eq!(names(&[&lower], None), Ok(Some("root".to_owned())));
        assert_eq!(names(&[&right, &right], None), wrong);
        for field in ["", "Bearer", "Bearer ", "Basic YTpi", &right[..right.len() - 1], &format!("{right}0")] {
            assert_eq!(names(&[field], Some("uid:1000")), wrong, "{field:?}");
        }
    }

    #[test]
    fn nothing_shows_the_key_of_a_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let served = ServedDatabase::new(Database::open(directory.path()).expect("a database"));
        let key = served.owner().access().init("root").expect("initialised");
        let (cache, field) = (SessionCache::default(), format!("Bearer {}", key.reveal()));
        let session = served.request_session(&cache, [field.as_bytes()], None, "").expect("a session");
        let shown = format!("{cache:?} {session:?} {:?}", Credential::Key(key.reveal()));
        assert!(!shown.contains(&key.reveal()[14..]), "{shown}");
    }

    #[test]
    fn a_kept_session_ends_with_its_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let served = ServedDatabase::new(Database::open(directory.path()).expect("a database"));
        let access = served.owner().access();
        access.init("root").expect("initialised");
        let key = access.create_key("root", NewApiKey::default()).expect("created");
        let (cache, field) = (SessionCache::default(), format!("Bearer {}", key.reveal()));
        let session = || served.request_session(&cache, [field.as_bytes()], None, "").map(drop);
        assert_eq!((session(), session()), (Ok(()), Ok(())));
        access.drop_key(key.id()).expect("dropped");
        assert_eq!(session(), Err(AuthenticationError::Wrong));
    }
}
