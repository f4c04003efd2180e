//! Names with slashes, found by their dotted form.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::dotted;

/// The names of one model that have a slash, keyed by their form with dots instead of slashes.
/// Names without a slash equal their dotted form, so they are not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DottedNames(BTreeMap<Box<str>, Vec<Arc<str>>>);

impl DottedNames {
    /// Adds a name that is not there.
    pub fn add(&mut self, name: &Arc<str>) {
        if name.contains('/') {
            let names = self.0.entry(dotted(name).into_boxed_str()).or_insert_with(|| Vec::with_capacity(1));
            let place = names.partition_point(|other| other < name);
            names.insert(place, Arc::clone(name));
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &str) {
        if !name.contains('/') {
            return;
        }
        let form = dotted(name);
        if let Some(names) = self.0.get_mut(&*form) {
            names.retain(|other| **other != *name);
            if names.is_empty() {
                self.0.remove(&*form);
            }
        }
    }

    /// The names of this form, in order.
    pub fn of(&self, form: &str) -> impl Iterator<Item = &str> {
        self.0.get(form).into_iter().flatten().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_form_are_found_in_order_until_they_are_removed() {
        let mut names = DottedNames::default();
        for name in ["a/b/c", "a/b.c", "a.b/c", "a.b.c", "a"] {
            names.add(&Arc::from(name));
        }
        let of = |names: &DottedNames| names.of("a.b.c").map(alloc::string::String::from).collect::<Vec<_>>();
        assert_eq!(of(&names), ["a.b/c", "a/b.c", "a/b/c"]);
        assert_eq!(names.of("a").count(), 0, "a name without a slash is its own form");
        for name in ["a/b.c", "a.b.c", "a/b/c"] {
            names.remove(name);
        }
        assert_eq!(of(&names), ["a.b/c"]);
        names.remove("a.b/c");
        assert_eq!(names, DottedNames::default());
    }
}
