//! Which tags a segment may hold: a split block Bloom filter, 12 bits a tag, wrong for about 1 tag in 190 that it does not hold.
//!
//! The eight bits that stand for a tag are in one block of 32 bytes, so that to ask takes one line of memory: a walk along a tag that is
//! nowhere asks every segment of the log, and that is what it waits for.
//!
//! Source: Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007, in the form of the specification of
//! Apache Parquet (`BloomFilter.md`), of which the eight multipliers are.

use crate::segment::TagHash;

/// How many bits a tag takes. Measured with 800,000 tags: 10 let 1 in 80 pass, 12 1 in 185, 14 1 in 400.
const BITS_A_TAG: usize = 12;

const LANES: usize = 8;

/// Which bit of each of the eight words stands for a tag: the upper five bits of its hash times this.
const MULTIPLIERS: [u32; LANES] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// Never across two lines of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct Block([u32; LANES]);

const BLOCK_BYTES: usize = size_of::<Block>();
const _: () = assert!(BLOCK_BYTES == LANES * 4);

/// See the module. Without blocks it holds nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    blocks: Box<[Block]>,
}

/// What [`Filter::encode`] begins with: the blocks follow.
const SPLIT_BLOCKS: u8 = 3;

impl Filter {
    /// The filter of these hashes.
    pub(super) fn of(hashes: &[u64]) -> Self {
        let count = (hashes.len() * BITS_A_TAG).div_ceil(BLOCK_BYTES * 8);
        let mut blocks = vec![Block([0; LANES]); count].into_boxed_slice();
        for hash in hashes {
            let block = &mut blocks[block_of(*hash, count)].0;
            for (lane, word) in block.iter_mut().enumerate() {
                *word |= 1 << bit_of(*hash, lane);
            }
        }
        Filter { blocks }
    }

    #[inline]
    pub(super) fn may_hold(&self, tag: TagHash) -> bool {
        let hash = tag.get();
        let Some(Block(words)) = self.blocks.get(block_of(hash, self.blocks.len())) else { return false };
        // In registers, and without a branch in between: so the filters of many segments are looked at side by side.
        let mut all = 1;
        for (lane, word) in words.iter().enumerate() {
            all &= word >> bit_of(hash, lane);
        }
        all & 1 == 1
    }

    /// Has the processor fetch what [`Filter::may_hold`] looks at; what it gives means nothing.
    #[inline]
    pub(super) fn touch(&self, tag: TagHash) -> u32 {
        self.blocks.get(block_of(tag.get(), self.blocks.len())).map_or(0, |block| block.0[0])
    }

    /// Its kind, and the blocks.
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = self.blocks.iter().flat_map(|block| block.0);
        let mut out = Vec::with_capacity(1 + self.bytes());
        out.push(SPLIT_BLOCKS);
        out.extend(words.flat_map(u32::to_le_bytes));
        out
    }

    /// What [`Filter::encode`] wrote; `None` when it can't be.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (blocks, []) = bytes.strip_prefix(&[SPLIT_BLOCKS])?.as_chunks::<BLOCK_BYTES>() else { return None };
        let word = |word: &[u8; 4]| u32::from_le_bytes(*word);
        let block = |bytes: &[u8; BLOCK_BYTES]| {
            let (words, _) = bytes.as_chunks::<4>();
            Block(std::array::from_fn(|lane| word(&words[lane])))
        };
        Some(Filter { blocks: blocks.iter().map(block).collect() })
    }

    /// The memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }
}

/// By the upper half of the hash, without a division.
#[inline]
fn block_of(hash: u64, count: usize) -> usize {
    (((hash >> 32) * count as u64) >> 32) as usize
}

/// By the lower half of the hash.
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
    fn a_filter_comes_back_and_passes_every_tag_it_was_made_of() {
        for count in [0, 1, 2, 3, 10, 1000, 1_000_000] {
            let mut hashes: Vec<u64> = (0..count).map(|number| hash(number).get()).collect();
            hashes.sort_unstable();
            let made = Filter::of(&hashes);
            let filter = Filter::decode(&made.encode()).unwrap();
            assert_eq!(filter, made);
            assert!((0..count).all(|number| filter.may_hold(hash(number))));
            if count > 100 {
                let wrong = (count..2 * count).filter(|number| filter.may_hold(hash(*number))).count();
                // About 5,400 of a million. Of few, the luck of the draw counts more.
                let most = if count == 1_000_000 { 6_000 } else { count as usize / 50 };
                assert!(wrong < most, "{wrong} of {count} pass that should not");
                assert!(filter.bytes() * 8 < count as usize * 13, "{} bytes for {count} tags", filter.bytes());
            }
        }
    }

    #[test]
    fn the_filter_of_nothing_holds_nothing() {
        assert!((0..1000).all(|number| !Filter::of(&[]).may_hold(hash(number))));
    }

    #[test]
    fn a_filter_that_is_cut_or_of_another_kind_is_none() {
        let whole = Filter::of(&(0..100).map(|number| hash(number).get()).collect::<Vec<_>>()).encode();
        for cut in [0, 2, 10, whole.len() - 1] {
            assert!(Filter::decode(&whole[..cut]).is_none(), "{cut}");
        }
        for kind in [0, 1, 2, 4, 255] {
            assert!(Filter::decode(&[&[kind], &whole[1..]].concat()).is_none(), "{kind}");
        }
    }
}
