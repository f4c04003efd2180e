//! What was measured, and the table of it: of each load the median of all rounds, ours beside theirs.

use std::collections::BTreeMap;
use std::fmt;

use super::Durability;

/// What one load on one broker came to; what it has not is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Messages or events a second.
    pub(super) rate: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) took_ms: Option<f64>,
    pub(super) memory_bytes: Option<f64>,
    /// What one of them takes on disk.
    pub(super) disk_bytes: Option<f64>,
}

/// A number of a [`Measured`]: its name and unit, and where it is.
type Number = (&'static str, fn(&Measured) -> Option<f64>);

const NUMBERS: [Number; 6] = [
    ("per second", |measured| measured.rate),
    ("p50 us", |measured| measured.p50_us),
    ("p99 us", |measured| measured.p99_us),
    ("ms", |measured| measured.took_ms),
    ("bytes", |measured| measured.memory_bytes),
    ("disk bytes", |measured| measured.disk_bytes),
];

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = NUMBERS.iter().filter_map(|(name, of)| Some((name, of(self)?)));
        numbers.into_iter().try_for_each(|(name, number)| write!(f, " {number:>11.0} {name}"))
    }
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Results {
    /// With whom Quire is compared.
    peer: &'static str,
    /// In the order in which they were first measured.
    rows: Vec<Row>,
}

/// What came of a load.
#[derive(Debug)]
struct Row {
    load: &'static str,
    durability: Durability,
    /// By broker, what each round came to.
    rounds: BTreeMap<&'static str, Vec<Measured>>,
}

impl Results {
    /// None yet.
    pub(super) fn beside(peer: &'static str) -> Self {
        Results { peer, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, load: &'static str, durability: Durability, broker: &'static str, measured: Measured) {
        let known = self.rows.iter().position(|row| (row.load, row.durability) == (load, durability));
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row { load, durability, rounds: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[index].rounds.entry(broker).or_default().push(measured);
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:<5} {:<10} {:>13} {:>13} {:>9}", "load", "kept", "", "quire", self.peer, "ratio")?;
        for Row { load, durability, rounds } in &self.rows {
            for (name, of) in NUMBERS {
                let median = |broker| median(rounds.get(broker)?.iter().filter_map(of).collect());
                let (ours, theirs) = (median("quire"), median(self.peer));
                if ours.or(theirs).is_none() {
                    continue;
                }
                let text = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.0}"));
                let ratio = ours.zip(theirs).map_or("-".to_owned(), |(ours, theirs)| format!("{:.3}", ours / theirs));
                let (ours, theirs, kept) = (text(ours), text(theirs), durability.name());
                writeln!(f, "{load:<28} {kept:<5} {name:<10} {ours:>13} {theirs:>13} {ratio:>9}")?;
            }
        }
        Ok(())
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        length if length % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_medians_and_their_ratio() {
        let mut results = Results::beside("kafka");
        for (broker, rate) in [("quire", 10.0), ("kafka", 4.0), ("quire", 90.0), ("quire", 20.0)] {
            results.add("produce-1", Durability::Os, broker, Measured { rate: Some(rate), ..Measured::default() });
        }
        let table = results.to_string();
        let words: Vec<_> = table.lines().last().expect("a row").split_whitespace().collect();
        assert_eq!(words, ["produce-1", "os", "per", "second", "20", "4", "5.000"]);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
    }
}
