//! The attribute bits of a batch, and the codec they name.

/// The attribute bits of a batch.
///
/// ```text
/// bit  0..=2 codec · 3 timestamps are append times · 4 transactional · 5 control · 6 has a delete horizon
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes(u16);

impl Attributes {
    /// The attributes of these bits; bits that no one has given a meaning are kept.
    pub const fn from_bits(bits: u16) -> Self {
        Attributes(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// How the records are compressed; `None` for a codec number that no one has given a meaning (5 to 7).
    pub const fn codec(self) -> Option<Codec> {
        match self.codec_number() {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The number of the codec.
    pub(super) const fn codec_number(self) -> u8 {
        (self.0 & 0b111) as u8
    }

    /// Whether every record's time is the batch's max timestamp, the time of its append, instead of the producer's.
    pub const fn is_append_time(self) -> bool {
        self.0 & (1 << 3) != 0
    }

    /// Whether the batch belongs to a transaction.
    pub const fn is_transactional(self) -> bool {
        self.0 & (1 << 4) != 0
    }

    /// Whether the batch is a marker for consumers (commit, abort) instead of data.
    pub const fn is_control(self) -> bool {
        self.0 & (1 << 5) != 0
    }
}

/// How the records of a batch are compressed, all of them together. The numbers are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Not at all.
    None = 0,
    /// gzip.
    Gzip = 1,
    /// Snappy, in the framing of the Java library.
    Snappy = 2,
    /// LZ4 frames.
    Lz4 = 3,
    /// Zstandard.
    Zstd = 4,
}
