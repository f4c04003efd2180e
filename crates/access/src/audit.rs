//! The audit of logins and denials: events are collected, and written to the audit store each
//! second.
//!
//! ```text
//! login, denial ──▶ batch: equal events are one event with a count ──each second──▶ one commit
//!                     └ beyond the bytes of a batch: counted ──────────────────────▶ AuditGap
//! ```
//!
//! No request waits for it. Events name principals, ids of keys, addresses and resources, and no
//! secrets. Clients that are not authenticated have a part of each batch of their own, so they can
//! neither fill the log nor hide the events of others.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use quire::system::{KeyId, Principal};
use quire::{ACCESS_DENIED, AuditAuthor, AuditEvent, Database, LOGGED_IN, LOGIN_REFUSED, PermissionRefusal, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::session::ServedRules;

/// How often events are written.
const PAUSE: Duration = Duration::from_secs(1);

/// Most bytes of the events of authenticated clients in a batch.
const CLIENT_BYTES_MAX: usize = 12 << 10;

/// Most bytes of the events of other clients in a batch.
const STRANGER_BYTES_MAX: usize = 4 << 10;

/// The bytes of an event without its texts.
const EVENT_BYTES: usize = 256;

/// Most bytes of a text of an event; a longer one is cut.
const TEXT_BYTES_MAX: usize = 256;

/// A login of the same principal with the same key from the same address is recorded once in this
/// time: a client may open a connection for each request.
const LOGIN_TIME_MICROS: u64 = 60 * 60 * 1_000_000;

/// Most logins that are remembered for that.
const LOGINS_MAX: usize = 4_096;

/// The principal of clients that are not authenticated.
const ANONYMOUS: &str = "anonymous";

/// The collected events of a front end; see the module.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    protocol: &'static str,
    batch: Mutex<AuditBatch>,
    writer: Mutex<Option<AuditWriter>>,
}

/// The task that writes the events.
#[derive(Debug)]
struct AuditWriter {
    /// Dropped to stop the task.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct AuditBatch {
    of_clients: BatchPart,
    of_strangers: BatchPart,
    /// The times of the last recorded logins.
    logins: HashMap<LoginSource, Timestamp>,
}

/// The events of one kind of clients.
#[derive(Debug, Default)]
struct BatchPart {
    /// Each with its count. They are few.
    facts: Vec<(AuditFact, u64)>,
    bytes: usize,
    lost: u64,
}

/// An event without its count.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AuditFact {
    event_type: &'static str,
    source: LoginSource,
    operation: &'static str,
    thing: String,
    outcome: &'static str,
}

/// The principal and the address of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LoginSource {
    principal: Arc<str>,
    key: Option<KeyId>,
    address: Option<Arc<str>>,
}

impl AuditLog {
    /// An audit of the clients of this protocol.
    pub(crate) fn of_protocol(protocol: &'static str) -> Self {
        AuditLog { protocol, ..AuditLog::default() }
    }

    fn batch(&self) -> MutexGuard<'_, AuditBatch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client was authenticated with a credential of this kind.
    pub(crate) fn logged_in(
        rules: &Arc<ServedRules>,
        principal: &Principal,
        kind: &str,
        address: Option<&Arc<str>>,
        now: Timestamp,
    ) {
        let Some(audit) = rules.audit() else { return };
        let source = LoginSource::of(Some(principal), address);
        {
            let mut batch = audit.batch();
            let is_known = batch.logins.get(&source).is_some_and(|last| now < last.plus_micros(LOGIN_TIME_MICROS));
            if is_known {
                return;
            }
            if batch.logins.len() >= LOGINS_MAX {
                batch.logins.clear();
            }
            batch.logins.insert(source.clone(), now);
        }
        let (event_type, operation, outcome) = (LOGGED_IN, "login", "done");
        audit.add(AuditFact { event_type, source, operation, thing: kind.to_owned(), outcome }, true);
        audit.begin_writing(rules);
    }

    /// Records that a client was not authenticated with a credential of this kind.
    pub(crate) fn login_refused(rules: &Arc<ServedRules>, kind: &str, address: Option<&Arc<str>>) {
        let Some(audit) = rules.audit() else { return };
        let source = LoginSource::of(None, address);
        let (event_type, operation, outcome) = (LOGIN_REFUSED, "login", "denied");
        audit.add(AuditFact { event_type, source, operation, thing: kind.to_owned(), outcome }, false);
        audit.begin_writing(rules);
    }

    /// Records that a client was refused for a missing permission.
    pub(crate) fn denied(
        rules: &Arc<ServedRules>,
        principal: Option<&Principal>,
        refusal: &PermissionRefusal,
        address: Option<&Arc<str>>,
    ) {
        let Some(audit) = rules.audit() else { return };
        let source = LoginSource::of(principal, address);
        let thing = cut(format!("{} {}", refusal.kind.name(), refusal.name));
        let (event_type, operation, outcome) = (ACCESS_DENIED, refusal.operation.name(), "denied");
        audit.add(AuditFact { event_type, source, operation, thing, outcome }, principal.is_some());
        audit.begin_writing(rules);
    }

