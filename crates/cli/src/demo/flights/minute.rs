//! A minute in UTC: the resolution of the flights.

use std::fmt;

use crate::calendar::{date_of, days_of};

/// Minutes in a day.
pub(super) const DAY: i64 = 24 * 60;

/// Minutes since 1970-01-01T00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Minute(i64);

impl Minute {
    /// Parses `2013-01-01T10:00:00Z`; seconds are dropped.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let mut date = date.splitn(3, '-');
        let mut number = || date.next()?.parse::<i64>().ok();
        let (year, month, day) = (number()?, number()?, number()?);
        let mut time = time.splitn(3, ':');
        let mut number = || time.next()?.parse::<i64>().ok();
        let (hour, minute) = (number()?, number()?);
        let is_a_time = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute);
        is_a_time.then(|| Minute(days_of(year, month, day) * DAY + hour * 60 + minute))
    }

    /// The minute that is `minutes` later; earlier for a negative number.
    pub(super) fn plus(self, minutes: i64) -> Self {
        Minute(self.0 + minutes)
    }

    /// The minute of the day, 0 to 1,439.
    pub(super) fn of_day(self) -> i64 {
        self.0.rem_euclid(DAY)
    }
}

/// As RFC 3339: `2013-01-01T10:17Z`.
impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.0.div_euclid(DAY));
        let of_day = self.of_day();
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}Z", of_day / 60, of_day % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_reads_back_from_its_text() {
        for text in ["1970-01-01T00:00", "2013-01-01T10:17", "2000-02-29T23:59", "1969-12-31T23:59"] {
            let minute = Minute::parse(&format!("{text}:00Z")).expect("a time");
            assert_eq!(minute.to_string(), format!("{text}Z"));
        }
        assert_eq!(Minute::parse("1970-01-02T00:01:00Z"), Some(Minute(DAY + 1)));
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for text in ["", "NA", "2013-01-01", "2013-13-01T00:00:00Z", "2013-01-01T24:00:00Z", "2013-01-01T10:00:00"] {
            assert_eq!(Minute::parse(text), None, "{text}");
        }
    }
}
