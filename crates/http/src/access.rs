//! Administration of access: users, API keys, roles and rules.
//!
//! ```text
//! request ──▶ AccessCaller: is access control enabled? is the client permitted? ──▶ AccessControl::by(author)
//! ```
//!
//! Every route needs a permission on [`Resource::ACCESS`]: [`Operation::Describe`] to read, and
//! [`Operation::Alter`] to change, which each commit checks again. While access control is not
//! enabled, no client is an administrator. Only a client on this machine can then create the first
//! one. No route disables access control: only the owner of the directory does.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use quire::system::{KeyId, System};
use quire::{AccessControl, AuditAuthor, Database, Operation, Resource};
use quire_access::{BoundedRequest, Peer, ServedDatabase, Session};
use quire_api::reply::{AccessSelfReply, NewKeyReply, access as lists};
use quire_api::request::access::{
    AccessCheckRequest, InitAccess, KeyChange, NewKeyRequest, NewUserRequest, PasswordRequest, RoleRequest,
    RuleRequest, UserChange, drop_key, drop_password, drop_role, drop_user,
};
use quire_api::{Code, Failure, ListPage, TimeUnit};
use serde::Serialize;

use crate::app::App;
use crate::body::{Body, BodyText};
use crate::error::Problem;
use crate::idempotency::NoRequestKey;
use crate::params::{Params, PathNames, parse};
use crate::response::{JsonResponse, aside};

/// The client of a request about access. Such requests take no idempotency key: no answer with a
/// secret is stored.
#[derive(Debug, Clone)]
pub(crate) struct AccessCaller {
    database: Database,
    peer: Option<Peer>,
    session: Option<Session>,
    /// Whether clients are checked.
    is_enabled: bool,
    /// The header with which a proxy has forwarded the request.
    forwarded: Option<HeaderName>,
}

impl FromRequestParts<Arc<App>> for AccessCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        NoRequestKey::from_request_parts(parts, app).await?;
        let (peer, forwarded) = (parts.extensions.get::<Peer>().cloned(), forwarding_header(&parts.headers));
        Ok(AccessCaller { forwarded, ..AccessCaller::new(app.served(), peer) })
    }
}

impl AccessCaller {
    /// The client of the running request.
    fn new(served: &ServedDatabase, peer: Option<Peer>) -> Self {
        let (database, is_enabled) = (served.get(), served.is_access_enabled());
        AccessCaller { database, peer, session: Session::current(), is_enabled, forwarded: None }
    }

    /// The name of the principal, and the id of the key that it presented.
    fn principal(&self) -> (Option<String>, Option<String>) {
        let principal = self.session.as_ref().and_then(Session::principal);
        let key = principal.and_then(|principal| principal.key).map(|key| key.to_string());
        (principal.map(|principal| principal.name.to_string()), key)
    }

    /// Checks that the client is an administrator of access with this operation.
    fn check(&self, operation: Operation) -> Result<(), Problem> {
        if !self.is_enabled {
            let message = "access control is not enabled, and no client is an administrator: create the first one with `POST /v1/access/init`";
            return Err(Problem::new(Code::AccessDisabled, message));
        }
        Ok(self.database.check_permission(Resource::ACCESS, operation)?)
    }

    /// Checks that the client may create the first administrator.
    fn check_first(&self) -> Result<(), Problem> {
        if self.is_enabled {
            return Err(Problem::new(Code::AccessEnabled, "access control is already enabled"));
        }
        let refused = |message: &str| Err(Problem::new(Code::NotPermitted, message));
        if !self.peer.as_ref().is_some_and(Peer::is_of_operator) {
            return refused(
                "only a client on the server's machine creates the first administrator: over loopback, or as the \
                 user of the server over its Unix socket",
            );
        }
        match &self.forwarded {
            // A proxy on this machine makes every client of it local.
            Some(header) => refused(&format!(
                "the request has the header {header} of a proxy: create the first administrator without a proxy"
            )),
            None => Ok(()),
        }
    }

    /// Checks that a secret of the request has not crossed a network in the clear.
    fn check_private(&self) -> Result<(), Problem> {
        if self.peer.as_ref().is_some_and(|peer| peer.has_tls() || peer.is_local()) {
            return Ok(());
        }
        let message = "a password would cross the network in the clear: use TLS, or a client on the server's machine";
        Err(Problem::new(Code::NotPermitted, message))
    }

