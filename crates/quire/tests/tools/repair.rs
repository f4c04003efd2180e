//! `repair` restores everything that follows from the log. It first reports its plan, and leaves
//! lost data as it is.

use std::fs;

use quire::tools::{FileKind, LogPart, RepairPlan, RepairStep, Severity, repair, verify};
use quire::{Database, ErrorKind};

use crate::made::{Files, Place, named, place_of, records, step};

fn plan_of(place: &Place) -> RepairPlan {
    RepairPlan::of(&verify(&place.path(), None, &mut |_, _| ()).expect("there is something to verify"))
}

/// Damages some files, repairs them, and checks that no problem remains and no data is missing.
fn assert_repaired(files: &Files, damage: impl FnOnce(&mut Files)) {
    let mut damaged = files.clone();
    damage(&mut damaged);
    let place = place_of(&damaged);
    let plan = plan_of(&place);
    assert!(!plan.steps.is_empty() && plan.stays.is_empty(), "{plan:#?}");
    assert!(place.files() == damaged, "a plan changes nothing");
    repair(&place.path(), &plan).expect("repaired");
    let after = verify(&place.path(), None, &mut |_, _| ()).expect("verified");
    assert_eq!(after.findings, []);
    assert_eq!(after.totals, verify(&place_of(files).path(), None, &mut |_, _| ()).expect("verified").totals);
    step(&place.open(), 1000);
}

#[test]
fn files_that_follow_from_the_log_are_rebuilt() {
    let files = Place::made(40).files();
    let flip = |name: &str, at: usize| {
        let name = name.to_owned();
        move |files: &mut Files| files.get_mut(&name).expect("there")[at] ^= 1
    };
    assert_repaired(&files, flip("quire.meta", 20));
    assert_repaired(&files, flip("shard-0000/control", 8 * 8));
    assert_repaired(&files, flip("shard-0000/statistics", 0));
    for name in named(&files, ".checkpoint").iter().chain(&named(&files, ".idx")) {
        assert_repaired(&files, flip(name, files[name].len() / 2));
        assert_repaired(&files, |files| files.get_mut(name).expect("there").truncate(30));
    }
    assert_repaired(&files, |files| {
        for (name, bytes) in files.iter_mut().filter(|(name, _)| !name.ends_with(".log")) {
            // Lock files are empty.
            if FileKind::of(name.rsplit('/').next().expect("a name")) == FileKind::Lock {
                continue;
            }
            assert!(!bytes.is_empty(), "{name}");
            bytes[9] ^= 0x10;
            bytes[0] ^= 0x10;
        }
    });
}

#[test]
fn a_torn_tail_is_repaired_though_a_repair_that_was_killed_has_removed_the_control_file() {
    let files = Place::made(40).files();
    let last = named(&files, ".log").pop().expect("segments");
    let mut torn = files.clone();
    let end = records(&files[&last]).pop().expect("records").end;
    torn.get_mut(&last).expect("there")[end..end + 200].fill(0xa5);
    for control in [None, Some(vec![])] {
        assert_repaired(&files, |damaged| {
            damaged.clone_from(&torn);
            damaged.remove("shard-0000/control");
            damaged.extend(control.map(|bytes| ("shard-0000/control".to_owned(), bytes)));
        });
    }
}

#[test]
fn a_loss_stays_and_is_reported() {
    let mut files = Place::made(40).files();
    let name = named(&files, ".log").remove(1);
    let record = records(&files[&name])[2].clone();
    files.get_mut(&name).expect("there")[record.start + 45] ^= 1;
    let place = place_of(&files);
    let plan = plan_of(&place);
    assert_eq!((plan.steps.len(), plan.stays.len()), (0, 1), "{plan:#?}");
    assert!(plan.stays[0].path.ends_with(&name));
}

#[test]
fn the_index_of_a_segment_with_a_lost_end_stays_and_serves_the_remaining_records() {
    let files = Place::made(40).files();
    let name = named(&files, ".log").remove(1);
    let records = records(&files[&name]);
    let [.., before, last] = &records[..] else { panic!("it has many") };
    // A record of zeros looks like the end; a record that is half zeros does not.
    for from in [last.start, before.start, before.start + 100] {
        let mut damaged = files.clone();
        damaged.get_mut(&name).expect("there")[from..last.end].fill(0);
        let place = place_of(&damaged);
        drop(place.open());
        let place = place_of(&damaged);
        let plan = plan_of(&place);
        assert!(plan.steps.is_empty() && !plan.stays.is_empty(), "from {from} on: {plan:#?}");
        assert!(plan.stays[0].path.ends_with(&name), "from {from} on: {plan:#?}");
        repair(&place.path(), &plan).expect("nothing to do");
        assert!(place.files() == damaged, "from {from} on");
        drop(place.open());
    }
}

#[test]
fn a_repair_is_refused_while_a_process_has_the_database_open() {
    let place = Place::made(5);
    let database = place.open();
    let plan = RepairPlan { steps: vec![RepairStep::WriteMeta], stays: Vec::new() };
    let before = fs::read(place.path().join("quire.meta")).expect("read");
    assert_eq!(repair(&place.path(), &plan).expect_err("in use").kind(), ErrorKind::InUse);
    assert_eq!(fs::read(place.path().join("quire.meta")).expect("read"), before);
    drop(database);
    repair(&place.path(), &plan).expect("repaired");
}

#[test]
fn a_damaged_checkpoint_of_a_compacted_database_is_rebuilt_while_the_other_is_usable() {
    for files in Place::compacted_and_packed().map(|place| place.files()) {
        let checkpoints = named(&files, ".checkpoint");
        assert_eq!(checkpoints.len(), 2);
        for name in checkpoints.iter().chain(&named(&files, ".idx")) {
            assert_repaired(&files, |files| files.get_mut(name).expect("there")[50] ^= 1);
        }
    }
}

#[test]
fn a_compacted_database_without_a_checkpoint_is_lost_and_nothing_is_removed() {
    let [_, packed] = Place::compacted_and_packed();
    let files = packed.files();
    let checkpoints = named(&files, ".checkpoint");
    let assert_lost = |damage: &dyn Fn(&mut Files, &String)| {
        let mut files = files.clone();
        checkpoints.iter().for_each(|name| damage(&mut files, name));
        let place = place_of(&files);
        let plan = plan_of(&place);
        let stays: Vec<_> = plan.stays.iter().map(|finding| (finding.severity, finding.part)).collect();
        assert_eq!((stays, &plan.steps), (vec![(Severity::Lost, LogPart::Checkpoint)], &vec![]), "{plan:#?}");
        assert!(plan.stays[0].message.contains("restore a backup"), "{plan:#?}");
        repair(&place.path(), &plan).expect("there is nothing to do");
        assert!(place.files() == files);
        let error = Database::builder(place.path()).create(false).open().expect_err("records are gone");
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    };
    assert_lost(&|files, name| drop(files.remove(name)));
    assert_lost(&|files, name| files.get_mut(name).expect("there")[50] ^= 1);
    // An intact checkpoint, of a record that was compacted.
    let old = Place::made(1);
    let bytes = old.files()[&named(&old.files(), ".checkpoint")[0]].clone();
    assert_lost(&|files, name| drop(files.insert(name.clone(), bytes.clone())));
}