    fn add(&self, fact: AuditFact, is_of_client: bool) {
        let mut batch = self.batch();
        match is_of_client {
            true => batch.of_clients.add(fact, CLIENT_BYTES_MAX),
            false => batch.of_strangers.add(fact, STRANGER_BYTES_MAX),
        }
    }

    /// Starts the task that writes, in a program with a runtime.
    fn begin_writing(&self, rules: &Arc<ServedRules>) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            let (stop, stopped) = oneshot::channel();
            let task = runtime.spawn(write_each_second(Arc::downgrade(rules), stopped));
            *writer = Some(AuditWriter { stop, task });
        }
    }

    /// Writes what was collected, and no longer writes. Nothing of the audit holds the database
    /// then.
    pub(crate) async fn end(rules: &Arc<ServedRules>) {
        let Some(audit) = rules.audit() else { return };
        let writer = audit.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(AuditWriter { stop, task }) = writer {
            drop(stop);
            // A task that has panicked has ended.
            let _ = task.await;
        }
        write(audit, &rules.owner).await;
    }
}

impl LoginSource {
    fn of(principal: Option<&Principal>, address: Option<&Arc<str>>) -> Self {
        LoginSource {
            principal: principal.map_or_else(|| ANONYMOUS.into(), |principal| Arc::clone(&principal.name)),
            key: principal.and_then(|principal| principal.key),
            address: address.cloned(),
        }
    }
}

impl BatchPart {
    fn add(&mut self, fact: AuditFact, bytes_max: usize) {
        if let Some((_, count)) = self.facts.iter_mut().find(|(known, _)| *known == fact) {
            *count += 1;
            return;
        }
        let address = fact.source.address.as_ref().map_or(0, |address| address.len());
        let bytes = EVENT_BYTES + fact.source.principal.len() + fact.thing.len() + address;
        if self.bytes + bytes > bytes_max {
            self.lost += 1;
            return;
        }
        self.bytes += bytes;
        self.facts.push((fact, 1));
    }
}

/// The begin of a text, as far as an event has it.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

async fn write_each_second(rules: Weak<ServedRules>, mut stopped: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = &mut stopped => return,
        }
        let Some(rules) = rules.upgrade() else { return };
        let Some(audit) = rules.audit() else { return };
        write(audit, &rules.owner).await;
    }
}

/// Writes the collected events. Events that can't be written are counted as lost.
async fn write(audit: &AuditLog, owner: &Database) {
    let (clients, strangers) = {
        let mut batch = audit.batch();
        (mem::take(&mut batch.of_clients), mem::take(&mut batch.of_strangers))
    };
    let lost = clients.lost + strangers.lost;
    let facts: Vec<_> = clients.facts.into_iter().chain(strangers.facts).collect();
    if facts.is_empty() && lost == 0 {
        return;
    }
    let all = lost + facts.iter().map(|(_, count)| count).sum::<u64>();
    let (owner, protocol) = (owner.clone(), audit.protocol);
    let written = tokio::task::spawn_blocking(move || record(&owner, protocol, &facts, lost)).await;
    if !matches!(written, Ok(Ok(()))) {
        audit.batch().of_clients.lost += all;
    }
}

fn record(owner: &Database, protocol: &str, facts: &[(AuditFact, u64)], lost: u64) -> quire::Result<()> {
    let keys: Vec<_> = facts.iter().map(|(fact, _)| fact.source.key.map(|key| key.to_string())).collect();
    let events = facts.iter().zip(&keys).map(|((fact, count), key)| {
        let AuditFact { event_type, source, operation, thing, outcome } = fact;
        let author = AuditAuthor {
            principal: &source.principal,
            key: key.as_deref(),
            address: source.address.as_deref(),
            protocol,
        };
        AuditEvent { event_type, author, operation, thing, outcome, count: Some(*count) }
    });
    let author = AuditAuthor { protocol, ..AuditAuthor::OWNER };
    owner.access().by(author).record(&events.collect::<Vec<_>>(), lost)
}

#[cfg(test)]
mod tests {
    use quire::events::{Query, ReadOptions};
    use quire::{AUDIT_GAP, AUDIT_STORE, NewJob, NewPassword};

    use super::*;
    use crate::{Credential, ServedDatabase};

    fn served() -> (tempfile::TempDir, ServedDatabase, String) {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let key = database.access().init("root").expect("initialised").reveal().to_owned();
        (directory, ServedDatabase::new(database).with_audit("test"), key)
    }

