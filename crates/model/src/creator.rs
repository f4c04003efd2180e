//! The creator of work that runs after its commit, such as a subscription.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{CodecError, Decoder, Encoder};

/// The client that began work which runs later. The work is checked by the rights that the client
/// has when the work runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Creator {
    /// The name of the principal.
    pub name: String,
    /// Whether the principal is a user of the database. A user that was dropped or disabled has no
    /// rights.
    pub is_user: bool,
    /// The roles that the credential of the principal gave it.
    pub roles: Vec<String>,
}

impl Creator {
    /// Writes the creator.
    ///
    /// ```text
    /// | name | 1 for a user u8 | n, n × role |
    /// ```
    pub fn encode(&self, out: &mut Encoder) {
        out.str(&self.name).u8(u8::from(self.is_user)).varint(self.roles.len() as u64);
        self.roles.iter().for_each(|role| {
            out.str(role);
        });
    }

    /// Reads what [`Creator::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not a creator.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let (name, is_user) = (from.string()?, from.u8()? != 0);
        let roles = (0..from.varint()?).map(|_| from.string()).collect::<Result<_, _>>()?;
        Ok(Creator { name, is_user, roles })
    }

    /// Reads the rest of a body, which has a creator unless the owner of the database or a client
    /// without a principal began the work.
    ///
    /// # Errors
    /// When the rest is neither empty nor a creator.
    pub fn decode_rest(from: &mut Decoder<'_>) -> Result<Option<Self>, CodecError> {
        if from.clone().rest().is_empty() { Ok(None) } else { Creator::decode(from).map(Some) }
    }

    /// Returns the bytes of the creator in memory, without the value itself.
    pub fn memory(&self) -> u64 {
        let role = |role: &String| (size_of::<String>() + role.len()) as u64;
        self.name.len() as u64 + self.roles.iter().map(role).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creator_reads_back_as_it_was_written_and_cut_anywhere_is_an_error() {
        let creator = Creator { name: "ann".into(), is_user: true, roles: ["reader".into(), "worker".into()].into() };
        let mut out = Encoder::new();
        creator.encode(&mut out);
        let bytes = out.into_bytes();
        assert_eq!(Creator::decode_rest(&mut Decoder::new(&bytes)), Ok(Some(creator)));
        assert_eq!(Creator::decode_rest(&mut Decoder::new(&[])), Ok(None));
        for length in 1..bytes.len() {
            assert!(Creator::decode_rest(&mut Decoder::new(&bytes[..length])).is_err(), "{length} bytes");
        }
    }
}
