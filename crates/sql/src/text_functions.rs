//! Functions on texts in linear time, in the place of SQLite's.
//!
//! SQLite checks the bounds of a statement between two of its instructions, and a call of a
//! function is one instruction. Its own `instr`, `replace` and `trim` compare each place of a text
//! with the other argument: two long arguments would take hours. These functions give the same
//! answers.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Mutex;

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Result, ffi};

/// Adds the functions to a connection. A result has at most `bytes_max` bytes.
pub(crate) fn register(connection: &Connection, bytes_max: usize) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    let texts = TextConversion::default();
    connection.create_scalar_function("instr", 2, flags, move |context| instr(context, &texts))?;
    let texts = TextConversion::default();
    connection.create_scalar_function("replace", 3, flags, move |context| replace(context, &texts, bytes_max))?;
    for (name, from_left, from_right) in [("trim", true, true), ("ltrim", true, false), ("rtrim", false, true)] {
        let texts = TextConversion::default();
        connection
            .create_scalar_function(name, 2, flags, move |context| trim(context, &texts, from_left, from_right))?;
    }
    // Its second argument has the characters to skip, and each character is compared with each.
    connection.create_scalar_function("unhex", 2, flags, |_| -> Result<Option<i64>> {
        Err(Error::UserFunctionError("unhex takes one argument here".into()))
    })
}

/// Converts values to text as SQLite does.
#[derive(Default)]
struct TextConversion(Mutex<Option<Connection>>);

impl TextConversion {
    /// The bytes of the text of a value; `None` for `NULL`. A long value is borrowed: a copy is not
    /// within the memory that SQLite may use.
    fn of<'v>(&self, value: ValueRef<'v>) -> Result<Option<Cow<'v, [u8]>>> {
        match value {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number.to_string().into_bytes().into())),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(bytes.into())),
            ValueRef::Real(number) => {
                // Only SQLite knows how it writes a number.
                let mut connection = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let connection = match &mut *connection {
                    Some(connection) => connection,
                    none => none.insert(Connection::open_in_memory()?),
                };
                let mut cast = connection.prepare("SELECT CAST(?1 AS TEXT)")?;
                let text: String = cast.query_row([number], |row| row.get(0))?;
                Ok(Some(text.into_bytes().into()))
            }
        }
    }
}

fn text(bytes: Vec<u8>) -> Value {
    // A blob as text may have other bytes than UTF-8.
    Value::Text(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The place of the second argument in the first one, from 1 on: in bytes between blobs, and else
/// in characters. 0 when it is not there.
fn instr(context: &Context<'_>, texts: &TextConversion) -> Result<Option<i64>> {
    let (value, wanted) = (context.get_raw(0), context.get_raw(1));
    let are_blobs = matches!((value, wanted), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(value), Some(wanted)) = (texts.of(value)?, texts.of(wanted)?) else { return Ok(None) };
    let Some(found) = memmem::find(&value, &wanted) else { return Ok(Some(0)) };
    let before = &value[..found];
    let count = if are_blobs { before.len() } else { before.iter().filter(|byte| **byte & 0xc0 != 0x80).count() };
    Ok(Some(i64::try_from(count).unwrap_or(i64::MAX).saturating_add(1)))
}

/// The first argument with each occurrence of the second one replaced by the third one.
fn replace(context: &Context<'_>, texts: &TextConversion, bytes_max: usize) -> Result<ToSqlOutput<'static>> {
    let null = || Ok(ToSqlOutput::Owned(Value::Null));
    let (value, wanted) = (texts.of(context.get_raw(0))?, texts.of(context.get_raw(1))?);
    let (Some(value), Some(wanted)) = (value, wanted) else { return null() };
    if wanted.first().is_none_or(|first| *first == 0) {
        return Ok(ToSqlOutput::Owned(text(value.into_owned())));
    }
    let Some(with) = texts.of(context.get_raw(2))? else { return null() };
    let finder = memmem::Finder::new(&wanted);
    let count = finder.find_iter(&value).count();
    let bytes = value.len() - count * wanted.len() + count.saturating_mul(with.len());
    if bytes > bytes_max {
        let too_big = ffi::Error::new(ffi::SQLITE_TOOBIG);
        return Err(Error::SqliteFailure(too_big, None));
    }
    let (mut out, mut from) = (Vec::with_capacity(bytes), 0);
    for found in finder.find_iter(&value) {
        out.extend_from_slice(&value[from..found]);
        out.extend_from_slice(&with);
        from = found + wanted.len();
    }
    out.extend_from_slice(&value[from..]);
    Ok(ToSqlOutput::Owned(text(out)))
}

/// The first argument without the characters of the second one at its ends.
fn trim(
    context: &Context<'_>,
    texts: &TextConversion,
    from_left: bool,
    from_right: bool,
) -> Result<ToSqlOutput<'static>> {
    let values = (texts.of(context.get_raw(0))?, texts.of(context.get_raw(1))?);
    let (Some(value), Some(set)) = values else { return Ok(ToSqlOutput::Owned(Value::Null)) };
    let (value, set) = (String::from_utf8_lossy(&value), String::from_utf8_lossy(&set));
    let set: HashSet<char> = set.chars().collect();
    let mut kept = &*value;
    if from_left {
        kept = kept.trim_start_matches(|letter| set.contains(&letter));
    }
    if from_right {
        kept = kept.trim_end_matches(|letter| set.contains(&letter));
    }
    Ok(ToSqlOutput::Owned(Value::Text(kept.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of each type, and texts that overlap, end in the middle of a word and have characters
    /// of several bytes.
    const VALUES: [&str; 19] = [
        "NULL",
        "''",
        "'a'",
        "'aa'",
        "'aaa'",
        "'abcabc'",
        "'ab'",
        "'bc'",
        "'äöä'",
        "'ö'",
        "'日本語'",
        "x''",
        "x'6162'",
        "x'62'",
        "12",
        "1.0",
        "1e20",
        "-0.1",
        "12345678901234567890.5",
    ];

    #[test]
    fn the_answers_are_those_of_sqlite() {
        let usual = Connection::open_in_memory().expect("opened");
        let linear = Connection::open_in_memory().expect("opened");
        register(&linear, 1 << 20).expect("registered");
        let check = |call: &str| {
            let of = |connection: &Connection| -> Value {
                connection.query_row(&format!("SELECT {call}"), [], |row| row.get(0)).expect("a value")
            };
            assert_eq!(of(&linear), of(&usual), "{call}");
        };
        for first in VALUES {
            for second in VALUES {
                for name in ["instr", "trim", "ltrim", "rtrim"] {
                    check(&format!("{name}({first}, {second})"));
                }
                for third in VALUES {
                    check(&format!("replace({first}, {second}, {third})"));
                }
            }
        }
    }

    #[test]
    fn a_result_is_bounded() {
        let connection = Connection::open_in_memory().expect("opened");
        register(&connection, 1_000).expect("registered");
        let length = |with: u32| -> Result<i64> {
            let call = format!("SELECT length(replace('aaaaaaaaaa', 'a', printf('%.*c', {with}, 'b')))");
            connection.query_row(&call, [], |row| row.get(0))
        };
        assert_eq!(length(100).expect("it fits"), 1_000);
        let error = length(101).expect_err("too long");
        assert_eq!(error.sqlite_error_code(), Some(ffi::ErrorCode::TooBig));
    }
}
