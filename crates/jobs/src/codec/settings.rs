//! The settings of a queue as bytes, in entries and checkpoints.
//!
//! ```text
//! flags u8: 1 paused · 2 draining · 4 retention
//! jobs max │ active max │ group active max     varint: 0 none, else the limit
//! rate │ group rate                           0 none │ 1 bucket · count varint · per varint · burst varint │ 2 window · count varint · window varint
//! [retention varint]
//! ```

use quire_model::codec::{CodecError, Decoder, Encoder};

use super::fields::expected;
use crate::{QueueSettings, Rate};

pub(crate) fn write(settings: &QueueSettings, out: &mut Encoder) {
    let QueueSettings { paused, draining, jobs_max, active_max, group_active_max, rate, group_rate, retention_micros } =
        *settings;
    out.u8(u8::from(paused) | u8::from(draining) << 1 | u8::from(retention_micros.is_some()) << 2);
    for most in [jobs_max, active_max, group_active_max] {
        out.varint(most.map_or(0, u64::from));
    }
    for rate in [rate, group_rate] {
        match rate {
            None => out.u8(0),
            Some(Rate::TokenBucket { count, per_micros, burst }) => {
                out.u8(1).varint(u64::from(count)).varint(per_micros).varint(u64::from(burst))
            }
            Some(Rate::SlidingWindow { count, window_micros }) => {
                out.u8(2).varint(u64::from(count)).varint(window_micros)
            }
        };
    }
    retention_micros.iter().for_each(|micros| {
        out.varint(*micros);
    });
}

pub(crate) fn read(from: &mut Decoder<'_>) -> Result<QueueSettings, CodecError> {
    let flags = from.u8()?;
    let limit = |from: &mut Decoder<'_>| Ok::<_, CodecError>(Some(from.varint_u32()?).filter(|most| *most > 0));
    Ok(QueueSettings {
        paused: flags & 1 != 0,
        draining: flags & 2 != 0,
        jobs_max: limit(from)?,
        active_max: limit(from)?,
        group_active_max: limit(from)?,
        rate: read_rate(from)?,
        group_rate: read_rate(from)?,
        retention_micros: if flags & 4 != 0 { Some(from.varint()?) } else { None },
    })
}

fn read_rate(from: &mut Decoder<'_>) -> Result<Option<Rate>, CodecError> {
    let rate = match from.u8()? {
        0 => return Ok(None),
        1 => Rate::TokenBucket { count: from.varint_u32()?, per_micros: from.varint()?, burst: from.varint_u32()? },
        2 => Rate::SlidingWindow { count: from.varint_u32()?, window_micros: from.varint()? },
        _ => return Err(expected("a rate that this version knows")),
    };
    let counts = match rate {
        Rate::TokenBucket { count, per_micros, burst } => count > 0 && per_micros > 0 && burst > 0,
        Rate::SlidingWindow { count, window_micros } => count > 0 && window_micros > 0,
    };
    if counts { Ok(Some(rate)) } else { Err(expected("a rate without a zero")) }
}
