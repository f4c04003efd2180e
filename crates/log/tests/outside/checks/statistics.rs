//! Arbitrary bytes of a statistics page, read by monitoring and continued by the log.

use std::sync::LazyLock;

use quire_log::Page;
use quire_model::Position;

use super::base::{Base, RECORDS, answers, append};

static PLAIN: LazyLock<Base> = LazyLock::new(Base::plain);

/// The initial corpus.
pub(crate) fn seed() -> &'static [u8] {
    &PLAIN.files["statistics"]
}

/// Returns whether the bytes are read as a page. The log never depends on them.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let shard = PLAIN.with("statistics", bytes, |_| true);
    let page = Page::read(shard.path());
    let is_read = page.is_ok();
    if let Ok(page) = page {
        looked_at(&page, &page);
    }
    let mut opened = shard.open().expect("nothing depends on the page");
    let before = Page::read(shard.path()).expect("there is one while the log is open");
    append(&mut opened, RECORDS + 1).expect("it goes on");
    let after = Page::read(shard.path()).expect("there is one while the log is open");
    assert_eq!(after.appends, before.appends.wrapping_add(1));
    looked_at(&after, &before);
    opened.log.tell_gauges(Position::new(1), &[("a gauge".to_owned(), 7)]);
    let told = Page::read(shard.path()).expect("there is one while the log is open").gauges.expect("told");
    assert_eq!((told.count, &*told.first[0].name, told.first[0].value), (1, "a gauge", 7));
    let all = answers(&opened).expect("its segments are sound").all;
    assert!(all.starts_with(&PLAIN.answers.all) && all.len() == PLAIN.answers.all.len() + 3);
    is_read
}

/// All values of a page.
fn looked_at(page: &Page, before: &Page) {
    let of = |page: &Page| [page.append_ns.clone(), page.sync_ns.clone(), page.checkpoint_ns.clone()];
    for (now, then) in of(page).iter().zip(&of(before)) {
        for histogram in [now, &now.since(then)] {
            assert!(histogram.quantile_ns(0.5) <= histogram.quantile_ns(1.0));
            assert!(histogram.mean_ns() <= histogram.total_ns);
        }
    }
    if let Some(told) = &page.gauges {
        assert!(told.first.len() as u64 <= told.count);
    }
}
