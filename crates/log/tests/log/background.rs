//! A log whose duties run on the threads of its user.

use std::sync::Arc;

use quire_log::{Background, Components, Durability, Log, LogDuty, OpenedLog};
use quire_model::Position;

use crate::shard::{BOTH, IDENTITY, Shard, append, assert_samples, extend, sample, settings};

fn open(shard: &Shard) -> OpenedLog {
    let clock = Arc::clone(&shard.clock) as _;
    let components = Components { clock, background: Background::Caller, ..Components::default() };
    Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap()
}

#[test]
fn without_threads_the_log_syncs_only_on_request() {
    for durability in BOTH {
        let shard = Shard::new(settings(durability));
        let mut opened = open(&shard);
        let before = opened.log.statistics().syncs;
        append(&mut opened.writer, &sample(1));
        opened.log.request(opened.writer.basis());
        assert_eq!(opened.log.statistics().syncs, before, "{durability}");
        assert!(opened.log.carry_out(LogDuty::Sync).unwrap());
        assert_eq!(opened.log.statistics().syncs, before + 1, "{durability}");
        assert!(!opened.log.carry_out(LogDuty::Sync).unwrap());
        assert_eq!(opened.log.published(), Position::new(1));
    }
}

#[test]
fn without_threads_a_segment_is_made_on_request_or_when_needed() {
    let shard = Shard::new(settings(Durability::Os));
    let mut opened = open(&shard);
    let spare = shard.path().join("spare-00");
    assert!(!spare.exists());
    assert!(opened.log.carry_out(LogDuty::Prepare).unwrap());
    assert!(spare.exists());
    assert!(!opened.log.carry_out(LogDuty::Prepare).unwrap());
    extend(&mut opened, 40);
    assert!(opened.log.statistics().segments > 3);
    drop(opened);
    let opened = open(&shard);
    assert_samples(&opened.log.reader(), 40);
}
