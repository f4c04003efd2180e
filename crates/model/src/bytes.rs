//! Bytes that a command carries: borrowed from the caller, or owned.
//!
//! Nothing here copies. Borrowed bytes stay borrowed until they are written to the log.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes, owned or borrowed. A parameter of type `impl Into<CowBytes<'_>>` takes text, slices,
/// arrays, strings and vectors.
///
/// ```
/// use quire_model::CowBytes;
///
/// let bytes = |bytes: CowBytes<'static>| bytes.into_cow().into_owned();
/// assert_eq!(bytes("a".into()), b"a");
/// assert_eq!(bytes(b"a".into()), b"a");
/// assert_eq!(bytes(format!("order:{}", 7).into()), b"order:7");
/// assert_eq!(bytes(vec![1, 2].into()), [1, 2]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CowBytes<'c>(Cow<'c, [u8]>);

impl<'c> CowBytes<'c> {
    /// Returns the bytes as the standard library's type.
    pub fn into_cow(self) -> Cow<'c, [u8]> {
        self.0
    }
}

impl<'c, T: AsRef<[u8]> + ?Sized> From<&'c T> for CowBytes<'c> {
    fn from(bytes: &'c T) -> Self {
        CowBytes(Cow::Borrowed(bytes.as_ref()))
    }
}

impl From<Vec<u8>> for CowBytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        CowBytes(Cow::Owned(bytes))
    }
}

impl From<String> for CowBytes<'_> {
    fn from(text: String) -> Self {
        CowBytes(Cow::Owned(text.into_bytes()))
    }
}

impl<const N: usize> From<[u8; N]> for CowBytes<'_> {
    fn from(bytes: [u8; N]) -> Self {
        CowBytes(Cow::Owned(bytes.to_vec()))
    }
}

impl<'c> From<Cow<'c, [u8]>> for CowBytes<'c> {
    fn from(bytes: Cow<'c, [u8]>) -> Self {
        CowBytes(bytes)
    }
}

impl<'c> From<Cow<'c, str>> for CowBytes<'c> {
    fn from(text: Cow<'c, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}
