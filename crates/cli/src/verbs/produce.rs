//! `quire produce`: a message to a topic, or one for each line of the input.

use std::io::{self, BufRead, BufReader, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use super::place::Place;
use super::print::{Form, list, word};
use super::topics::commit;
use crate::failure::{Failure, Result};

/// How many lines are in one commit.
const LINES_AT_ONCE: usize = 1_000;

/// More bytes of lines go into a commit only when one line has them: less than a database refuses that the command line makes.
const BYTES_AT_ONCE: usize = 1 << 20;

/// A longer line is not read to its end: no commit of a database that the command line opens, or serves, takes more.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// What `quire produce` takes.
#[derive(Debug, Args)]
pub(crate) struct Produce {
    /// The topic; one that is not there is created with one partition
    topic: String,
    /// The message, as text [default: a message for each line of the standard input, without its end, which is LF or CR LF]
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
                return tell(&[self.part(self.value.as_deref().map(str::as_bytes))]);
            }
            let mut input = Lines::of(io::stdin().lock());
            loop {
                let first = input.number;
                let (lines, more) = input.next();
                if !lines.is_empty() {
                    let parts: Vec<_> = lines.iter().map(|line| self.part(Some(line))).collect();
                    tell(&parts).map_err(|failure| of_lines(failure, first, lines.len()))?;
                }
                if !more? {
                    return Ok(());
                }
            }
        })
    }

    /// The part of a commit that produces this.
    fn part(&self, value: Option<&[u8]>) -> Value {
        let text = value.and_then(|value| str::from_utf8(value).ok());
        // JSON has no other way for what is no text.
        let bytes = value.filter(|_| text.is_none()).map(|value| STANDARD.encode(value));
        let headers = self.header.iter().map(|Header(name, value)| json!({ "key": name, "value": value }));
        json!({ "produce": {
            "topic": self.topic,
            "key": self.key,
            "value_text": text,
            "value_base64": bytes,
            "partition": self.partition,
            "timestamp_ms": self.timestamp_ms,
            "headers": headers.collect::<Vec<_>>(),
        } })
    }
}

/// Lines as they come.
struct Lines<I> {
    input: BufReader<I>,
    /// That of the next line to be given.
    number: usize,
    /// One that was read, and is too large to go with those before it.
    held: Option<Vec<u8>>,
}

impl<I: Read> Lines<I> {
    fn of(input: I) -> Self {
        Lines { input: BufReader::with_capacity(BYTES_AT_ONCE, input), number: 1, held: None }
    }

    /// The lines that have come, at least one unless the input has ended, and whether there may be more: what has come is produced before
    /// more is waited for, and before what can't be read is told.
    fn next(&mut self) -> (Vec<Vec<u8>>, Result<bool>) {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let more = loop {
            let line =
                match self.held.take().map_or_else(|| self.read(self.number + lines.len()), |held| Ok(Some(held))) {
                    Ok(Some(line)) => line,
                    Ok(None) => break Ok(false),
                    Err(failure) => break Err(failure),
                };
            bytes += line.len();
            if bytes > BYTES_AT_ONCE && !lines.is_empty() {
                self.held = Some(line);
                break Ok(true);
            }
            lines.push(line);
            if lines.len() == LINES_AT_ONCE || !self.input.buffer().contains(&b'\n') {
                break Ok(true);
            }
        };
        self.number += lines.len();
        (lines, more)
    }

    /// The line with this number, without its end; `None` when the input has ended.
    fn read(&mut self, number: usize) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.input.by_ref().take(LINE_BYTES_MAX + 2).read_until(b'\n', &mut line);
        if read.map_err(|error| Failure::at("read the standard input", error))? == 0 {
            return Ok(None);
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        match line.len() as u64 > LINE_BYTES_MAX {
            false => Ok(Some(line)),
            true => Err(Failure::new(format!(
                "line {number} has more than {LINE_BYTES_MAX} bytes, and no commit takes more; those before it were produced"
            ))),
        }
    }
}

/// Says which lines they were that were refused.
fn of_lines(failure: Failure, first: usize, count: usize) -> Failure {
    match failure {
        Failure::Message(message) if count == 1 => Failure::new(format!("line {first}: {message}")),
        Failure::Message(message) => Failure::new(format!("lines {first} to {}: {message}", first + count - 1)),
        other => other,
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
        let mut input = Lines::of(Pieces(vec!["first\nsecond\r\nth", "ird\n", "\nlast"].into_iter()));
        let expected = [&["first", "second"][..], &["third"], &[""], &["last"], &[]];
        for lines in expected {
            assert_eq!(input.next().0, lines.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
        }
        assert_eq!(input.number, 6);
    }

    #[test]
    fn a_commit_takes_so_many_lines_or_bytes() {
        let counts = |text: String| {
            let mut input =
                Lines { input: BufReader::with_capacity(text.len(), text.as_bytes()), number: 1, held: None };
            let next = move || Some(input.next().0.len()).filter(|lines| *lines > 0);
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(counts("short\n".repeat(2_500)), [1_000, 1_000, 500]);
        assert_eq!(counts(format!("{}\n", "long".repeat(100_000)).repeat(5)), [2, 2, 1]);
        // A large one is not refused for what stands before it, nor the other way round.
        assert_eq!(counts(format!("short\nshort\n{}\nshort\n", "large".repeat(500_000))), [2, 1, 1]);
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_takes_all_memory() {
        let mut input = Lines::of((&b"first\n"[..]).chain(io::repeat(b'x')));
        assert_eq!(input.next().0, [b"first"]);
        let (lines, more) = input.next();
        let Err(Failure::Message(message)) = more else { panic!("there is no such line") };
        assert!(lines.is_empty() && message.starts_with("line 2 has more than 16777216 bytes"), "{message}");
        let longest = "y".repeat(LINE_BYTES_MAX as usize) + "\r\nlast";
        let mut input = Lines::of(longest.as_bytes());
        assert_eq!(input.next().0[0].len() as u64, LINE_BYTES_MAX);
        assert_eq!(input.next().0, [b"last"]);
    }
}
