//! `quire produce`: a message to a topic, or one for each line of the input.

use std::io::{self, BufRead, BufReader, Read, Write};

use clap::Args;
use serde_json::{Value, json};

use super::place::Place;
use super::print::{Form, list, word};
use super::topics::commit;
use crate::failure::{Failure, Result};

/// How many lines are in one commit.
const LINES_AT_ONCE: usize = 1_000;

/// From so many bytes on a commit takes no more lines: less than any database refuses.
const BYTES_AT_ONCE: usize = 1 << 20;

/// What `quire produce` takes.
#[derive(Debug, Args)]
pub(crate) struct Produce {
    /// The topic; one that is not there is created with one partition
    topic: String,
    /// The message, as text [default: a message for each line of the standard input]
    value: Option<String>,
    /// The key, as text: messages of one key go to one partition
    #[arg(long)]
    key: Option<String>,
    /// No value: in a topic that compacts, it tells that the key is gone
    #[arg(long, conflicts_with = "value", requires = "key")]
    tombstone: bool,
    /// The partition [default: that of the key]
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// A header; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<Header>,
    /// The time of the message, in milliseconds since 1970 [default: now]
    #[arg(long, value_name = "MS")]
    timestamp_ms: Option<i64>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// A header's name and value.
#[derive(Debug, Clone)]
struct Header(String, String);

fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text.split_once('=').ok_or("there is no =: NAME=VALUE")?;
    Ok(Header(name.to_owned(), value.to_owned()))
}

impl Produce {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let mut tell = |parts: &[Value]| {
                let answer = commit(client, parts)?;
                let produced: Vec<Value> =
                    list(&answer, "replies").iter().map(|reply| reply["produced"].clone()).collect();
                self.form.print(out, &produced, |produced| {
                    let [partition, offset] = ["partition", "offset"].map(|name| word(produced, name));
                    format!("{}, partition {partition}, offset {offset}", self.topic)
                })
            };
            if self.value.is_some() || self.tombstone {
                return tell(&[self.part(self.value.as_deref())]);
            }
            let mut input = BufReader::with_capacity(BYTES_AT_ONCE, io::stdin().lock());
            loop {
                let lines = next_lines(&mut input).map_err(|error| Failure::at("read the standard input", error))?;
                if lines.is_empty() {
                    return Ok(());
                }
                tell(&lines.iter().map(|line| self.part(Some(line))).collect::<Vec<_>>())?;
            }
        })
    }

    /// The part of a commit that produces this.
    fn part(&self, value: Option<&str>) -> Value {
        let headers = self.header.iter().map(|Header(name, value)| json!({ "key": name, "value": value }));
        json!({ "produce": {
            "topic": self.topic,
            "key": self.key,
            "value_text": value,
            "partition": self.partition,
            "timestamp_ms": self.timestamp_ms,
            "headers": headers.collect::<Vec<_>>(),
        } })
    }
}

/// The lines that have come, at least one, unless the input has ended: what has come is produced before more is waited for.
fn next_lines(input: &mut BufReader<impl Read>) -> io::Result<Vec<String>> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(lines);
        }
        bytes += line.len();
        let line = line.strip_suffix('\n').map_or(&*line, |line| line.strip_suffix('\r').unwrap_or(line));
        lines.push(line.to_owned());
        if lines.len() == LINES_AT_ONCE || bytes >= BYTES_AT_ONCE || !input.buffer().contains(&b'\n') {
            return Ok(lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes in pieces, with waiting in between.
    struct Pieces(std::vec::IntoIter<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.next().unwrap_or_default().as_bytes();
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn lines_are_produced_as_they_come() {
        let pieces = vec!["first\nsecond\r\nth", "ird\n", "\nlast"].into_iter();
        let mut input = BufReader::new(Pieces(pieces));
        let mut next = || next_lines(&mut input).expect("read");
        assert_eq!(
            [next(), next(), next(), next(), next()],
            [&["first", "second"][..], &["third"], &[""], &["last"], &[]]
        );
    }

    #[test]
    fn a_commit_takes_so_many_lines_or_bytes() {
        let counts = |line: &str, lines: usize| {
            let text = format!("{line}\n").repeat(lines);
            let mut input = BufReader::with_capacity(text.len(), text.as_bytes());
            std::iter::from_fn(move || Some(next_lines(&mut input).expect("read").len()).filter(|lines| *lines > 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts("short", 2_500), [1_000, 1_000, 500]);
        assert_eq!(counts(&"long".repeat(100_000), 5), [3, 2]);
    }
}
