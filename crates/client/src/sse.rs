//! Server-sent events (WHATWG HTML, 9.2.6): messages of lines, each of which a blank line ends.

use std::io::{self, BufRead};

/// A whole message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamMessage {
    /// The id that a later request resumes after.
    pub(crate) id: Option<String>,
    /// The name of the event.
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Reads the next message. `None` when the stream has ended; a message without its blank line is
/// incomplete, and is dropped.
pub(crate) fn next_message(stream: &mut impl BufRead) -> io::Result<Option<StreamMessage>> {
    let mut message = StreamMessage::default();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some(line) = line.strip_suffix('\n') else { return Ok(None) };
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            if !message.data.is_empty() {
                return Ok(Some(message));
            }
            message = StreamMessage::default();
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
    use super::*;

    #[test]
    fn messages_end_with_a_blank_line_and_an_incomplete_one_is_dropped() {
        let text = ": alive\n\nevent: event\nid: 7\ndata: {\"a\": 1}\n\r\ndata:x\ndata: y\n\nid: 8\ndata: cut";
        let mut stream = text.as_bytes();
        let mut next = || next_message(&mut stream).expect("bytes are read");
        let message = |id: Option<&str>, name: &str, data: &str| {
            Some(StreamMessage { id: id.map(str::to_owned), name: name.to_owned(), data: data.to_owned() })
        };
        assert_eq!(next(), message(Some("7"), "event", r#"{"a": 1}"#));
        assert_eq!(next(), message(None, "", "x\ny"));
        assert_eq!(next(), None);
    }
}