    /// Does the work on the users and rules in the name of the client.
    fn run<T>(&self, work: impl FnOnce(&AccessControl<'_>) -> T) -> T {
        let is_owner = self.session.as_ref().is_some_and(Session::is_of_owner);
        let (address, (principal, key)) = (self.peer.as_ref().map(ToString::to_string), self.principal());
        let author = AuditAuthor {
            principal: principal.as_deref().unwrap_or(if is_owner {
                AuditAuthor::OWNER.principal
            } else {
                "anonymous"
            }),
            key: key.as_deref(),
            address: address.as_deref(),
            protocol: "http",
        };
        work(&self.database.access().by(author))
    }

    /// Does the work on another thread: a change waits until it is durable.
    async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&AccessControl<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        aside(move || self.run(work)).await
    }

    /// Does the work with a body on another thread.
    async fn work_with<T: Send + 'static>(
        self,
        body: Body,
        work: impl FnOnce(&AccessControl<'_>, &BodyText) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let request = BoundedRequest::begin(&self.database);
        body.bounded(request, move |_, text| self.run(|access| work(access, &text))).await
    }

    /// Lists a part of the state.
    async fn list<T: Serialize + Send + 'static>(
        self,
        app: &App,
        params: Params,
        items: fn(&System) -> Vec<T>,
    ) -> Result<JsonResponse, Problem> {
        params.end()?;
        self.check(Operation::Describe)?;
        let page = self.work(move |access| Ok(ListPage::whole(items(&access.list()?)))).await?;
        JsonResponse::of(&app.memory, &page)
    }

    /// Changes users, keys, roles or rules, as the body says.
    async fn change_by<T: Serialize + Send + 'static>(
        self,
        app: &App,
        params: Params,
        body: Body,
        change: impl FnOnce(&AccessControl<'_>, &BodyText) -> Result<T, Problem> + Send + 'static,
    ) -> Result<JsonResponse, Problem> {
        params.end()?;
        self.check(Operation::Alter)?;
        Ok(JsonResponse::of_done(&app.memory, &self.work_with(body, change).await?))
    }

    /// Changes users, keys, roles or rules.
    async fn change<T: Serialize + Send + 'static>(
        self,
        app: &App,
        params: Params,
        change: impl FnOnce(&AccessControl<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<JsonResponse, Problem> {
        params.end()?;
        self.check(Operation::Alter)?;
        Ok(JsonResponse::of_done(&app.memory, &self.work(change).await?))
    }
}

/// Headers that proxies add to a request that they forward, besides those that begin with
/// [`FORWARDED_PREFIX`].
const FORWARDING: [&str; 8] = [
    "cf-connecting-ip",
    "client-ip",
    "forwarded",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-original-forwarded-for",
    "x-real-ip",
];

/// The begin of the names of further headers of proxies.
const FORWARDED_PREFIX: &str = "x-forwarded";

/// The header with which a proxy has forwarded a request.
fn forwarding_header(headers: &HeaderMap) -> Option<HeaderName> {
    let is_of_proxy = |name: &str| FORWARDING.contains(&name) || name.starts_with(FORWARDED_PREFIX);
    headers.keys().find(|name| is_of_proxy(name.as_str())).cloned()
}

/// A failed change. A refusal has its code and its facts.
fn refused(error: &quire::Error) -> Problem {
    match error.refusal() {
        Some(refused) => Failure::of_reason(&refused.reason, TimeUnit::Millis).into(),
        None => Failure::of_error(error).into(),
    }
}

/// A new key, which no cache may store.
fn secret(app: &App, key: &NewKeyReply) -> Response {
    let mut response = JsonResponse::of_done(&app.memory, key).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn key_id(text: &str) -> Result<KeyId, Problem> {
    KeyId::parse(text)
        .ok_or_else(|| Problem::invalid(format!("invalid id of an API key {text:?}: it has 10 characters")))
}

/// `GET /v1/access/self`: who the client is.
pub(crate) async fn caller(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let enabled = caller.is_enabled;
    let (principal, key) = caller.principal();
    JsonResponse::of(&app.memory, &AccessSelfReply { enabled, principal, key })
}

/// `POST /v1/access/init`: creates the first administrator, and enables access control.
pub(crate) async fn init(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<Response, Problem> {
    params.end()?;
    caller.check_first()?;
    let init = |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<InitAccess<'_>>()?.apply(access).map_err(|error| refused(&error))
    };
    let key = caller.work_with(body, init);
    Ok(secret(&app, &key.await?))
}

/// `GET /v1/access/users`: lists the users.
pub(crate) async fn users(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.list(&app, params, lists::users).await
}

/// `POST /v1/access/users`: creates a user.
pub(crate) async fn create_user(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let change = move |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<NewUserRequest<'_>>()?.apply(access).map_err(|error| refused(&error))
    };
    caller.change_by(&app, params, body, change).await
}

