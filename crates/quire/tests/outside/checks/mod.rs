//! The state of all models as a checkpoint holds it, of any bytes: the body of a fuzz target, and of the test that replays its corpus.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire::graph::{Graphs, PutBlock, PutEdge};
use quire::jobs::{Jobs, NewJob, Retry};
use quire::{Background, Commit, Database, Durability, ManualClock, Message, Sequence};
use quire_model::Model;
use quire_model::codec::{Decoder, Encoder};

/// Bytes of the header: the payload follows.
const HEADER_BYTES: usize = 40;

static FILES: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(made);

/// A checkpoint of all models, as it is on the disk.
pub(crate) fn seed() -> &'static [u8] {
    &FILES[name()]
}

fn name() -> &'static str {
    FILES.keys().find(|name| name.ends_with(".checkpoint")).expect("closing saves one")
}

fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::TempDir::new_in(memory) } else { tempfile::TempDir::new() }.expect("a folder")
}

fn open(path: &Path) -> quire::Result<quire::Opening> {
    let builder = Database::builder(path).durability(Durability::Os).segment_bytes(64 << 10).id(0x5eed);
    let builder = builder.background(Background::Caller).scrub_bytes_per_second(0);
    builder.clock(Arc::new(ManualClock::default())).open_and_report()
}

/// The files of a closed database with something of everything.
fn made() -> BTreeMap<String, Vec<u8>> {
    let folder = folder();
    let path = folder.path().join("data");
    let database = open(&path).expect("opened").database;
    for number in 0..12 {
        let (text, name) = (number.to_string(), ["a", "b", "c", "d"][number % 4]);
        let commit = Commit::new()
            .append("store", [NewEvent::new("Made").tag(&text).data(&text)])
            .produce("topic", Message::new(&text).key(&text))
            .commit_offset("group", "topic", 0, Sequence::new(number as u64))
            .enqueue("queue", NewJob { attempts_max: 2, ..NewJob::new(text.as_bytes()) })
            .put_block(PutBlock { content: text.as_bytes(), ..PutBlock::new("graph", name, "thing") })
            .put_block(PutBlock::new("graph", "e", "thing"))
            .put_edge(PutEdge::new("graph", name, "follows", "e"));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        for job in database.queue("queue").fetch("worker", 1).expect("accepted") {
            match number % 4 {
                0 => database.queue("queue").ack(job.job, job.token, b"").expect("accepted"),
                1 => database.queue("queue").fail(job.job, job.token, "no", Retry::Backoff).expect("accepted"),
                2 => database.queue("queue").fail(job.job, job.token, "never", Retry::Never).expect("accepted"),
                _ => {}
            }
        }
    }
    database.checkpoint().expect("saved");
    drop(database);
    let mut files = BTreeMap::new();
    for at in ["", "shard-0000"] {
        for entry in fs::read_dir(path.join(at)).expect("listed").map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().into_string().expect("a name");
            if [".log", ".checkpoint", ".meta"].iter().any(|kind| name.ends_with(kind)) || name == "control" {
                files.insert(
                    Path::new(at).join(name).to_str().expect("text").to_owned(),
                    fs::read(entry.path()).expect("read"),
                );
            }
        }
    }
    files
}

/// Opens a database with a checkpoint whose state is what of these bytes stands behind a header, with the header that it should have.
/// Says whether the bytes are a state of every model that they name.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let state = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let is_state = sections(state);
    let name = name();
    let mut file = FILES[name][..HEADER_BYTES].to_vec();
    file[32..40].copy_from_slice(&(state.len() as u64).to_le_bytes());
    file.extend_from_slice(state);
    let crc = crc32c::crc32c(&[&file[..12], &file[16..]].concat());
    file[12..16].copy_from_slice(&crc.to_le_bytes());
    let folder = folder();
    let path = folder.path().join("data");
    fs::create_dir_all(path.join("shard-0000")).expect("made");
    for (other, bytes) in FILES.iter() {
        fs::write(path.join(other), if other == name { &file } else { bytes }).expect("written");
    }
    let database = open(&path).expect("a state is taken, or passed over: the log is sound").database;
    let _ = database.statistics();
    // What is no state leaves the log, and what was saved is what the log comes to.
    if !is_state || file == FILES[name] {
        goes_on(&database);
    }
    is_state
}

/// That it works as it did before.
fn goes_on(database: &Database) {
    let seen = Query::from(QueryItem::new().event_type("Made").tag("3"));
    let again = Commit::new().append_if("store", [NewEvent::new("Made")], [Condition::fail_if_matches(seen)]);
    assert!(database.commit(&again).expect("durable").refused().is_some(), "it is known what was appended");
    let commit = Commit::new().append("store", [NewEvent::new("Made")]).produce("topic", Message::new("more"));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}

/// Each model's own state: loaded, saved, and loaded again. Says whether each is one.
fn sections(state: &[u8]) -> bool {
    let mut from = Decoder::new(state);
    while !from.is_empty() {
        let (Ok(model), Ok(length)) = (from.u8(), from.u64()) else { return false };
        let Some(section) = usize::try_from(length).ok().and_then(|length| from.raw(length).ok()) else { return false };
        let is_state = match model {
            1 => round_trip::<quire::streams::Streams>(section),
            2 => round_trip::<quire::events::Events>(section),
            3 => round_trip::<Jobs>(section),
            4 => round_trip::<Graphs>(section),
            _ => false,
        };
        if !is_state {
            return false;
        }
    }
    true
}

fn round_trip<M: Model>(section: &[u8]) -> bool {
    let saved = |state: &M| {
        let mut out = Encoder::new();
        state.save(&mut out);
        out.as_slice().to_vec()
    };
    let mut from = Decoder::new(section);
    let Ok(state) = M::load(&mut from) else { return false };
    let once = saved(&state);
    // One that holds together only in part may be saved as what is no state; one that can be loaded is the same again.
    if let Ok(again) = M::load(&mut Decoder::new(&once)) {
        assert!(saved(&again) == once, "equal states write equal bytes");
    }
    from.end().is_ok()
}
