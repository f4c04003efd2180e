//! The durable cell of a vote. The cell holds the value saved last, whatever the crash. Damage
//! never passes for a vote.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Background, Components, Durability, Error, Log, Office, Term};

use crate::shard::{IDENTITY, Shard, settings};
use crate::storage::DyingDisk;

const FIRST: Office = Office { term: Term::new(3), vote: None, incarnation: 0x1234 << 64, boot: 77, is_clean: false };

fn vote(term: u32, member: u64) -> Office {
    Office { term: Term::new(term), vote: NonZeroU64::new(member), is_clean: true, ..FIRST }
}

#[test]
fn a_vote_is_there_after_it_was_saved_and_never_changes_within_its_term() {
    let shard = Shard::new(settings(Durability::Sync));
    let opened = shard.open();
    assert_eq!(opened.log.office().unwrap(), None);
    for office in [FIRST, vote(3, 2), vote(3, 2), vote(5, 1)] {
        opened.log.save_office(&office).unwrap();
        assert_eq!(shard.snapshot().shard().open().log.office().unwrap(), Some(office));
    }
    for forbidden in [vote(5, 2), vote(4, 1), Office { vote: None, ..vote(5, 1) }] {
        let saved = catch_unwind(AssertUnwindSafe(|| opened.log.save_office(&forbidden)));
        assert!(saved.is_err(), "{forbidden:?} is saved");
    }
    drop(opened);
    assert_eq!(shard.open().log.office().unwrap(), Some(vote(5, 1)));
}

#[test]
fn no_flipped_bit_and_no_lost_byte_of_a_vote_goes_unnoticed() {
    let shard = Shard::new(settings(Durability::Os));
    let opened = shard.open();
    opened.log.save_office(&vote(9, 3)).unwrap();
    let path = shard.path().join("office");
    let whole = std::fs::read(&path).unwrap();
    let is_damaged = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        matches!(opened.log.office(), Err(Error::Damaged { .. }))
    };
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(is_damaged(&flipped), "bit {bit}");
    }
    for bytes in 0..whole.len() {
        assert!(is_damaged(&whole[..bytes]), "{bytes} bytes");
    }
    assert!(is_damaged(&[&whole[..], &[0]].concat()));
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(opened.log.office().unwrap(), Some(vote(9, 3)));
}

#[test]
fn a_crash_at_any_step_of_saving_a_vote_leaves_it_or_the_one_before() {
    for steps in 0.. {
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let shard = Shard::new(settings(Durability::Sync));
        let components = Components {
            storage: Arc::new(DyingDisk::after(Arc::clone(&left))),
            background: Background::Caller,
            clock: shard.clock.clone(),
        };
        let opened = Log::open_with(shard.path(), IDENTITY, shard.settings.clone(), components).unwrap();
        opened.log.save_office(&vote(3, 1)).unwrap();
        left.store(steps, Ordering::SeqCst);
        let saved = opened.log.save_office(&vote(4, 2));
        let found = shard.snapshot().shard().open().log.office().unwrap();
        if saved.is_ok() {
            assert_eq!(found, Some(vote(4, 2)));
            assert!(steps > 3, "saving takes several changes of the disk");
            return;
        }
        assert!([Some(vote(3, 1)), Some(vote(4, 2))].contains(&found), "step {steps} leaves {found:?}");
    }
}
