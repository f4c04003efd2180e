//! The results, and their table: for each load the median of all rounds, Quire's next to each
//! peer's.

use std::collections::BTreeMap;
use std::fmt;

use super::Durability;

/// The result of one load on one broker; a missing number is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measurement {
    /// Messages or events a second.
    pub(super) rate: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) took_ms: Option<f64>,
    pub(super) memory_bytes: Option<f64>,
    /// The bytes of one of them on disk.
    pub(super) disk_bytes: Option<f64>,
}

/// A number of a [`Measurement`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Rate,
    P50,
    P99,
    Millis,
    Bytes,
    DiskBytes,
}

impl Number {
    const ALL: [Number; 6] = [Number::Rate, Number::P50, Number::P99, Number::Millis, Number::Bytes, Number::DiskBytes];

    /// Its name and unit.
    pub(super) fn name(self) -> &'static str {
        match self {
            Number::Rate => "per second",
            Number::P50 => "p50 us",
            Number::P99 => "p99 us",
            Number::Millis => "ms",
            Number::Bytes => "bytes",
            Number::DiskBytes => "disk bytes",
        }
    }

    fn of(self, measured: &Measurement) -> Option<f64> {
        match self {
            Number::Rate => measured.rate,
            Number::P50 => measured.p50_us,
            Number::P99 => measured.p99_us,
            Number::Millis => measured.took_ms,
            Number::Bytes => measured.memory_bytes,
            Number::DiskBytes => measured.disk_bytes,
        }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = Number::ALL.into_iter().filter_map(|number| Some((number.name(), number.of(self)?)));
        numbers.try_for_each(|(name, number)| write!(f, " {number:>11.0} {name}"))
    }
}

/// All results.
#[derive(Debug)]
pub(super) struct Results {
    /// The peers.
    peers: Vec<&'static str>,
    /// In the order of the first results.
    rows: Vec<Row>,
}

/// Adds the result of a load.
#[derive(Debug)]
struct Row {
    load: &'static str,
    durability: Durability,
    /// By broker, the result of each round.
    rounds: BTreeMap<&'static str, Vec<Measurement>>,
}

impl Results {
    /// Creates an empty table.
    pub(super) fn beside(peers: impl IntoIterator<Item = &'static str>) -> Self {
        Results { peers: peers.into_iter().collect(), rows: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        load: &'static str,
        durability: Durability,
        broker: &'static str,
        measured: Measurement,
    ) {
        let known = self.rows.iter().position(|row| (row.load, row.durability) == (load, durability));
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row { load, durability, rounds: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[index].rounds.entry(broker).or_default().push(measured);
    }

    /// The medians of a number over all rounds, Quire's and a peer's.
    pub(super) fn medians(
        &self,
        load: &str,
        durability: Durability,
        number: Number,
        peer: &str,
    ) -> (Option<f64>, Option<f64>) {
        let row = self.rows.iter().find(|row| (row.load, row.durability) == (load, durability));
        row.map_or((None, None), |row| (row.median("quire", number), row.median(peer, number)))
    }
}

impl Row {
    fn median(&self, store: &str, number: Number) -> Option<f64> {
        median(self.rounds.get(store)?.iter().filter_map(|measured| number.of(measured)).collect())
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = ["load", "kept", "", "quire", "beside", "theirs", "ratio"];
        let [load, kept, name, ours, peer, theirs, ratio] = heading;
        writeln!(f, "{load:<28} {kept:<5} {name:<10} {ours:>13}   {peer:<10} {theirs:>13} {ratio:>9}")?;
        for row in &self.rows {
            let (load, kept) = (row.load, row.durability.name());
            for number in Number::ALL {
                let name = number.name();
                let text = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.0}"));
                let ours = row.median("quire", number);
                let of_peers = self.peers.iter().map(|peer| (*peer, row.median(peer, number)));
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
            results.add("produce-1", Durability::Os, store, Measurement { rate: Some(rate), ..Measurement::default() });
        }
        let table = results.to_string();
        let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let row = |peer, theirs, ratio| vec!["produce-1", "os", "per", "second", "20", peer, theirs, ratio];
        assert_eq!(rows, [row("kafka", "4", "5.000"), row("redb", "40", "0.500")]);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
    }
}