/// `POST /v1/access/users/{user}`: replaces the roles of a user, and enables or disables it.
pub(crate) async fn change_user(
    State(app): State<Arc<App>>,
    PathNames(user): PathNames<String>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let change = move |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<UserChange<'_>>()?.apply(&user, access)?.map_err(|error| refused(&error))
    };
    caller.change_by(&app, params, body, change).await
}

/// `DELETE /v1/access/users/{user}`: drops a user with its keys, credentials and rules.
pub(crate) async fn remove_user(
    State(app): State<Arc<App>>,
    PathNames(user): PathNames<String>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.change(&app, params, move |access| drop_user(&user, access).map_err(|error| refused(&error))).await
}

/// `POST /v1/access/users/{user}/password`: gives a user a password.
pub(crate) async fn set_password(
    State(app): State<Arc<App>>,
    PathNames(user): PathNames<String>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    caller.check(Operation::Alter)?;
    caller.check_private()?;
    let change = move |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<PasswordRequest<'_>>()?.apply(&user, access).map_err(|error| refused(&error))
    };
    Ok(JsonResponse::of_done(&app.memory, &caller.work_with(body, change).await?))
}

/// `DELETE /v1/access/users/{user}/password`: drops the password of a user.
pub(crate) async fn remove_password(
    State(app): State<Arc<App>>,
    PathNames(user): PathNames<String>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.change(&app, params, move |access| drop_password(&user, access).map_err(|error| refused(&error))).await
}

/// `POST /v1/access/check`: whether the rules allow a principal an operation.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    caller.check(Operation::Describe)?;
    let answer = |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<AccessCheckRequest<'_>>()?.apply(access).map_err(|error| refused(&error))
    };
    JsonResponse::of(&app.memory, &caller.work_with(body, answer).await?)
}

/// `GET /v1/access/keys`: lists the API keys, without their secrets.
pub(crate) async fn keys(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.list(&app, params, lists::keys).await
}

/// `POST /v1/access/keys`: creates an API key. Its secret is in this response only.
pub(crate) async fn create_key(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<Response, Problem> {
    params.end()?;
    caller.check(Operation::Alter)?;
    let create = |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<NewKeyRequest<'_>>()?.apply(access).map_err(|error| refused(&error))
    };
    let key = caller.work_with(body, create);
    Ok(secret(&app, &key.await?))
}

/// `POST /v1/access/keys/{key}`: enables or disables an API key.
pub(crate) async fn change_key(
    State(app): State<Arc<App>>,
    PathNames(key): PathNames<String>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let change = move |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<KeyChange>()?.apply(key_id(&key)?, access).map_err(|error| refused(&error))
    };
    caller.change_by(&app, params, body, change).await
}

/// `DELETE /v1/access/keys/{key}`: drops an API key.
pub(crate) async fn remove_key(
    State(app): State<Arc<App>>,
    PathNames(key): PathNames<String>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    let drop = move |access: &AccessControl<'_>| drop_key(key_id(&key)?, access).map_err(|error| refused(&error));
    caller.change(&app, params, drop).await
}

/// `GET /v1/access/roles`: lists the roles.
pub(crate) async fn roles(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.list(&app, params, lists::roles).await
}

/// `POST /v1/access/roles/{role}`: creates a role, or replaces its rules.
pub(crate) async fn put_role(
    State(app): State<Arc<App>>,
    PathNames(role): PathNames<String>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let change = move |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<RoleRequest>()?.apply(&role, access).map_err(|error| refused(&error))
    };
    caller.change_by(&app, params, body, change).await
}

/// `DELETE /v1/access/roles/{role}`: drops a role that no user has.
pub(crate) async fn remove_role(
    State(app): State<Arc<App>>,
    PathNames(role): PathNames<String>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.change(&app, params, move |access| drop_role(&role, access).map_err(|error| refused(&error))).await
}

