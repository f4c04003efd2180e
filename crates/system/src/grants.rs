//! The rules of one holder, compiled for checks.
//!
//! A check takes a look-up of the name, a binary search among prefixes, and a look-up for each
//! space that the name may be in. It never scans the rules.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};
use core::ops::BitOrAssign;

use hashbrown::HashMap;
use quire_model::{Operation, Resource, ResourceKind};

use crate::{AccessRule, RuleEffect, RulePattern};

/// A map whose keys administrators chose. So collisions that an attacker seeks are no concern.
pub(crate) type NameMap<K, V> = HashMap<K, V, BuildHasherDefault<NameHasher>>;

/// The operations that rules allow and deny, as bits by the operations' numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    allowed: u16,
    denied: u16,
}

const fn bit(operation: Operation) -> u16 {
    1 << operation.number()
}

impl Masks {
    fn add(&mut self, effect: RuleEffect, operation: Operation) {
        match effect {
            RuleEffect::Allow => self.allowed |= bit(operation),
            RuleEffect::Deny => self.denied |= bit(operation),
        }
    }

    /// Whether these rules together allow the operation. A denial wins; without a rule, it is
    /// denied.
    pub(crate) fn allow(self, operation: Operation) -> bool {
        let all = bit(Operation::All);
        let granting = operation.allowed_by().iter().fold(all, |bits, other| bits | bit(*other));
        !self.deny(operation) && self.allowed & granting != 0
    }

    /// Whether any of these rules denies the operation.
    pub(crate) fn deny(self, operation: Operation) -> bool {
        self.denied & (bit(operation) | bit(Operation::All)) != 0
    }
}

impl BitOrAssign for Masks {
    fn bitor_assign(&mut self, other: Masks) {
        self.allowed |= other.allowed;
        self.denied |= other.denied;
    }
}

/// The rules of one holder.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    kinds: [KindGrants; ResourceKind::ALL.len()],
    /// Spaces, by their names.
    spaces: NameMap<Box<str>, Masks>,
    /// Spaces, by the names with dots that topics have in them.
    dotted_spaces: NameMap<Box<str>, Masks>,
}

/// The rules on one kind of resources.
#[derive(Debug, Default)]
struct KindGrants {
    any: Masks,
    literals: NameMap<Box<str>, Masks>,
    /// In the order of the prefixes.
    prefixes: Vec<PrefixGrant>,
}

#[derive(Debug)]
struct PrefixGrant {
    prefix: Box<str>,
    /// Those of this prefix and of every shorter one that it begins with.
    masks: Masks,
    /// The index of the longest of these shorter ones.
    shorter: Option<usize>,
}

