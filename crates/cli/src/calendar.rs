//! The Gregorian calendar in UTC.
//!
//! The algorithms are those of Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".

/// Days since 1970-01-01 of a year, month and day.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The year, month and day of a number of days since 1970-01-01.
pub(crate) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// A time in milliseconds since 1970 as RFC 3339: `2013-01-01T10:17:00.250Z`.
pub(crate) fn rfc3339(time_ms: i64) -> String {
    let (year, month, day) = date_of(time_ms.div_euclid(86_400_000));
    let of_day_ms = time_ms.rem_euclid(86_400_000);
    let (hours, minutes) = (of_day_ms / 3_600_000, of_day_ms / 60_000 % 60);
    let (seconds, millis) = (of_day_ms / 1_000 % 60, of_day_ms % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_reads_back_and_follows_the_one_before() {
        let mut expected = (1_600, 1, 1);
        for days in days_of(1_600, 1, 1)..days_of(2_400, 1, 1) {
            let date = date_of(days);
            assert_eq!(date, expected);
            assert_eq!(days_of(date.0, date.1, date.2), days);
            let is_leap = date.0 % 4 == 0 && (date.0 % 100 != 0 || date.0 % 400 == 0);
            let last = match date.1 {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match date {
                (year, 12, 31) => (year + 1, 1, 1),
                (year, month, day) if day == last => (year, month + 1, 1),
                (year, month, day) => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn a_time_is_written_to_the_millisecond() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_357_035_420_250), "2013-01-01T10:17:00.250Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
    }
}
