//! What was measured, and the table of it: of each load the median of all rounds, ours beside each of theirs.

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
    peers: Vec<&'static str>,
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
    pub(super) fn beside(peers: impl IntoIterator<Item = &'static str>) -> Self {
        Results { peers: peers.into_iter().collect(), rows: Vec::new() }
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
        let heading = ["load", "kept", "", "quire", "beside", "theirs", "ratio"];
        let [load, kept, name, ours, peer, theirs, ratio] = heading;
        writeln!(f, "{load:<28} {kept:<5} {name:<10} {ours:>13}   {peer:<10} {theirs:>13} {ratio:>9}")?;
        for Row { load, durability, rounds } in &self.rows {
            let kept = durability.name();
            for (name, of) in NUMBERS {
                let median = |store| median(rounds.get(store)?.iter().filter_map(of).collect());
                let text = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.0}"));
                let ours = median("quire");
                let of_peers = self.peers.iter().map(|peer| (*peer, median(peer)));
                let mut peers: Vec<_> = of_peers.filter(|(_, theirs)| theirs.is_some()).collect();
                if peers.is_empty() && ours.is_some() {
                    peers.push(("-", None));
                }
                for (peer, theirs) in peers {
                    let ratio = ours.zip(theirs).map_or("-".to_owned(), |(our, their)| format!("{:.3}", our / their));
                    let (ours, theirs) = (text(ours), text(theirs));
                    writeln!(f, "{load:<28} {kept:<5} {name:<10} {ours:>13}   {peer:<10} {theirs:>13} {ratio:>9}")?;
                }
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
    fn the_table_has_the_medians_and_their_ratio_to_each_peer() {
        let mut results = Results::beside(["fjall", "kafka", "redb"]);
        for (store, rate) in [("quire", 10.0), ("kafka", 4.0), ("quire", 90.0), ("quire", 20.0), ("redb", 40.0)] {
            results.add("produce-1", Durability::Os, store, Measured { rate: Some(rate), ..Measured::default() });
        }
        let table = results.to_string();
        let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let row = |peer, theirs, ratio| vec!["produce-1", "os", "per", "second", "20", peer, theirs, ratio];
        assert_eq!(rows, [row("kafka", "4", "5.000"), row("redb", "40", "0.500")]);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
    }
}
