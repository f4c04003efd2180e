//! The commits of the log: in pages, and one by one.
//!
//! A client sees the entries of objects that it may read. A commit without such an entry is
//! omitted, or unknown when it is named.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::{CommitEntry, CommitLog, Database, EntryObject, LoggedCommit, LoggedEvent, Position, tools};
use quire_access::BoundedRequest;
use quire_api::ListPage;
use quire_api::reply::{CommitEntryReply, CommitsRead, LoggedCommitReply, LoggedEdgeReply, LoggedEventReply, TagReply};

use crate::app::App;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Params, PathNames, within};
use crate::response::{JsonResponse, bounded};

/// How long a request may wait for a commit, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// How many entries of each commit a page looks at. The commit itself lists the others.
const ENTRIES_LISTED: usize = 32;

/// A page ends with the commit whose names and tags reach this size in bytes.
const PAGE_BYTES: usize = 4 << 20;

/// The next commit of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitCursor {
    /// Oldest first, after this position.
    After(Position),
    /// Newest first, before this position.
    Before(Position),
}

impl CommitCursor {
    /// The cursor after a commit was looked at.
    fn past(self, position: Position) -> Self {
        match self {
            CommitCursor::After(_) => CommitCursor::After(position),
            CommitCursor::Before(_) => CommitCursor::Before(position),
        }
    }

    /// The position of the next commit.
    fn next(self, log: &CommitLog, head: Position) -> Result<Option<Position>, quire::Error> {
        match self {
            // A page ends at the head that it reports, where the next read continues.
            CommitCursor::After(position) if position >= head => Ok(None),
            CommitCursor::After(position) => Ok(log.first_after(position)?.filter(|next| *next <= head)),
            CommitCursor::Before(position) => log.last_before(position),
        }
    }
}

impl FromStr for CommitCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('-').and_then(|(order, position)| {
            let position = Position::new(position.parse().ok()?);
            match order {
                "after" => Some(CommitCursor::After(position)),
                "before" => Some(CommitCursor::Before(position)),
                _ => None,
            }
        });
        parsed.ok_or_else(|| "it is the `next_cursor` of a page".to_owned())
    }
}

impl std::fmt::Display for CommitCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommitCursor::After(position) => write!(f, "after-{position}"),
            CommitCursor::Before(position) => write!(f, "before-{position}"),
        }
    }
}

/// `GET /v1/commits`: the newest commits first; with `after`, those after a position, oldest first.
/// With `wait_ms` it waits for a commit when there is none.
pub(crate) async fn list(State(app): State<Arc<App>>, mut params: Params) -> Result<JsonResponse, Problem> {
    let given: [Option<CommitCursor>; 3] = [
        params.one("cursor")?,
        params.one("after")?.map(|after| CommitCursor::After(Position::new(after))),
        params.one("before")?.map(|before| CommitCursor::Before(Position::new(before))),
    ];
    let mut given = given.into_iter().flatten();
    let from = given.next().unwrap_or(CommitCursor::Before(Position::MAX));
    if given.next().is_some() {
        return Err(Problem::invalid("give only one of cursor, after and before"));
    }
    let wait_ms = within("wait_ms", params.one("wait_ms")?.unwrap_or(0), 0..=WAIT_MS_MAX)?;
    if wait_ms > 0 && !matches!(from, CommitCursor::After(_)) {
        return Err(Problem::invalid("wait_ms needs after: no older commits arrive"));
    }
    let limit = params.limit()?;
    params.end()?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
    loop {
        let seen = app.database().published();
        // Each look has the steps of a request: a client may wait for many commits.
        let request = BoundedRequest::begin(&app.database());
        let app_aside = Arc::clone(&app);
        let (page, claim) = bounded(request, move |database| page(&app_aside, database, from, limit)).await?;
        let arrival = app.database().publication_after(seen);
        if !page.data.is_empty() || page.has_more || wait_ms == 0 {
            return JsonResponse::within(claim, &page);
        }
        tokio::select! {
            arrived = arrival => arrived?,
            () = tokio::time::sleep_until(deadline) => return JsonResponse::within(claim, &page),
            () = app.closing() => return JsonResponse::within(claim, &page),
        }
    }
}

/// `GET /v1/commits/{position}`: a commit; with `entry`, its entries from this index on.
pub(crate) async fn commit(
    State(app): State<Arc<App>>,
    PathNames(position): PathNames<u64>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let entry = params.one("entry")?.unwrap_or(0);
    let limit = params.limit()?;
    params.end()?;
    let request = BoundedRequest::begin(&app.database());
    let app_aside = Arc::clone(&app);
    let (reply, claim) = bounded(request, move |database| {
        let mut claim = app_aside.memory.claim();
        let position = Position::new(position);
        let found = look(&database.commit_log(), position, entry, limit, &mut claim)?;
        let unknown = || Problem::not_found(format!("the log has no commit {position} with entries that you may read"));
        Ok((found.map(reply).ok_or_else(unknown)?, claim))
    })
    .await?;
    JsonResponse::within(claim, &reply)
}

