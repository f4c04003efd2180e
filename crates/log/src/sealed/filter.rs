//! The filter of a segment's tags: a split block Bloom filter with 12 bits a tag.
//!
//! The filter wrongly passes about 1 of 190 absent tags. The eight bits of a tag lie in one block
//! of 32 bytes, so that a query reads one cache line. A search for an absent tag queries the filter
//! of every segment, and these cache lines dominate its cost.
//!
//! Source: Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007,
//! as specified by Apache Parquet (`BloomFilter.md`). The eight multipliers are from that
//! specification.

use crate::segment::TagHash;

/// The bits of a tag. Measured with 800,000 tags: 10 bits pass 1 in 80, 12 bits 1 in 185, 14 bits 1
/// in 400.
const BITS_A_TAG: usize = 12;

const LANES: usize = 8;

/// The multipliers that select the bit of each word: the upper five bits of the product with the
/// hash.
const MULTIPLIERS: [u32; LANES] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

// An even multiplier would ignore the highest bit of the hash.
const _: () = {
    let mut lane = 0;
    while lane < LANES {
        assert!(MULTIPLIERS[lane] % 2 == 1);
        lane += 1;
    }
};

/// A block, aligned so that it never spans two cache lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct FilterBlock([u32; LANES]);

const BLOCK_BYTES: usize = size_of::<FilterBlock>();
const _: () = assert!(BLOCK_BYTES == LANES * 4 && align_of::<FilterBlock>() == BLOCK_BYTES);

/// See the module. A filter without blocks holds no tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagFilter {
    blocks: Box<[FilterBlock]>,
}

/// The first byte of [`TagFilter::encode`]; the blocks follow.
const SPLIT_BLOCKS: u8 = 3;

impl TagFilter {
    /// The filter of these hashes.
    pub(super) fn of(hashes: &[u64]) -> Self {
        let count = (hashes.len() * BITS_A_TAG).div_ceil(BLOCK_BYTES * 8);
        assert!(count * BLOCK_BYTES * 8 >= hashes.len() * BITS_A_TAG, "{count} blocks for {} tags", hashes.len());
        assert!(u32::try_from(count).is_ok(), "`block_of` multiplies {count} with 32 bits of a hash");
        let mut blocks = vec![FilterBlock([0; LANES]); count].into_boxed_slice();
        for hash in hashes {
            let block = &mut blocks[block_of(*hash, count)].0;
            for (lane, word) in block.iter_mut().enumerate() {
                *word |= 1 << bit_of(*hash, lane);
            }
        }
        TagFilter { blocks }
    }

    #[inline]
    pub(super) fn may_hold(&self, tag: TagHash) -> bool {
        let hash = tag.get();
        let Some(FilterBlock(words)) = self.blocks.get(block_of(hash, self.blocks.len())) else { return false };
        // Computed in registers without branches, so that the filters of several segments are read
        // in parallel.
        let mut all = 1;
        for (lane, word) in words.iter().enumerate() {
            all &= word >> bit_of(hash, lane);
        }
        all & 1 == 1
    }

    /// Prefetches the memory that [`TagFilter::may_hold`] reads. The result has no meaning.
    #[inline]
    pub(super) fn touch(&self, tag: TagHash) -> u32 {
        self.blocks.get(block_of(tag.get(), self.blocks.len())).map_or(0, |block| block.0[0])
    }

    /// Encodes the kind of the filter and its blocks.
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = self.blocks.iter().flat_map(|block| block.0);
        let mut out = Vec::with_capacity(1 + self.bytes());
        out.push(SPLIT_BLOCKS);
        out.extend(words.flat_map(u32::to_le_bytes));
        assert_eq!(out.len(), 1 + self.bytes(), "one byte of kind, and whole blocks");
        out
    }

    /// Decodes the output of [`TagFilter::encode`]; `None` for other bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (blocks, []) = bytes.strip_prefix(&[SPLIT_BLOCKS])?.as_chunks::<BLOCK_BYTES>() else { return None };
        let word = |word: &[u8; 4]| u32::from_le_bytes(*word);
        let block = |bytes: &[u8; BLOCK_BYTES]| {
            let (words, _) = bytes.as_chunks::<4>();
            FilterBlock(std::array::from_fn(|lane| word(&words[lane])))
        };
        Some(TagFilter { blocks: blocks.iter().map(block).collect() })
    }

    /// The bytes of memory that the blocks take.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }
}

/// The block of a hash, from the upper half of the hash, without a division.
#[inline]
fn block_of(hash: u64, count: usize) -> usize {
    let block = (((hash >> 32) * count as u64) >> 32) as usize;
    debug_assert!(block < count.max(1), "block {block} of {count}");
    block
}

/// The bit of a hash in a word, from the lower half of the hash.
#[inline]
fn bit_of(hash: u64, lane: usize) -> u32 {
    (hash as u32).wrapping_mul(MULTIPLIERS[lane]) >> 27
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_model::Tag;

    fn hash(number: u32) -> TagHash {
        TagHash::of(Tag::new(&number.to_le_bytes()), 7)
    }

    #[test]
    fn a_filter_decodes_and_passes_each_of_its_tags() {
        for count in [0, 1, 2, 3, 10, 1000, 1_000_000] {
            let mut hashes: Vec<u64> = (0..count).map(|number| hash(number).get()).collect();
            hashes.sort_unstable();
            let built = TagFilter::of(&hashes);
            let filter = TagFilter::decode(&built.encode()).unwrap();
            assert_eq!(filter, built);
            assert!((0..count).all(|number| filter.may_hold(hash(number))));
            if count > 100 {
                let wrong = (count..2 * count).filter(|number| filter.may_hold(hash(*number))).count();
                // About 5,400 of a million. Small counts vary more.
                let most = if count == 1_000_000 { 6_000 } else { count as usize / 50 };
                assert!(wrong < most, "{wrong} of {count} absent tags pass");
                assert!(filter.bytes() * 8 < count as usize * 13, "{} bytes for {count} tags", filter.bytes());
            }
        }
    }

    #[test]
    fn an_empty_filter_holds_no_tag() {
        assert!((0..1000).all(|number| !TagFilter::of(&[]).may_hold(hash(number))));
    }

    #[test]
    fn a_cut_filter_or_another_kind_does_not_decode() {
        let whole = TagFilter::of(&(0..100).map(|number| hash(number).get()).collect::<Vec<_>>()).encode();
        for cut in [0, 2, 10, whole.len() - 1] {
            assert!(TagFilter::decode(&whole[..cut]).is_none(), "{cut}");
        }
        for kind in [0, 1, 2, 4, 255] {
            assert!(TagFilter::decode(&[&[kind], &whole[1..]].concat()).is_none(), "{kind}");
        }
    }
}
