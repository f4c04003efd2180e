//! Functions for times and blocks.

use quire::Timestamp;
use quire::graph::BlockId;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Error, Result};

/// A function, for the reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionDescription {
    pub(crate) call: &'static str,
    pub(crate) about: &'static str,
}

pub(crate) const FUNCTIONS: &[FunctionDescription] = &[
    FunctionDescription {
        call: "now_ms()",
        about: "The time at which the statement began, in milliseconds since 1970.",
    },
    FunctionDescription {
        call: "ago_ms(text)",
        about: "The time so long before, for example `ago_ms('90 minutes')`. Units: seconds, minutes, hours, days.",
    },
    FunctionDescription { call: "iso(ms)", about: "A time as text in UTC, for example `2026-11-27T19:00:00.000Z`." },
    FunctionDescription { call: "block_id(name)", about: "The id of the block with a name." },
];

/// Adds the functions to a connection. `now` is the time of the statement.
pub(crate) fn register(connection: &Connection, now: Timestamp) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    connection.create_scalar_function("now_ms", 0, flags, move |_| Ok(now))?;
    connection.create_scalar_function("ago_ms", 1, flags, move |context| {
        let text: Option<String> = context.get(0)?;
        text.map(|text| milliseconds(&text).map(|ago| now.saturating_sub(ago)).map_err(failed)).transpose()
    })?;
    connection.create_scalar_function("iso", 1, flags, |context| {
        let time: Option<i64> = context.get(0)?;
        Ok(time.map(iso))
    })?;
    connection.create_scalar_function("block_id", 1, flags, |context| {
        let name: Option<String> = context.get(0)?;
        Ok(name.map(|name| BlockId::of_name(&name).to_string()))
    })
}

fn failed(message: String) -> Error {
    Error::UserFunctionError(message.into())
}

/// Parses a duration such as `1 hour` or `90 minutes`.
fn milliseconds(text: &str) -> std::result::Result<i64, String> {
    let odd = || format!("ago_ms takes a duration such as '1 hour' or '90 minutes', not {text:?}");
    let trimmed = text.trim();
    let digits = trimmed.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(odd)?;
    let number: i64 = trimmed[..digits].parse().map_err(|_| odd())?;
    let unit = match trimmed[digits..].trim() {
        "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "second" | "seconds" => 1_000,
        "m" | "min" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return Err(odd()),
    };
    number.checked_mul(unit).ok_or_else(odd)
}

/// Returns a time in milliseconds since 1970 as text.
fn iso(time_ms: i64) -> String {
    let (days, within) = (time_ms.div_euclid(86_400_000), time_ms.rem_euclid(86_400_000));
    // The civil calendar in eras of 400 years, which begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, millis) = (within / 1_000, within % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(milliseconds("1 hour"), Ok(3_600_000));
        assert_eq!(milliseconds(" 90minutes "), Ok(5_400_000));
        assert_eq!(milliseconds("2 d"), Ok(172_800_000));
        for odd in ["", "hour", "1", "1 year", "-1 hour", "99999999999999999999 s", "999999999999999 d"] {
            assert!(milliseconds(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(iso(951_868_800_000), "2000-03-01T00:00:00.000Z");
        assert_eq!(iso(1_795_806_000_123), "2026-11-27T19:00:00.123Z");
        assert_eq!(iso(-1), "1969-12-31T23:59:59.999Z");
        iso(i64::MAX);
        iso(i64::MIN);
    }
}
