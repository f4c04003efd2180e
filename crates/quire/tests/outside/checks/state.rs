//! The state of all models as a checkpoint holds it, of any bytes.

use quire::graph::Graphs;
use quire::jobs::Jobs;
use quire_model::Model;
use quire_model::codec::{Decoder, Encoder};

use super::base::{FILES, folder, goes_on, open, put};

/// Bytes of the header: the payload follows.
const HEADER_BYTES: usize = 40;

/// A checkpoint of all models, as it is on the disk.
pub(crate) fn seed() -> &'static [u8] {
    &FILES[name()]
}

fn name() -> &'static str {
    FILES.keys().find(|name| name.ends_with(".checkpoint")).expect("closing saves one")
}

/// Opens a database with a checkpoint whose state is these bytes after a header, with a matching
/// header. Returns whether the bytes are a state of every model that they name.
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
    put(&path, name, &file);
    let database = open(&path).expect("a state is taken, or passed over: the log is sound").database;
    let _ = database.statistics();
    // An invalid state leaves the log, and the saved state equals the replayed log.
    if !is_state || file == FILES[name] {
        goes_on(&database);
    }
    is_state
}

/// Loads, saves and loads each model's own state. Returns whether each is valid.
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
    // A state that is inconsistent may be saved as an invalid one; a state that can be loaded again
    // is the same.
    if let Ok(again) = M::load(&mut Decoder::new(&once)) {
        assert!(saved(&again) == once, "equal states write equal bytes");
    }
    from.end().is_ok()
}