impl Grants {
    pub(crate) fn of<'r>(rules: impl IntoIterator<Item = &'r AccessRule>) -> Self {
        let mut grants = Grants::default();
        for AccessRule { effect, kind, pattern, operation } in rules {
            let of_kind = &mut grants.kinds[usize::from(kind.number())];
            match pattern {
                RulePattern::Any => of_kind.any.add(*effect, *operation),
                RulePattern::Literal(name) if *kind == ResourceKind::Space => {
                    grants.spaces.entry(name.as_str().into()).or_default().add(*effect, *operation);
                    let dotted: String = name.replace('/', ".");
                    grants.dotted_spaces.entry(dotted.into()).or_default().add(*effect, *operation);
                }
                RulePattern::Literal(name) => {
                    of_kind.literals.entry(name.as_str().into()).or_default().add(*effect, *operation);
                }
                RulePattern::Prefix(prefix) => {
                    let mut masks = Masks::default();
                    masks.add(*effect, *operation);
                    of_kind.prefixes.push(PrefixGrant { prefix: prefix.as_str().into(), masks, shorter: None });
                }
            }
        }
        grants.kinds.iter_mut().for_each(|kind| link_prefixes(&mut kind.prefixes));
        grants
    }

    /// The rules that cover a resource, together.
    pub(crate) fn masks(&self, resource: Resource<'_>) -> Masks {
        let Resource { kind, name } = resource;
        let of_kind = &self.kinds[usize::from(kind.number())];
        let mut masks = of_kind.any;
        if let Some(own) = of_kind.literals.get(name) {
            masks |= *own;
        }
        if let Some(own) = longest_prefix(&of_kind.prefixes, name) {
            masks |= own;
        }
        if let Some(separator) = kind.separator() {
            masks |= self.masks_of_spaces(kind, name, separator);
        }
        masks
    }

    /// The rules that cover every resource of a kind, with each denial that covers any of them.
    pub(crate) fn masks_of_every(&self, kind: ResourceKind) -> Masks {
        let of_kind = &self.kinds[usize::from(kind.number())];
        let mut masks = of_kind.any;
        let own = of_kind.literals.values().chain(of_kind.prefixes.iter().map(|grant| &grant.masks));
        let spaces = self.spaces.values().chain([&self.kinds[usize::from(ResourceKind::Space.number())].any]);
        for part in own.chain(spaces.filter(|_| kind.separator().is_some())) {
            masks.denied |= part.denied;
        }
        masks
    }

    /// The names of a kind that rules give, and for each prefix and space a name that it covers.
    pub(crate) fn names(&self, kind: ResourceKind) -> impl Iterator<Item = String> {
        let of_kind = &self.kinds[usize::from(kind.number())];
        let given = of_kind.literals.keys().chain(of_kind.prefixes.iter().map(|grant| &grant.prefix));
        let separator = kind.separator();
        let spaces = if separator == Some('.') { &self.dotted_spaces } else { &self.spaces };
        let in_spaces = spaces.keys().filter_map(move |space| separator.map(|separator| format!("{space}{separator}")));
        // A name in a space that only rules on every space cover.
        let in_any = separator.map(String::from);
        given.map(|name| String::from(&**name)).chain(in_spaces).chain(in_any)
    }

    fn masks_of_spaces(&self, kind: ResourceKind, name: &str, separator: char) -> Masks {
        let spaces = if separator == '/' { &self.spaces } else { &self.dotted_spaces };
        let any = self.kinds[usize::from(ResourceKind::Space.number())].any;
        let mut masks = Masks::default();
        if any != Masks::default() && name.contains(separator) {
            masks |= any;
        }
        if !spaces.is_empty() {
            for (border, _) in name.match_indices(separator) {
                if let Some(own) = spaces.get(&name[..border]) {
                    masks |= *own;
                }
            }
            if kind == ResourceKind::Space
                && let Some(own) = spaces.get(name)
            {
                masks |= *own;
            }
        }
        masks
    }
}

/// Sorts the prefixes, joins equal ones, and adds the masks of shorter ones to the longer.
fn link_prefixes(prefixes: &mut Vec<PrefixGrant>) {
    prefixes.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    prefixes.dedup_by(|later, kept| {
        let is_same = later.prefix == kept.prefix;
        if is_same {
            kept.masks |= later.masks;
        }
        is_same
    });
    for index in 1..prefixes.len() {
        let (before, rest) = prefixes.split_at_mut(index);
        let own = &mut rest[0];
        let mut shorter = Some(index - 1);
        while let Some(candidate) = shorter
            && !own.prefix.starts_with(&*before[candidate].prefix)
        {
            shorter = before[candidate].shorter;
        }
        own.shorter = shorter;
        if let Some(candidate) = shorter {
            own.masks |= before[candidate].masks;
        }
    }
}

/// The masks of the longest prefix of the name, which include those of every other prefix of it.
///
/// Every text between a prefix of the name and the name, in order, begins with that prefix. So the
/// longest prefix is the last one that is not after the name, or one that this one begins with.
fn longest_prefix(prefixes: &[PrefixGrant], name: &str) -> Option<Masks> {
    let after = prefixes.partition_point(|grant| &*grant.prefix <= name);
    let mut candidate = after.checked_sub(1);
    while let Some(index) = candidate {
        let grant = &prefixes[index];
        if name.starts_with(&*grant.prefix) {
            return Some(grant.masks);
        }
        candidate = grant.shorter;
    }
    None
}

/// Hashes eight bytes at a time by a folded multiplication: every bit of the hash depends on every
/// byte.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NameHasher(u64);

impl NameHasher {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0.rotate_left(5) ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }
}
