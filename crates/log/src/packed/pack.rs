//! Packing the image of a compacted segment.

use std::ops::Range;

use zstd::bulk::Compressor;

use super::table::encode;
use super::{FRAME_BYTES, LEVEL, is_worth};
use crate::checksum::crc32c;
use crate::record::{HEADER_BYTES, RecordHeader};
use crate::segment::{COMPACTED_HEADER_BYTES, PackedImage, SegmentHeader};

/// Most bytes of a dictionary. A larger one saves nothing further (docs/decisions/0020), and
/// compression searches all of it for each frame.
const DICTIONARY_BYTES_MAX: usize = 4 << 10;

/// Bytes of records that train a dictionary: Zstandard's manual asks for 100 times its size.
const TRAINED_BYTES: usize = 100 * DICTIONARY_BYTES_MAX;

/// Longest average record for which a dictionary is tried. A frame holds too few longer records for
/// them to be similar.
const DICTIONARY_RECORD_BYTES_MAX: usize = 2 << 10;

/// Fewest frames for which a dictionary is tried, because the dictionary itself takes space.
const DICTIONARY_FRAMES_MIN: usize = 16;

const _: () = assert!(FRAME_BYTES >= DICTIONARY_BYTES_MAX && DICTIONARY_RECORD_BYTES_MAX < FRAME_BYTES);

/// Packs the image of a compacted segment into a file. Returns `None` when packing saves too
/// little.
pub(crate) fn pack(image: &[u8], of: &SegmentHeader) -> Option<Vec<u8>> {
    assert!(image.len() >= COMPACTED_HEADER_BYTES, "an image begins with its header");
    let (frames, records) = frames(image);
    let bytes_max = image.len();
    let mut packed = with_dictionary(image, of, &frames, &[], bytes_max)?;
    let records_bytes = image.len() - COMPACTED_HEADER_BYTES;
    let is_small = records_bytes <= records.len() * DICTIONARY_RECORD_BYTES_MAX;
    if is_small
        && frames.len() >= DICTIONARY_FRAMES_MIN
        && let Some(dictionary) = trained(image, &records)
        && let Some(smaller) = with_dictionary(image, of, &frames, &dictionary, packed.len() - 1)
    {
        packed = smaller;
    }
    assert!(packed.len() <= image.len(), "{} bytes packed into {}", image.len(), packed.len());
    is_worth(image.len() as u64, packed.len() as u64).then_some(packed)
}

/// Divides an image into frames. Returns the ranges of the frames and of the records.
fn frames(image: &[u8]) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let (mut frames, mut records): (Vec<Range<usize>>, _) = (Vec::new(), Vec::new());
    let (mut begin, mut at) = (COMPACTED_HEADER_BYTES, COMPACTED_HEADER_BYTES);
    while at + HEADER_BYTES <= image.len() {
        let end = at + RecordHeader::read(&image[at..]).length as usize;
        if end - begin > FRAME_BYTES && begin < at {
            frames.push(begin..at);
            begin = at;
        }
        records.push(at..end);
        at = end;
    }
    assert_eq!(at, image.len(), "records follow each other up to the end of the image");
    frames.push(begin..at);
    debug_assert!(frames.windows(2).all(|pair| pair[0].end == pair[1].start), "frames follow each other");
    (frames, records)
}

/// Returns the file with its frames compressed with `dictionary`. Returns `None` when the file
/// would exceed `bytes_max`.
fn with_dictionary(
    image: &[u8],
    of: &SegmentHeader,
    frames: &[Range<usize>],
    dictionary: &[u8],
    bytes_max: usize,
) -> Option<Vec<u8>> {
    let mut compressor = Compressor::with_dictionary(LEVEL, dictionary).ok()?;
    let mut stored = Vec::with_capacity(image.len() / 2);
    let mut lengths = Vec::with_capacity(frames.len());
    for frame in frames {
        let plain = &image[frame.clone()];
        let compressed = compressor.compress(plain).ok().filter(|compressed| compressed.len() < plain.len());
        let bytes = compressed.as_deref().unwrap_or(plain);
        lengths.push((plain.len(), bytes.len(), crc32c(bytes)));
        stored.extend_from_slice(bytes);
        if stored.len() > bytes_max {
            return None;
        }
    }
    let table = encode(&lengths, dictionary);
    let bytes = COMPACTED_HEADER_BYTES + table.len() + dictionary.len() + stored.len();
    if bytes > bytes_max {
        return None;
    }
    let image = PackedImage { bytes: u32::try_from(image.len()).ok()?, table: crc32c(&table) };
    let header = of.packed_as(bytes as u64, image);
    let file = [&header[..], &table, dictionary, &stored].concat();
    assert_eq!(file.len(), bytes, "the header states the length of the file");
    Some(file)
}

