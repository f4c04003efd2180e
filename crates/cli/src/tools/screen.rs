//! The contents of `quire top` as lines: totals and rates, latencies, and tables of objects that
//! share the height of the screen.

use crate::text::{nanos, on_one_line};

/// The contents, independent of the size of the screen.
#[derive(Debug, Default)]
pub(super) struct ScreenContents {
    pub(super) title: String,
    /// A condition that the reader must know, such as an unreachable server.
    pub(super) notice: Option<String>,
    pub(super) activities: Vec<Activity>,
    pub(super) interval_ms: u64,
    pub(super) timings: Vec<TimingLine>,
    pub(super) tables: Vec<ObjectTable>,
}

/// A count: its rate and its total.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) name: &'static str,
    pub(super) rate: String,
    pub(super) total: String,
}

/// The latencies of one operation.
#[derive(Debug)]
pub(super) struct TimingLine {
    pub(super) name: &'static str,
    pub(super) count: u64,
    pub(super) mean_ns: u64,
    /// Upper bounds of the median, the 95th and the 99th percentile and the longest.
    pub(super) at_most_ns: [u64; 4],
}

/// The objects of a kind, the most urgent first.
#[derive(Debug)]
pub(super) struct ObjectTable {
    pub(super) kind: &'static str,
    /// The name and the width of each column of numbers.
    pub(super) columns: Vec<(&'static str, usize)>,
    /// The name and the numbers of each object.
    pub(super) rows: Vec<(String, Vec<String>)>,
    /// The number of all objects, also of those without a row.
    pub(super) all: u64,
}

/// A line, without control characters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScreenLine {
    pub(super) text: String,
    pub(super) is_heading: bool,
}

impl ScreenContents {
    /// The lines for a screen: at most `height` lines of at most `width` characters.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<ScreenLine> {
        let mut lines = vec![ScreenLine::heading(self.title.clone())];
        lines.extend(self.notice.iter().map(|notice| ScreenLine::heading(notice.clone())));
        lines.push(ScreenLine::plain(String::new()));
        let row = |name: &str, cell: &dyn Fn(&Activity) -> String| {
            let cells: String = self.activities.iter().map(|activity| format!("{:>11}", cell(activity))).collect();
            format!("{name:<11}{cells}")
        };
        lines.push(ScreenLine::heading(row("", &|activity| activity.name.to_owned())));
        lines.push(ScreenLine::plain(row("per second", &|activity| activity.rate.clone())));
        lines.push(ScreenLine::plain(row("in all", &|activity| activity.total.clone())));
        let interval = format!("{:.1} s", self.interval_ms as f64 / 1e3);
        lines.push(ScreenLine::heading(format!(
            "{:<11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            format!("in {interval}"),
            "count",
            "mean",
            "p50 up to",
            "p95 up to",
            "p99 up to",
            "max up to"
        )));
        lines.extend(self.timings.iter().map(TimingLine::line).map(ScreenLine::plain));
        let space = height.saturating_sub(lines.len() + 2 * self.tables.len());
        let shown = share(space, &self.tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>());
        for (table, shown) in self.tables.iter().zip(shown) {
            lines.push(ScreenLine::plain(String::new()));
            table.add_lines(&mut lines, width, shown);
        }
        lines.truncate(height);
        for line in &mut lines {
            line.text = cut(&on_one_line(&line.text), width);
        }
        lines
    }
}

impl ScreenLine {
    fn heading(text: String) -> Self {
        ScreenLine { text, is_heading: true }
    }

    fn plain(text: String) -> Self {
        ScreenLine { text, is_heading: false }
    }
}

impl TimingLine {
    fn line(&self) -> String {
        let TimingLine { name, count, mean_ns, at_most_ns } = self;
        let shown = |ns: u64| if *count == 0 { "-".to_owned() } else { nanos(ns) };
        let percentiles: String = at_most_ns.iter().map(|ns| format!("{:>11}", shown(*ns))).collect();
        format!("{name:<11}{:>11}{:>11}{percentiles}", compact(*count), shown(*mean_ns))
    }
}

impl ObjectTable {
    fn add_lines(&self, lines: &mut Vec<ScreenLine>, width: usize, shown: usize) {
        let numbers: usize = self.columns.iter().map(|(_, width)| width).sum();
        let name_width = width.saturating_sub(numbers).max(12);
        let title = match self.all {
            0 => format!("no {}", self.kind),
            all if all == shown as u64 => self.kind.to_owned(),
            all => format!("{} ({shown} of {})", self.kind, compact(all)),
        };
        let headings: String = self.columns.iter().map(|(name, width)| format!("{name:>width$}")).collect();
        lines.push(ScreenLine::heading(match self.all {
            0 => title,
            _ => format!("{}{headings}", padded(&title, name_width)),
        }));
        for (name, numbers) in self.rows.iter().take(shown) {
            let cells = self.columns.iter().zip(numbers).map(|((_, width), number)| format!("{number:>width$}"));
            let name = padded(&on_one_line(name), name_width);
            lines.push(ScreenLine::plain(format!("{name}{}", cells.collect::<String>())));
        }
    }
}

