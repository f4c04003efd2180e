//! A large state as bytes, a part at a time.

use crate::codec::Encoder;

/// The number of bytes that are written before they are passed on.
const PART_BYTES: usize = 1 << 20;

/// Bytes that are passed on in parts, so that memory never holds more than one part.
pub struct Parts<'s> {
    part: Encoder,
    sink: &'s mut dyn FnMut(&[u8]),
}

impl core::fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Parts").field("bytes", &self.part.as_slice().len()).finish_non_exhaustive()
    }
}

impl<'s> Parts<'s> {
    /// Passes the parts to `sink`.
    pub fn to(sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Parts { part: Encoder::new(), sink }
    }

    /// Returns the encoder for the next few bytes.
    #[inline]
    pub fn encoder(&mut self) -> &mut Encoder {
        if self.part.as_slice().len() >= PART_BYTES {
            self.end();
        }
        &mut self.part
    }

    /// Passes the last part to the sink.
    pub fn end(&mut self) {
        (self.sink)(self.part.as_slice());
        self.part.clear();
    }
}