/// Trains a dictionary with records spread over the image. Returns `None` when training fails.
fn trained(image: &[u8], records: &[Range<usize>]) -> Option<Vec<u8>> {
    let every = (image.len() / TRAINED_BYTES).max(1);
    let samples: Vec<&[u8]> = records.iter().step_by(every).map(|record| &image[record.clone()]).collect();
    let dictionary = zstd::dict::from_samples(&samples, DICTIONARY_BYTES_MAX).ok()?;
    assert!(dictionary.len() <= DICTIONARY_BYTES_MAX, "a dictionary of {} bytes", dictionary.len());
    Some(dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::{FrameTable, Unpacker, dictionary, unpack};
    use crate::record::RecordKind;
    use crate::segment::CompactedRange;
    use proptest::prelude::*;
    use quire_model::{Position, Timestamp};
    use std::path::Path;

    const IDENTITY: crate::identity::Identity = crate::identity::Identity { database: 7, shard: 0 };

    /// An image whose records have these bodies, sound as far as packing reads it, and its header.
    fn image(bodies: &[Vec<u8>]) -> (Vec<u8>, SegmentHeader) {
        let compacted = CompactedRange {
            end: Position::new(9),
            chain: 3,
            last_time: Timestamp::ZERO,
            records: bodies.len() as u32,
            packed: None,
        };
        let mut of = SegmentHeader {
            identity: IDENTITY,
            previous: 1,
            first: Position::new(1),
            time: Timestamp::ZERO,
            bytes: 0,
            compacted: Some(compacted),
        };
        let mut bytes = vec![0; COMPACTED_HEADER_BYTES];
        for body in bodies {
            let mut record = vec![0; HEADER_BYTES];
            record.extend_from_slice(body);
            record.resize(record.len().next_multiple_of(8), 0);
            let header = RecordHeader { length: record.len() as u32, ..RecordHeader::read(&record) };
            header.seal_as(RecordKind::Numbers, &mut record, &[]);
            bytes.extend_from_slice(&record);
        }
        of.bytes = bytes.len() as u64;
        bytes[..COMPACTED_HEADER_BYTES].copy_from_slice(&of.encode_compacted(compacted));
        (bytes, of)
    }

    /// Unpacks a packed file, without its header, or returns the first mismatch.
    fn unpacked(file: &[u8]) -> Result<Vec<u8>, String> {
        let header =
            SegmentHeader::decode(file, Path::new("a segment"), IDENTITY).map_err(|error| error.to_string())?;
        let packed = header.compacted.and_then(|compacted| compacted.packed).ok_or("it is not packed")?;
        if header.bytes != file.len() as u64 {
            return Err("the file has another length".to_owned());
        }
        let table = FrameTable::verify(file, packed).map_err(|bad| bad.message.to_owned())?;
        let ready = dictionary(table).map_err(|fault| fault.to_string())?;
        let unpacker = Unpacker::new(0);
        let mut image = Vec::new();
        for number in 0..table.frames() {
            let frame = table.frame(number);
            assert_eq!(frame.image.start, COMPACTED_HEADER_BYTES + image.len());
            assert_eq!(table.frame_at(frame.image.start), Some(number));
            assert_eq!(table.frame_at(frame.image.end - 1), Some(number));
            match frame.is_plain() {
                true => image.extend_from_slice(table.stored(&frame).expect("it is there")),
                false => {
                    let bytes = unpack(table, &frame, ready.as_ref(), &unpacker).map_err(|fault| fault.to_string())?;
                    image.extend_from_slice(&bytes);
                }
            }
        }
        Ok(image)
    }

    fn json(count: usize) -> Vec<Vec<u8>> {
        let body =
            |at: usize| format!("{{\"at\":{at},\"plane\":\"N1{}\",\"from\":\"EWR\",\"delay\":{}}}", at % 97, at % 7);
        (0..count).map(|at| body(at).into_bytes()).collect()
    }

    /// Incompressible bytes, different for each number.
    fn noise(number: u64, bytes: usize) -> Vec<u8> {
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    /// Records that repeat within a frame, so that a dictionary helps.
    fn phrases(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|at| [noise(at * 31 % 61, 60), noise(at * 17 % 59, 60)].concat()).collect()
    }

    #[test]
    fn small_similar_records_get_a_dictionary_and_large_records_do_not() {
        let (many, of) = image(&phrases(10_000));
        let packed = pack(&many, &of).expect("it gets smaller");
        assert!(unpacked(&packed).expect("whole") == many[COMPACTED_HEADER_BYTES..]);
        let dictionary = |file: &[u8]| FrameTable::verified_before(file).dictionary().expect("it is there").len();
        assert!(dictionary(&packed) > 0);
        let (frames, _) = frames(&many);
        let without = with_dictionary(&many, &of, &frames, &[], many.len()).expect("smaller");
        assert!(packed.len() < without.len(), "{} and without it {}", packed.len(), without.len());
        let (few, of) = image(&vec![json(200).concat(); 40]);
        let packed = pack(&few, &of).expect("it gets smaller");
        assert_eq!(dictionary(&packed), 0);
        assert!(unpacked(&packed).expect("whole") == few[COMPACTED_HEADER_BYTES..]);
    }

    #[test]
    fn incompressible_records_are_not_packed() {
        let (random, of) = image(&(0..50).map(|number| noise(number, 900)).collect::<Vec<_>>());
        assert!(pack(&random, &of).is_none());
        // A frame of noise among other frames is stored uncompressed.
        let mixed: Vec<_> = std::iter::once(noise(1, 30_000)).chain(json(4000)).collect();
        let (mixed, of) = image(&mixed);
        let packed = pack(&mixed, &of).expect("it gets smaller");
        let table = FrameTable::verified_before(&packed);
        assert!(table.frame(0).is_plain() && table.frame(0).image.len() > FRAME_BYTES, "{:?}", table.frame(0));
        assert!((1..table.frames()).all(|frame| !table.frame(frame).is_plain()));
        assert!(unpacked(&packed).expect("whole") == mixed[COMPACTED_HEADER_BYTES..]);
    }

    #[test]
    fn every_flipped_bit_and_missing_byte_is_detected() {
        let (image, of) = image(&phrases(1800));
        let packed = pack(&image, &of).expect("it gets smaller");
        let table = FrameTable::verified_before(&packed);
        assert!(table.dictionary().is_some_and(|dictionary| !dictionary.is_empty()));
        // Every byte before the frames, and a sample of the bytes in the frames.
        let frames_at = table.frame(0).stored.start;
        for at in (0..frames_at).chain((frames_at..packed.len()).step_by(37)) {
            let mut flipped = packed.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(unpacked(&flipped).is_err(), "byte {at}");
        }
        for cut in (0..packed.len()).step_by(101) {
            assert!(unpacked(&packed[..cut]).is_err());
        }
        assert!(unpacked(&[&packed[..], &[0]].concat()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn unpacking_restores_the_packed_records(
            bodies in proptest::collection::vec(
                (any::<u8>(), 0..40_000_usize, 1..200_usize).prop_map(|(byte, length, period)| {
                    (0..length).map(|at| byte.wrapping_add((at % period) as u8)).collect::<Vec<u8>>()
                }),
                0..20,
            ),
        ) {
            let (image, of) = image(&bodies);
            if let Some(packed) = pack(&image, &of) {
                prop_assert!(packed.len() < image.len());
                prop_assert!(unpacked(&packed).expect("whole") == image[COMPACTED_HEADER_BYTES..]);
            }
        }

        /// A forged table with valid checksums causes no panic, and no allocation beyond its
        /// frames.
        #[test]
        fn a_contradicting_table_or_its_frames_are_rejected(
            changes in proptest::collection::vec((0..400_usize, any::<u32>()), 1..4),
        ) {
            let (image, of) = image(&json(1500));
            let mut packed = pack(&image, &of).expect("it gets smaller");
            let end = COMPACTED_HEADER_BYTES + 16 + FrameTable::verified_before(&packed).frames() * 12;
            for (at, value) in changes {
                let at = COMPACTED_HEADER_BYTES + at % (end - COMPACTED_HEADER_BYTES) / 4 * 4;
                packed[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            let frames = u32::from_le_bytes(packed[96..100].try_into().expect("four bytes")) as usize;
            let end = (COMPACTED_HEADER_BYTES + 16).saturating_add(frames * 12).min(packed.len());
            let table = crc32c(&packed[COMPACTED_HEADER_BYTES..end]);
            let header = of.packed_as(packed.len() as u64, PackedImage { bytes: image.len() as u32, table });
            packed[..COMPACTED_HEADER_BYTES].copy_from_slice(&header);
            if let Ok(found) = unpacked(&packed) {
                prop_assert!(found == image[COMPACTED_HEADER_BYTES..]);
            }
        }
    }
}
