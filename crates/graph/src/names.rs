//! A catalogue: names and their small dense numbers.
//!
//! Numbers are given in the order of first use, from 0, and are never taken back: entries and tags
//! carry them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};

/// Names by number and numbers by name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names {
    by_number: Vec<Box<str>>,
    by_name: BTreeMap<Box<str>, u32>,
}

impl Names {
    /// Returns the number of names, which is the number of the next one.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.by_number.len()).expect("limits keep catalogues small")
    }

    /// The number of this name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The name with this number.
    ///
    /// # Panics
    /// When no name has this number: stored numbers always come from the catalogue.
    pub(crate) fn name(&self, number: u32) -> &str {
        &self.by_number[number as usize]
    }

    /// The name with this number, if there is one.
    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        self.by_number.get(number as usize).map(|name| &**name)
    }

    /// All names, in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.by_name.iter().map(|(name, number)| (&**name, *number))
    }

    /// All names, in the order of their numbers.
    pub(crate) fn in_order(&self) -> impl ExactSizeIterator<Item = &str> {
        self.by_number.iter().map(|name| &**name)
    }

    /// Applies a name to which `decide` gave this number.
    ///
    /// # Panics
    /// When it is not the next number, or the name has one already.
    pub(crate) fn add(&mut self, number: u32, name: &str) {
        assert_eq!(number, self.count(), "a catalogue's numbers are dense");
        let before = self.by_name.insert(name.into(), number);
        assert_eq!(before, None, "a name has one number");
        self.by_number.push(name.into());
    }

    /// Writes them.
    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(u64::from(self.count()));
        for name in &self.by_number {
            out.str(name);
        }
    }

    /// Reads what [`Names::save`] wrote.
    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut names = Names::default();
        for number in 0..from.varint_u32()? {
            let name = from.str()?;
            if names.number(name).is_some() {
                return Err(CodecError { expected: "a new name", bytes_left: from.clone().rest().len() });
            }
            names.add(number, name);
        }
        Ok(names)
    }
}

/// A kind or an edge type, of which there are few.
pub(crate) fn narrow(number: u32) -> u16 {
    u16::try_from(number).expect("limits keep catalogues small")
}
