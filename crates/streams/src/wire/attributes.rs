//! The attribute bits of a batch, and the codec they name.

use core::fmt;

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

    /// Returns the codec of the records; `None` for a number without a codec (5 to 7).
    pub const fn codec(self) -> Option<Codec> {
        Codec::of_number(self.codec_number())
    }

    /// The same attributes with another codec.
    pub const fn with_codec(self, codec: Codec) -> Self {
        Attributes(self.0 & !0b111 | codec as u16)
    }

    /// The number of the codec.
    pub(super) const fn codec_number(self) -> u8 {
        (self.0 & 0b111) as u8
    }

    /// Whether every record's time is the batch's max timestamp, the time of its append, instead of
    /// the producer's.
    pub const fn is_append_time(self) -> bool {
        self.0 & (1 << 3) != 0
    }

    /// The same attributes with append times.
    pub const fn with_append_time(self) -> Self {
        Attributes(self.0 | (1 << 3))
    }

    /// Whether the batch belongs to a transaction.
    pub const fn is_transactional(self) -> bool {
        self.0 & (1 << 4) != 0
    }

    /// Whether the batch's base timestamp is the time from which its records without a value may be
    /// removed ([KIP-534]).
    ///
    /// [KIP-534]:
    /// https://cwiki.apache.org/confluence/display/KAFKA/KIP-534%3A+Retain+tombstones+and+transaction+markers+for+approximately+delete.retention.ms+milliseconds
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON != 0
    }

    /// The same attributes with a delete horizon.
    pub const fn with_delete_horizon(self) -> Self {
        Attributes(self.0 | DELETE_HORIZON)
    }

    /// Whether the batch is a marker for consumers (commit, abort) instead of data.
    pub const fn is_control(self) -> bool {
        self.0 & (1 << 5) != 0
    }
}

const DELETE_HORIZON: u16 = 1 << 6;

/// The compression of all records of a batch together. The numbers are Kafka's.
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

impl Codec {
    /// All there are, in the order of their numbers.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The codec with this number.
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The codec with this name, which is that of Kafka's settings.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Codec::None),
            "gzip" => Some(Codec::Gzip),
            "snappy" => Some(Codec::Snappy),
            "lz4" => Some(Codec::Lz4),
            "zstd" => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The most bytes that one compressed byte can expand to: the bound of the format, which no
    /// compressor exceeds.
    ///
    /// | codec | | from |
    /// |---|---|---|
    /// | gzip | 1032 | RFC 1951: a match of 258 bytes takes two codes, of a bit each at least |
    /// | Snappy | 22 | its `format_description.txt`: a copy of 64 bytes takes 3 |
    /// | LZ4 | 255 | its `lz4_Block_format.md`: a byte makes a match at most 255 longer |
    /// | Zstandard | 32768 | RFC 8878, 3.1.1.2: a block of 128 KiB, the most, takes 4 bytes when it repeats one byte |
    pub(super) const fn bytes_per_byte_max(self) -> usize {
        match self {
            Codec::None => 1,
            Codec::Gzip => 1032,
            Codec::Snappy => 22,
            Codec::Lz4 => 255,
            Codec::Zstd => 32_768,
        }
    }
}

/// The name that Kafka's settings have for it.
impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        })
    }
}
