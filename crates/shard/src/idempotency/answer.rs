//! The replies of a commit as bytes: for each model, in the order of its decision, the number of
//! replies as a varint, and each reply.

use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::commands::Replies;
use crate::{events, graph, jobs, streams};

pub(super) fn encode(replies: &Replies, out: &mut Encoder) {
    let Replies { streams, events, jobs, graph, system, drafted: _ } = replies;
    assert!(system.is_empty(), "a change of access takes no idempotency key");
    encode_each(streams, streams::Reply::encode, out);
    encode_each(events, events::AppendResult::encode, out);
    encode_each(jobs, jobs::Reply::encode, out);
    encode_each(graph, graph::Reply::encode, out);
}

/// Reads the replies of `bytes` into `replies`, which are empty.
pub(super) fn decode(bytes: &[u8], replies: &mut Replies) -> Result<(), CodecError> {
    let mut from = Decoder::new(bytes);
    decode_each(&mut from, streams::Reply::decode, &mut replies.streams)?;
    decode_each(&mut from, events::AppendResult::decode, &mut replies.events)?;
    decode_each(&mut from, jobs::Reply::decode, &mut replies.jobs)?;
    decode_each(&mut from, graph::Reply::decode, &mut replies.graph)?;
    from.end()
}

fn encode_each<R>(replies: &[R], encode: fn(&R, &mut Encoder), out: &mut Encoder) {
    out.varint(replies.len() as u64);
    replies.iter().for_each(|reply| encode(reply, out));
}

fn decode_each<R>(
    from: &mut Decoder<'_>,
    decode: fn(&mut Decoder<'_>) -> Result<R, CodecError>,
    replies: &mut Vec<R>,
) -> Result<(), CodecError> {
    for _ in 0..from.varint()? {
        replies.push(decode(from)?);
    }
    Ok(())
}
