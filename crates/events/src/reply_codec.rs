//! The encoding of replies, for the answer that is stored with an idempotency key.

use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::{AppendResult, EventPosition};

const DUPLICATE: u8 = 1;
const POSITIONS: u8 = 2;

impl AppendResult {
    /// Writes the reply.
    pub fn encode(&self, out: &mut Encoder) {
        let duplicate = if self.duplicate { DUPLICATE } else { 0 };
        match (self.first, self.last) {
            (Some(first), Some(last)) => _ = out.u8(duplicate | POSITIONS).varint(first.get()).varint(last.get()),
            _ => _ = out.u8(duplicate),
        }
    }

    /// Reads a reply that [`AppendResult::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a reply.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let flags = from.u8()?;
        if flags & !(DUPLICATE | POSITIONS) != 0 {
            return Err(CodecError { expected: "flags of an append", bytes_left: 0 });
        }
        let duplicate = flags & DUPLICATE != 0;
        if flags & POSITIONS == 0 {
            return Ok(AppendResult { duplicate, ..AppendResult::NOTHING });
        }
        let (first, last) = (EventPosition::new(from.varint()?), EventPosition::new(from.varint()?));
        Ok(AppendResult { first: Some(first), last: Some(last), duplicate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_is_read_as_it_was_written_and_no_part_of_it_is_one() {
        let positions = [Some((EventPosition::new(1), EventPosition::new(1_000))), None];
        for (positions, duplicate) in positions.into_iter().flat_map(|found| [(found, true), (found, false)]) {
            let (first, last) = positions.unzip();
            let reply = AppendResult { first, last, duplicate };
            let mut out = Encoder::new();
            reply.encode(&mut out);
            let mut from = Decoder::new(out.as_slice());
            assert_eq!(AppendResult::decode(&mut from), Ok(reply));
            from.end().expect("nothing is left");
            for length in 0..out.as_slice().len() {
                let cut = AppendResult::decode(&mut Decoder::new(&out.as_slice()[..length]));
                assert!(cut.is_err(), "{reply:?} up to byte {length}");
            }
        }
    }
}
