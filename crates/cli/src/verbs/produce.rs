//! `quire produce`: one message, or one for each line of standard input.

use std::io::{self, BufRead, BufReader, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use super::topics::commit;
use crate::failure::{CommandError, Result};

/// Lines per commit.
const LINES_AT_ONCE: usize = 1_000;

/// Largest number of bytes per commit, except for a single larger line. It is less than the limit
/// of a database that the command opens.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Longest line that is read to its end. No commit of a database that the command opens or serves
/// takes more.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Arguments of `quire produce`.
#[derive(Debug, Args)]
pub(crate) struct Produce {
    /// The topic; created with one partition when it does not exist
    topic: String,
    /// The message, as text [default: one message for each line of standard input, without the LF
    /// or CR LF]
    value: Option<String>,
    /// The key, as text; messages with the same key go to the same partition
    #[arg(long)]
    key: Option<String>,
    /// Produce a tombstone: a compacted topic then drops the key
    #[arg(long, conflicts_with = "value", requires = "key")]
    tombstone: bool,
    /// The partition [default: chosen by the key]
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// A header; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<Header>,
    /// The time of the message, in milliseconds since 1970 [default: now]
    #[arg(long, value_name = "MS")]
    timestamp_ms: Option<i64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The name and value of a header.
#[derive(Debug, Clone)]
struct Header(String, String);

fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text.split_once('=').ok_or("the = is missing: expected NAME=VALUE")?;
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
            let mut input = LineReader::of(io::stdin().lock());
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

    /// The part of a commit that produces this message.
    fn part(&self, value: Option<&[u8]>) -> Value {
        let text = value.and_then(|value| str::from_utf8(value).ok());
        // JSON has no other form for bytes that are not text.
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

/// Lines as they arrive.
struct LineReader<I> {
    input: BufReader<I>,
    /// The number of the next line.
    number: usize,
    /// A line that was read and is too large for the current commit.
    held: Option<Vec<u8>>,
}

impl<I: Read> LineReader<I> {
    fn of(input: I) -> Self {
        LineReader { input: BufReader::with_capacity(BYTES_AT_ONCE, input), number: 1, held: None }
    }

    /// Returns the lines that have arrived, and whether more can follow. It returns at least one
    /// line unless the input has ended. Lines that have arrived are produced before the command
    /// waits for more, and before it reports a line that can't be read.
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

    /// Reads a line, without its end. Returns `None` when the input has ended.
    fn read(&mut self, number: usize) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.input.by_ref().take(LINE_BYTES_MAX + 2).read_until(b'\n', &mut line);
        if read.map_err(|error| CommandError::at("read the standard input", error))? == 0 {
            return Ok(None);
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        match line.len() as u64 > LINE_BYTES_MAX {
            false => Ok(Some(line)),
            true => Err(CommandError::new(format!(
                "line {number} has more than {LINE_BYTES_MAX} bytes, and no commit takes more; those before it were produced"
            ))),
        }
    }
}

/// Adds the numbers of the refused lines to a message.
fn of_lines(failure: CommandError, first: usize, count: usize) -> CommandError {
    match failure {
        CommandError::Message(message) if count == 1 => CommandError::new(format!("line {first}: {message}")),
        CommandError::Message(message) => {
            CommandError::new(format!("lines {first} to {}: {message}", first + count - 1))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that arrives in pieces.
    struct Pieces(std::vec::IntoIter<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.next().unwrap_or_default().as_bytes();
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn lines_are_produced_as_they_arrive() {
        let mut input = LineReader::of(Pieces(vec!["first\nsecond\r\nth", "ird\n", "\nlast"].into_iter()));
        let expected = [&["first", "second"][..], &["third"], &[""], &["last"], &[]];
        for lines in expected {
            assert_eq!(input.next().0, lines.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
        }
        assert_eq!(input.number, 6);
    }

    #[test]
    fn a_commit_holds_a_bounded_number_of_lines_and_bytes() {
        let counts = |text: String| {
            let mut input =
                LineReader { input: BufReader::with_capacity(text.len(), text.as_bytes()), number: 1, held: None };
            let next = move || Some(input.next().0.len()).filter(|lines| *lines > 0);
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(counts("short\n".repeat(2_500)), [1_000, 1_000, 500]);
        assert_eq!(counts(format!("{}\n", "long".repeat(100_000)).repeat(5)), [2, 2, 1]);
        // A large line does not cause the refusal of its neighbours.
        assert_eq!(counts(format!("short\nshort\n{}\nshort\n", "large".repeat(500_000))), [2, 1, 1]);
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_takes_all_memory() {
        let mut input = LineReader::of((&b"first\n"[..]).chain(io::repeat(b'x')));
        assert_eq!(input.next().0, [b"first"]);
        let (lines, more) = input.next();
        let Err(CommandError::Message(message)) = more else { panic!("there is no such line") };
        assert!(lines.is_empty() && message.starts_with("line 2 has more than 16777216 bytes"), "{message}");
        let longest = "y".repeat(LINE_BYTES_MAX as usize) + "\r\nlast";
        let mut input = LineReader::of(longest.as_bytes());
        assert_eq!(input.next().0[0].len() as u64, LINE_BYTES_MAX);
        assert_eq!(input.next().0, [b"last"]);
    }
}
