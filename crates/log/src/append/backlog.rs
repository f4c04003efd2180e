//! Decides whether a record of a `sync` log is stored in place or written through the file. The
//! decision depends on the number of records that wait for a sync.
//!
//! A store costs less than a call of the kernel. The first store to a page after each sync costs a
//! page fault, and makes the sync more expensive. Measured on Linux 6.18, ext4:
//! * A thousand appends that wait took 1,230 ns each through the file, and 350 in place.
//! * Appends of sixteen threads that each wait for their own took up to 5 % longer in place.

/// When this many records wait for a sync, the next ones are stored in place.
const IN_PLACE_FROM: u64 = 64;

/// When this many records waited before all were synced, as many are expected to follow. The first
/// of those are then stored in place, too. A client with a thousand appends in flight gets their
/// acknowledgement in 490 µs instead of 563. (Records of 116 B; the median of three thousand
/// rounds, alternating.)
const MANY: u64 = 256;

const _: () = assert!(IN_PLACE_FROM < MANY, "records are stored in place before there are many");

/// The records that wait for a sync.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Largest number of waiting records since none waited.
    most: u64,
    many_expected: bool,
}

impl Backlog {
    /// Whether the next record is stored in place when `waiting` records before it wait for a sync.
    #[inline]
    pub(crate) fn in_place(&mut self, waiting: u64) -> bool {
        if waiting == 0 {
            self.many_expected = self.most >= MANY;
            self.most = 0;
        }
        self.most = self.most.max(waiting);
        self.many_expected || waiting >= IN_PLACE_FROM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the records stored in place when `records` records are appended before a sync.
    fn in_place(backlog: &mut Backlog, records: u64) -> usize {
        (0..records).filter(|waiting| backlog.in_place(*waiting)).count()
    }

    #[test]
    fn records_are_stored_in_place_after_a_few_others_and_from_the_first_one_after_many() {
        let mut backlog = Backlog::default();
        assert_eq!([1, 64, 65, 128].map(|records| in_place(&mut backlog, records)), [0, 0, 1, 64]);
        assert_eq!(in_place(&mut backlog, 1000), 1000 - 64, "before it there were not many");
        assert_eq!(in_place(&mut backlog, 1000), 1000);
        assert_eq!([1, 1].map(|records| in_place(&mut backlog, records)), [1, 0], "one after many, and one after one");
    }
}
