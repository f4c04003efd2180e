//! The encoding of replies: a number for the kind, and its fields. The answer that is stored with
//! an idempotency key consists of such replies. Numbers are never reused.

use quire_model::Position;
use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::command::Reply;
use crate::{BlockId, Version};

impl Reply {
    /// Writes the reply.
    pub fn encode(&self, out: &mut Encoder) {
        match self {
            Reply::BlockPut { block, version, created } => {
                out.u8(1).raw(block.as_bytes()).varint(version.get()).u8((*created).into());
            }
            Reply::BlockDeleted { block, version } => _ = out.u8(2).raw(block.as_bytes()).varint(version.get()),
            Reply::EdgePut { created } => _ = out.u8(3).u8((*created).into()),
            Reply::EdgeDeleted { existed } => _ = out.u8(4).u8((*existed).into()),
            Reply::EdgesDeleted { count, is_more } => _ = out.u8(5).varint(*count as u64).u8((*is_more).into()),
            Reply::RetentionSet => _ = out.u8(6),
            Reply::HistoryTrimmed { from } => _ = out.u8(7).varint(from.get()),
        }
    }

    /// Reads a reply that [`Reply::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a reply.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(match from.u8()? {
            1 => {
                let (block, version) = (block(from)?, Version::new(from.varint()?));
                Reply::BlockPut { block, version, created: flag(from)? }
            }
            2 => Reply::BlockDeleted { block: block(from)?, version: Version::new(from.varint()?) },
            3 => Reply::EdgePut { created: flag(from)? },
            4 => Reply::EdgeDeleted { existed: flag(from)? },
            5 => {
                let count = usize::try_from(from.varint()?).map_err(|_| expected("a count"))?;
                Reply::EdgesDeleted { count, is_more: flag(from)? }
            }
            6 => Reply::RetentionSet,
            7 => Reply::HistoryTrimmed { from: Position::new(from.varint()?) },
            _ => return Err(expected("a reply of graphs")),
        })
    }
}

fn block(from: &mut Decoder<'_>) -> Result<BlockId, CodecError> {
    let bytes = from.raw(16)?;
    Ok(BlockId::new(bytes.try_into().expect("sixteen bytes")))
}

fn flag(from: &mut Decoder<'_>) -> Result<bool, CodecError> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(expected("0 or 1")),
    }
}

const fn expected(expected: &'static str) -> CodecError {
    CodecError { expected, bytes_left: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_is_read_as_it_was_written_and_no_part_of_it_is_one() {
        let (block, version) = (BlockId::of_name("EWR"), Version::new(300));
        let replies = [
            Reply::BlockPut { block, version, created: true },
            Reply::BlockPut { block, version, created: false },
            Reply::BlockDeleted { block, version: Version::ABSENT },
            Reply::EdgePut { created: true },
            Reply::EdgeDeleted { existed: false },
            Reply::EdgesDeleted { count: 10_000, is_more: true },
            Reply::RetentionSet,
            Reply::HistoryTrimmed { from: Position::new(1 << 40) },
        ];
        for reply in replies {
            let mut out = Encoder::new();
            reply.encode(&mut out);
            let mut from = Decoder::new(out.as_slice());
            assert_eq!(Reply::decode(&mut from), Ok(reply));
            from.end().expect("nothing is left");
            for length in 0..out.as_slice().len() {
                let cut = Reply::decode(&mut Decoder::new(&out.as_slice()[..length]));
                assert!(cut.is_err(), "{reply:?} up to byte {length}");
            }
        }
    }
}
