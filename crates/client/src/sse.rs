//! Server-sent events (WHATWG HTML, 9.2.6): messages of lines, each of which a blank line ends.

use std::io::{BufRead, Read};

/// A whole message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamMessage {
    /// The id that a later request resumes after.
    pub(crate) id: Option<String>,
    /// The name of the event.
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Why there is no next message.
#[derive(Debug)]
pub(crate) enum StreamFault {
    /// The connection is broken.
    Lost,
    /// A server of Quire sends no such line.
    Foreign(String),
}

/// Reads the next message, of up to `bytes_max` bytes. `None` when the stream has ended; a message
/// without its blank line is incomplete, and is dropped.
pub(crate) fn next_message(stream: &mut impl BufRead, bytes_max: u64) -> Result<Option<StreamMessage>, StreamFault> {
    let mut message = StreamMessage::default();
    let mut left = bytes_max;
    loop {
        let mut line = Vec::new();
        // One byte more than is left: it tells a line that is too long from the last one.
        let count = stream.by_ref().take(left.saturating_add(1)).read_until(b'\n', &mut line);
        let count = count.map_err(|_| StreamFault::Lost)? as u64;
        if count > left {
            return Err(StreamFault::Foreign(format!("a message of the stream is longer than {bytes_max} bytes")));
        }
        left -= count;
        let Some(line) = line.strip_suffix(b"\n") else { return Ok(None) };
        let line = str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line));
        let line = line.map_err(|error| StreamFault::Foreign(format!("a line of the stream is not text: {error}")))?;
        if line.is_empty() {
            if !message.data.is_empty() {
                return Ok(Some(message));
            }
            (message, left) = (StreamMessage::default(), bytes_max);
            continue;
        }
        let (field, content) = line.split_once(':').unwrap_or((line, ""));
        let content = content.strip_prefix(' ').unwrap_or(content);
        match field {
            "id" => message.id = Some(content.to_owned()),
            "event" => content.clone_into(&mut message.name),
            "data" => {
                if !message.data.is_empty() {
                    message.data.push('\n');
                }
                message.data.push_str(content);
            }
            // A line that begins with a colon is a comment, which keeps the connection alive.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn messages_end_with_a_blank_line_and_an_incomplete_one_is_dropped() {
        let text = ": alive\n\nevent: event\nid: 7\ndata: {\"a\": 1}\n\r\ndata:x\ndata: y\n\nid: 8\ndata: cut";
        let mut stream = text.as_bytes();
        let mut next = || next_message(&mut stream, 100).expect("bytes are read");
        let message = |id: Option<&str>, name: &str, data: &str| {
            Some(StreamMessage { id: id.map(str::to_owned), name: name.to_owned(), data: data.to_owned() })
        };
        assert_eq!(next(), message(Some("7"), "event", r#"{"a": 1}"#));
        assert_eq!(next(), message(None, "", "x\ny"));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_message_is_bounded_in_its_lines_and_in_all_and_is_text() {
        let endless = || BufReader::new(std::io::repeat(b'x'));
        let lines = || BufReader::new(&b"data: x\n"[..]).chain(&b"data: x\ndata: x\n\n"[..]);
        let fault = |found: Result<Option<StreamMessage>, StreamFault>| match found {
            Err(StreamFault::Foreign(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(fault(next_message(&mut endless(), 100)).contains("longer than 100 bytes"));
        assert!(fault(next_message(&mut lines(), 24)).contains("longer than 24 bytes"));
        assert_eq!(next_message(&mut lines(), 25).expect("it fits").expect("a message").data, "x\nx\nx");
        assert!(fault(next_message(&mut &b"data: \xff\n\n"[..], 100)).contains("not text"));
        // Comments are no part of a message.
        let alive = ": alive\n\n".repeat(100) + "data: x\n\n";
        assert_eq!(next_message(&mut alive.as_bytes(), 10).expect("it fits").expect("a message").data, "x");
    }
}
