//! The partition of a key: the same choice as Kafka's own producers make, so embedded producers
//! agree with them.
//!
//! Source: `org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey`
//! of the Java client (MurmurHash2 by Austin Appleby, with Kafka's seed).

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The partition of `key` among `partitions`.
///
/// ```
/// assert_eq!(quire_streams::partition_for_key(b"foobar", 12), 6);
/// ```
///
/// # Panics
/// When `partitions` is 0: every topic has one.
pub fn partition_for_key(key: &[u8], partitions: u32) -> u32 {
    assert!(partitions > 0, "a topic has at least one partition");
    // Kafka makes the signed hash positive by clearing its sign.
    (murmur2(key) & 0x7fff_ffff) % partitions
}

fn murmur2(data: &[u8]) -> u32 {
    // The algorithm's length is a 32-bit number.
    let mut hash = SEED ^ (data.len() as u32);
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        k ^= k >> SHIFT;
        k = k.wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ k;
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    #[test]
    fn keys_hash_as_the_java_client_hashes_them() {
        // `UtilsTest.testMurmur2` of the Java client.
        let vectors: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key) as i32, hash, "{}", key.escape_ascii());
        }
    }
}