/// Divides `space` lines among tables with these numbers of rows, one line to each in turn.
fn share(mut space: usize, rows: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; rows.len()];
    loop {
        let before = space;
        for (share, rows) in shares.iter_mut().zip(rows) {
            if space > 0 && *share < *rows {
                (*share, space) = (*share + 1, space - 1);
            }
        }
        if space == before {
            return shares;
        }
    }
}

/// A text of exactly `width` characters. A longer one ends in `…`.
fn padded(text: &str, width: usize) -> String {
    let text = cut(text, width.saturating_sub(1));
    format!("{text:<width$}")
}

fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A count in at most seven characters: `123,456`, `12.3 M`.
pub(super) fn compact(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_000_000 => crate::text::grouped(count),
        1_000_000..1_000_000_000 => format!("{:.1} M", value / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} G", value / 1e9),
        _ => format!("{:.1} T", value / 1e12),
    }
}

/// An age: `850 ms`, `12 s`, `5 min`, `3.1 h`, `2.0 d`.
pub(super) fn age(ms: u64) -> String {
    let seconds = ms as f64 / 1e3;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{seconds:.0} s"),
        120_000..7_200_000 => format!("{:.0} min", seconds / 60.0),
        7_200_000..172_800_000 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(rows: usize) -> ScreenContents {
        let activity = |name| Activity { name, rate: compact(123_456), total: compact(999_999_999_999) };
        let table = |kind, columns: &[(&'static str, usize)]| ObjectTable {
            kind,
            columns: columns.to_vec(),
            rows: (0..rows)
                .map(|row| (format!("{kind}/{row}{}", "x".repeat(90)), vec!["999,999".to_owned(); columns.len()]))
                .collect(),
            all: rows as u64,
        };
        ScreenContents {
            title: "quire top".to_owned(),
            notice: None,
            activities: ["commits", "entries", "bytes", "refusals", "syncs", "requests"].map(activity).into(),
            interval_ms: 1_000,
            timings: ["commit", "sync", "HTTP"]
                .map(|name| TimingLine { name, count: 12_345_678, mean_ns: 131_250, at_most_ns: [999_999_999; 4] })
                .into(),
            tables: vec![
                table("queues", &[("pending", 9), ("active", 9)]),
                table("topics", &[("messages", 10)]),
                table("groups", &[("lag", 10)]),
            ],
        }
    }

    #[test]
    fn a_screen_of_any_size_is_not_exceeded() {
        for (width, height) in [(80, 24), (132, 50), (40, 10), (10, 3), (1, 1)] {
            for rows in [0, 1, 100] {
                let lines = contents(rows).lines(width, height);
                assert!(lines.len() <= height, "{width}x{height}");
                assert!(lines.iter().all(|line| line.text.chars().count() <= width), "{width}x{height}: {lines:#?}");
            }
        }
    }

    #[test]
    fn each_table_has_rows_at_80_by_24() {
        let lines = contents(100).lines(80, 24);
        assert_eq!(lines.len(), 24);
        for kind in ["queues", "topics", "groups"] {
            let is_row = |line: &&ScreenLine| line.text.starts_with(&format!("{kind}/"));
            assert!(lines.iter().filter(is_row).count() >= 2, "{kind}: {lines:#?}");
            assert!(
                lines.iter().any(|line| line.text.starts_with(&format!("{kind} (")) && line.text.contains("of 100)"))
            );
        }
    }

    #[test]
    fn a_table_gives_the_space_that_it_does_not_need_to_the_others() {
        assert_eq!(share(9, &[100, 1, 100]), [4, 1, 4]);
        assert_eq!(share(9, &[1, 1, 1]), [1, 1, 1]);
        assert_eq!(share(0, &[1]), [0]);
        assert_eq!(share(5, &[]), [0; 0]);
    }

    #[test]
    fn a_name_changes_no_other_line() {
        let mut contents = contents(1);
        contents.tables[0].rows[0].0 = "a\n\u{1b}[2Jb".to_owned();
        let lines = contents.lines(80, 24);
        assert!(lines.iter().any(|line| line.text.starts_with("a\\n\\u{1b}[2Jb ")), "{lines:#?}");
    }

    #[test]
    fn counts_and_ages_are_short() {
        assert_eq!([0, 999_999, 12_345_678, 5_000_000_000].map(compact), ["0", "999,999", "12.3 M", "5.0 G"]);
        let ages = [850, 12_400, 300_000, 11_160_000, 172_800_000].map(age);
        assert_eq!(ages, ["850 ms", "12 s", "5 min", "3.1 h", "2.0 d"]);
    }
}