/// A page, and the memory of its copies. It ends where the steps of the request are used up.
fn page(
    app: &App,
    database: &Database,
    from: CommitCursor,
    limit: usize,
) -> Result<(ListPage<LoggedCommitReply, CommitsRead>, Claim), Problem> {
    let (head, log) = (database.published(), database.commit_log());
    let (mut at, mut commits, mut bytes, mut claim) = (from, Vec::new(), 0, app.memory.claim());
    if matches!(from, CommitCursor::After(position) if position > head) {
        let message = format!("after is beyond the last commit, {head}: is the position of another database?");
        return Err(Problem::invalid(message));
    }
    let mut has_more = false;
    loop {
        let looked = at.next(&log, head).map_err(Problem::from).and_then(|next| {
            let Some(position) = next else { return Ok(None) };
            if commits.len() == limit || bytes >= PAGE_BYTES {
                has_more = true;
                return Ok(None);
            }
            Ok(Some((position, look(&log, position, 0, ENTRIES_LISTED, &mut claim)?)))
        });
        match looked {
            Ok(None) => break,
            Ok(Some((position, commit))) => {
                if let Some(commit) = commit {
                    bytes += commit.entries.iter().map(CommitEntry::memory_bytes).sum::<usize>();
                    commits.push(reply(commit));
                }
                at = at.past(position);
            }
            Err(problem) if problem.is_too_costly() && at != from => {
                has_more = true;
                break;
            }
            Err(problem) => return Err(problem),
        }
    }
    let cursor = has_more.then(|| at.to_string());
    Ok((ListPage::of(commits, cursor, CommitsRead { head: head.get() }), claim))
}

/// A commit with its entries from `index` on, as far as the client may read them; `None` without
/// any. Looks at `count` entries, and at more while the client may read none of them.
fn look(
    log: &CommitLog,
    position: Position,
    mut index: u32,
    count: usize,
    claim: &mut Claim,
) -> Result<Option<LoggedCommit>, Problem> {
    loop {
        let Some(commit) = log.commit(position, index, count)? else { return Ok(None) };
        match commit.next_index {
            Some(next) if commit.entries.is_empty() => index = next,
            None if commit.entries.is_empty() => return Ok(None),
            _ => {
                claim.grow(commit.entries.iter().map(CommitEntry::memory_bytes).sum())?;
                return Ok(Some(commit));
            }
        }
    }
}

fn reply(commit: LoggedCommit) -> LoggedCommitReply {
    LoggedCommitReply {
        position: commit.position.get(),
        time_ms: commit.time.as_millis(),
        entries: commit.entries.into_iter().map(entry_reply).collect(),
        next_entry: commit.next_index,
    }
}

fn entry_reply(entry: CommitEntry) -> CommitEntryReply {
    let of = CommitEntryReply {
        entry: entry.index,
        model: tools::model_name(entry.kind.model).into(),
        kind: tools::kind_name(entry.kind).replace(' ', "_").into(),
        bytes: entry.bytes as u64,
        ..CommitEntryReply::default()
    };
    match entry.object {
        EntryObject::Store { store, event, label } => {
            CommitEntryReply { store, event: event.map(event_reply), name: label, ..of }
        }
        EntryObject::Topic { topic, partition, group, offset, records } => {
            CommitEntryReply { topic, partition, group, offset, records, ..of }
        }
        EntryObject::Queue { queue, jobs, job_count } => {
            let jobs: Vec<_> = jobs.iter().map(ToString::to_string).collect();
            let (jobs, job_count) = if job_count == 0 { (None, None) } else { (Some(jobs), Some(job_count as u64)) };
            CommitEntryReply { queue, jobs, job_count, ..of }
        }
        EntryObject::Graph { graph, block, name, edge } => {
            let edge = edge.map(|(source, edge_type, target)| LoggedEdgeReply {
                source: source.to_string(),
                edge_type,
                target: target.to_string(),
            });
            CommitEntryReply { graph, block: block.map(|block| block.to_string()), name, edge, ..of }
        }
        EntryObject::Database => of,
    }
}

fn event_reply(event: LoggedEvent) -> LoggedEventReply {
    LoggedEventReply {
        position: event.position.get(),
        event_type: event.event_type,
        tags: event.tags.into_iter().map(|tag| TagReply(tag.into())).collect(),
    }
}
