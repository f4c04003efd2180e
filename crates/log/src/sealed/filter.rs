//! Which tags a segment may hold: a binary fuse filter, about 9 bits a tag, wrong for 1 tag in 256 that it does not hold.
//!
//! Source: Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters", ACM JEA 2022; the crate `xorf`.

use xorf::{BinaryFuse8, Descriptor, DmaSerializable, Filter as _};

use crate::segment::TagHash;

/// See the module.
#[derive(Debug)]
pub(super) enum Filter {
    /// The segment has no tag.
    Nothing,
    /// Rejects what the segment does not hold.
    Fuse(BinaryFuse8),
    /// No filter could be built of these tags, which is less likely than any damage: every tag may be there.
    Anything,
}

const DESCRIPTOR_BYTES: usize = BinaryFuse8::DESCRIPTOR_LEN;

impl Filter {
    /// The filter of these hashes, none of which is there twice.
    pub(super) fn of(hashes: &[u64]) -> Self {
        if hashes.is_empty() {
            return Filter::Nothing;
        }
        BinaryFuse8::try_from(hashes).map_or(Filter::Anything, Filter::Fuse)
    }

    pub(super) fn may_hold(&self, tag: TagHash) -> bool {
        match self {
            Filter::Nothing => false,
            Filter::Fuse(filter) => filter.contains(&tag.get()),
            Filter::Anything => true,
        }
    }

    /// A kind, and for a fuse filter its descriptor and its fingerprints.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Filter::Nothing => vec![0],
            Filter::Anything => vec![1],
            Filter::Fuse(filter) => {
                let mut out = vec![0; 1 + DESCRIPTOR_BYTES];
                out[0] = 2;
                filter.dma_copy_descriptor_to(&mut out[1..]);
                out.extend_from_slice(filter.dma_fingerprints());
                out
            }
        }
    }

    /// What [`Filter::encode`] wrote; `None` when it can't be.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(Filter::Nothing),
            [1] => Some(Filter::Anything),
            [2, rest @ ..] => {
                let (fixed, fingerprints) = rest.split_first_chunk::<DESCRIPTOR_BYTES>()?;
                let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
                let descriptor = Descriptor {
                    seed: u64::from_le_bytes(fixed[..8].try_into().expect("eight bytes")),
                    segment_length: u32_at(8),
                    segment_length_mask: u32_at(12),
                    segment_count_length: u32_at(16),
                };
                // A lookup reaches up to two segments behind the last that it begins in.
                let reach = u64::from(descriptor.segment_count_length) + 2 * u64::from(descriptor.segment_length);
                let sound = descriptor.segment_length.is_power_of_two()
                    && descriptor.segment_length_mask == descriptor.segment_length - 1
                    && reach <= fingerprints.len() as u64;
                sound.then(|| Filter::Fuse(BinaryFuse8 { descriptor, fingerprints: fingerprints.into() }))
            }
            _ => None,
        }
    }

    /// The memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Filter::Fuse(filter) => filter.fingerprints.len(),
            _ => 0,
        }
    }
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
            let filter = Filter::decode(&Filter::of(&hashes).encode()).unwrap();
            assert!((0..count).all(|number| filter.may_hold(hash(number))));
            if count > 100 {
                let wrong = (count..2 * count).filter(|number| filter.may_hold(hash(*number))).count();
                // One in 256: 3,906 of a million, give or take 62. Of few, the luck of the draw counts more.
                let most = if count == 1_000_000 { 4_300 } else { count as usize / 50 };
                assert!(wrong < most, "{wrong} of {count} pass that should not");
                let bits = if count == 1_000_000 { 10 } else { 16 };
                assert!(filter.bytes() * 8 < count as usize * bits, "{} bytes for {count} tags", filter.bytes());
            }
        }
    }

    #[test]
    fn a_filter_that_reaches_outside_of_itself_is_none() {
        let whole = Filter::of(&(0..100).map(|number| hash(number).get()).collect::<Vec<_>>()).encode();
        for cut in [0, 1, 10, whole.len() - 1] {
            assert!(Filter::decode(&whole[..cut]).is_none());
        }
    }
}
