//! The output of the children: a line for each delivery, and one for each committed delivery,
//! written only after its commit. Positions in the log order events of different processes.

use std::collections::BTreeMap;
use std::fmt;

/// Every line of the children.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) deliveries: u64,
    refused: u64,
    /// Deliveries by partition.
    got: BTreeMap<u32, Vec<Got>>,
    took: BTreeMap<u32, Vec<Took>>,
}

/// A delivery.
#[derive(Debug, Clone, Copy)]
struct Got {
    first: u64,
    last: u64,
    /// The last published position when the delivery was requested.
    seen: u64,
}

/// A commit.
#[derive(Debug, Clone, Copy)]
struct Took {
    next: u64,
    /// The latest position at which it was published.
    by: u64,
}

impl Ledger {
    /// Reads a line of a child, and ignores a line of the test harness.
    pub(crate) fn note(&mut self, line: &str) {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let partition = |text: &str| text.parse::<u32>().expect("a partition");
        match line.trim_end().split(' ').collect::<Vec<_>>()[..] {
            ["got", of, first, last, seen] => {
                let got = Got { first: number(first), last: number(last), seen: number(seen) };
                self.got.entry(partition(of)).or_default().push(got);
                self.deliveries += 1;
            }
            ["took", of, next, by] => {
                self.took.entry(partition(of)).or_default().push(Took { next: number(next), by: number(by) });
            }
            ["refused"] => self.refused += 1,
            _ => {}
        }
    }

    /// Checks that every record of a partition was delivered, and none whose offset had been
    /// committed before.
    pub(crate) fn check(&self, partition: u32, messages: u64) {
        let mut got = self.got[&partition].clone();
        for took in self.took.get(&partition).into_iter().flatten() {
            let again = got.iter().find(|got| took.by <= got.seen && got.first < took.next);
            assert!(again.is_none(), "partition {partition}: {again:?} was handed out behind {took:?}");
        }
        got.sort_by_key(|got| got.first);
        let end = got.iter().fold(0, |end, got| {
            assert!(got.first <= end, "partition {partition}: {end} was not handed out");
            end.max(got.last + 1)
        });
        assert_eq!(end, messages, "partition {partition}");
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (taken, refused) = (self.took.values().map(Vec::len).sum::<usize>(), self.refused);
        write!(f, "{} deliveries, {taken} taken, {refused} refused", self.deliveries)
    }
}