/// `GET /v1/access/rules`: lists the rules of principals, roles and everyone.
pub(crate) async fn rules(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
) -> Result<JsonResponse, Problem> {
    caller.list(&app, params, lists::rules).await
}

/// `POST /v1/access/rules`: adds a rule.
pub(crate) async fn add_rule(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let change = move |access: &AccessControl<'_>, body: &BodyText| {
        body.parse::<RuleRequest>()?.add(access).map_err(|error| refused(&error))
    };
    caller.change_by(&app, params, body, change).await
}

/// `DELETE /v1/access/rules`: removes the rule of the parameters.
pub(crate) async fn remove_rule(
    State(app): State<Arc<App>>,
    caller: AccessCaller,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let (subject, rule) = (params.one("subject")?, params.one("rule")?);
    let remove = move |access: &AccessControl<'_>| {
        let subject = parse("subject", &required("subject", subject)?)?;
        let rule = RuleRequest::new(subject, parse("rule", &required("rule", rule)?)?);
        rule.remove(access).map_err(|error| refused(&error))
    };
    caller.change(&app, params, remove).await
}

fn required(name: &str, value: Option<String>) -> Result<String, Problem> {
    value.ok_or_else(|| Problem::invalid(format!("the parameter {name} is missing")))
}

#[cfg(test)]
mod tests {
    use quire::events::{Query, ReadOptions};
    use quire::{AUDIT_STORE, Durability};
    use quire_access::{Credential, ServedDatabase};

    use super::*;

    #[test]
    fn only_a_client_on_this_machine_creates_the_first_administrator() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
        let peer = |local: &str, remote: &str| {
            Peer::tcp(local.parse().expect("an address"), remote.parse().expect("an address"))
        };
        let served = ServedDatabase::new(database.clone());
        let local = || Some(peer("127.0.0.1:7070", "127.0.0.1:50000"));
        let checked = |caller: AccessCaller| caller.check_first().map_err(|problem| problem.code());
        let code = |peer| checked(AccessCaller::new(&served, peer));
        assert_eq!(code(local()), Ok(()));
        let own = rustix::process::geteuid().as_raw();
        for (uid, expected) in [(own, Ok(())), (0, Ok(())), (own + 1, Err("not_permitted"))] {
            assert_eq!(code(Some(Peer::Unix { uid, gid: 1000, pid: None })), expected, "{uid}");
        }
        for name in FORWARDING.into_iter().chain(["x-forwarded-for", "x-forwarded-proto"]) {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("a"))]);
            let forwarded = forwarding_header(&headers);
            assert_eq!(
                checked(AccessCaller { forwarded, ..AccessCaller::new(&served, local()) }),
                Err("not_permitted")
            );
        }
        assert_eq!(forwarding_header(&HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static("a"))])), None);
        assert_eq!(code(Some(peer("192.0.2.1:7070", "192.0.2.2:50000"))), Err("not_permitted"));
        assert_eq!(code(None), Err("not_permitted"));
        database.access().init("root").expect("enabled");
        assert_eq!(code(local()), Err("access_enabled"));
        // The server goes on to check its clients.
        database.access().disable().expect("disabled");
        assert_eq!(code(local()), Err("access_enabled"));
    }

    #[tokio::test]
    async fn a_change_names_the_principal_of_the_session_and_its_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
        let key = database.access().init("root").expect("enabled");
        let served = ServedDatabase::new(database.clone());
        let session = served.session(&Credential::Key(key.reveal())).expect("the key is valid");
        let work = async {
            let caller = AccessCaller::new(&served, None);
            assert_eq!(caller.principal(), (Some("root".to_owned()), Some(key.id().to_string())));
            caller.check(Operation::Alter).expect("an administrator");
            caller.work(|access| Ok(access.create_user("ann", &[])?)).await
        };
        session.scope(work).await.expect("created");
        let read = database.events(AUDIT_STORE).read(&Query::all(), ReadOptions::default()).expect("readable");
        let last = String::from_utf8(read.events.last().expect("an event").data.clone()).expect("text");
        assert!(last.starts_with(&format!(r#"{{"principal":"root","key":"{}","protocol":"http""#, key.id())), "{last}");

        // Outside of a session nothing is permitted.
        let nobody = AccessCaller::new(&served, None);
        assert_eq!(nobody.check(Operation::Describe).expect_err("refused").code(), "not_permitted");
        assert_eq!(nobody.principal(), (None, None));
    }
}