    /// The events of logins and denials: the type and the data of each.
    fn audited(served: &ServedDatabase) -> Vec<(String, String)> {
        let read = served.owner().events(AUDIT_STORE).read(&Query::all(), ReadOptions::default()).expect("readable");
        let shown =
            |event: quire::Event| (event.event_type.to_string(), String::from_utf8(event.data.to_vec()).expect("text"));
        read.events.into_iter().map(shown).filter(|(event_type, _)| event_type != "AccessChanged").collect()
    }

    #[tokio::test]
    async fn logins_and_denials_are_recorded_once_a_batch_with_their_count() {
        let (_directory, served, key) = served();
        served.owner().access().create_user("ann", &[]).expect("created");
        served.owner().access().set_password("ann", "correct horse", NewPassword::default()).expect("set");
        served.owner().queue("mails").enqueue(NewJob::new("hello")).expect("enqueued");
        for _ in 0..3 {
            served.session_from(&Credential::Key(&key), Some("192.0.2.1")).expect("valid");
            served.session_from(&Credential::Key("qk_wrong"), Some("192.0.2.2")).expect_err("wrong");
        }
        // Not recorded: nobody tried to log in.
        served.session_from(&Credential::Absent, None).expect_err("missing");
        let ann =
            served.session_from(&Credential::Authenticated(&Principal::named("ann")), Some("a\n\"b")).expect("valid");
        for _ in 0..2 {
            served.of(&ann).queue("mails").stats().expect_err("refused");
            served.of(&ann).queue("mails").enqueue(NewJob::new("secret payload")).expect_err("refused");
        }
        served.end_audit().await;
        let id = &key[3..13];
        let expected = [
            ("LoggedIn", format!(r#"{{"principal":"root","key":"{id}","address":"192.0.2.1","protocol":"test","operation":"login","thing":"api_key","outcome":"done","count":1}}"#)),
            ("LoggedIn", r#"{"principal":"ann","address":"a\u000a\"b","protocol":"test","operation":"login","thing":"token","outcome":"done","count":1}"#.to_owned()),
            ("AccessDenied", r#"{"principal":"ann","address":"a\u000a\"b","protocol":"test","operation":"describe","thing":"queue mails","outcome":"denied","count":2}"#.to_owned()),
            ("AccessDenied", r#"{"principal":"ann","address":"a\u000a\"b","protocol":"test","operation":"write","thing":"queue mails","outcome":"denied","count":2}"#.to_owned()),
            ("LoginRefused", r#"{"principal":"anonymous","address":"192.0.2.2","protocol":"test","operation":"login","thing":"api_key","outcome":"denied","count":3}"#.to_owned()),
        ];
        assert_eq!(audited(&served), expected.map(|(event_type, data)| (event_type.to_owned(), data)));
        let all = format!("{:?}", audited(&served));
        assert!(!all.contains(&key[14..]) && !all.contains("payload") && !all.contains("horse"), "{all}");
    }

    #[tokio::test]
    async fn events_beyond_the_bytes_of_a_batch_are_counted_as_lost() {
        let (_directory, served, _) = served();
        served.owner().access().create_user("ann", &[]).expect("created");
        let ann = served.session(&Credential::Authenticated(&Principal::named("ann"))).expect("valid");
        for number in 0..1_000 {
            let address = format!("192.0.2.{number}");
            served.session_from(&Credential::Key("qk_wrong"), Some(&address)).expect_err("wrong");
        }
        for number in 0..1_000 {
            served.of(&ann).queue(&format!("{number}-{}", "x".repeat(400))).stats().expect_err("refused");
        }
        served.end_audit().await;
        let events = audited(&served);
        let bytes: usize = events.iter().map(|(_, data)| data.len()).sum();
        assert!(bytes <= CLIENT_BYTES_MAX + STRANGER_BYTES_MAX, "{bytes}");
        let of = |event_type: &str| events.iter().filter(|(found, _)| found == event_type).count();
        let (denied, refused) = (of("AccessDenied"), of("LoginRefused"));
        assert!(denied > 10 && refused > 10, "{denied} {refused}");
        let lost = 2_000 - denied - refused;
        let gap = (AUDIT_GAP.to_owned(), format!(r#"{{"protocol":"test","lost":{lost}}}"#));
        assert_eq!(events.last(), Some(&gap));
        served.end_audit().await;
        assert_eq!(audited(&served).len(), events.len(), "a gap is recorded once");
    }

    #[tokio::test]
    async fn events_are_written_while_the_server_runs() {
        let (_directory, served, _) = served();
        served.session(&Credential::Key("qk_wrong")).expect_err("wrong");
        let mut seen = served.owner().published();
        while audited(&served).is_empty() {
            served.owner().publication_after(seen).await.expect("published");
            seen = served.owner().published();
        }
        assert_eq!(audited(&served)[0].0, "LoginRefused");
    }
}
