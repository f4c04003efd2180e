//! The state as bytes.

use alloc::string::String;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position};

use crate::codec::{
    put_key, put_quota, put_role, put_rule, put_subject, put_user, read_bool, read_key, read_quota, read_role,
    read_rule, read_secret, read_subject, read_user, unlike,
};
use crate::state::PutEntry;
use crate::{MemberRecord, MemberRole, System};

/// The version of a checkpoint without members. Version 1 has no secret, and version 2 no quotas.
const VERSION: u8 = 3;

/// The version of a checkpoint with members of a cluster.
const VERSION_WITH_MEMBERS: u8 = 4;

impl System {
    /// The version, 3 or 4, then the state. The bytes of users, keys and roles are those of entry
    /// bodies. The place of a user or key is that of its entry:
    ///
    /// ```text
    /// 3 or 4 │ enabled u8 │ changed at v │ n v, n × (place, user +) │ n v, n × (place, key +)
    ///   │ n v, n × role + │ n v, n × (holder, rule) │ secret +, empty without one
    ///   │ n v, n × quota
    ///   │ from version 4 on: n v, n × (member +), n v, n × (position v, node u64, role u8)
    /// place: position v, index v
    /// ```
    pub(crate) fn save_to(&self, out: &mut Encoder) {
        let version = if self.members.is_empty() { VERSION } else { VERSION_WITH_MEMBERS };
        out.u8(version).u8(u8::from(self.is_enabled));
        out.varint(self.changed_at.get());
        let mut body = Encoder::new();
        out.varint(self.users.size() as u64);
        for (name, user) in &self.users {
            put_place(user.place, out);
            put_user(name, &user.value, &mut body);
            out.bytes(body.as_slice());
            body.clear();
        }
        out.varint(self.keys.size() as u64);
        for (id, key) in &self.keys {
            put_place(key.place, out);
            put_key(*id, &key.value, &mut body);
            out.bytes(body.as_slice());
            body.clear();
        }
        out.varint(self.roles.size() as u64);
        for (name, rules) in &self.roles {
            put_role(name, rules, &mut body);
            out.bytes(body.as_slice());
            body.clear();
        }
        out.varint(self.rules.size() as u64);
        for (subject, rule) in &self.rules {
            put_subject(subject, out);
            put_rule(rule, out);
        }
        out.bytes(self.secret.as_ref().map_or(&[], |secret| &secret.0));
        out.varint(self.quotas.size() as u64);
        for (entity, kind, value) in self.quotas() {
            put_quota(entity, kind, Some(value), out);
        }
        if version == VERSION_WITH_MEMBERS {
            self.save_members_to(out);
        }
    }

    fn save_members_to(&self, out: &mut Encoder) {
        let mut body = Encoder::new();
        out.varint(self.members.size() as u64);
        for (node, member) in self.members() {
            MemberRecord { node, member: member.clone() }.encode(&mut body);
            out.bytes(body.as_slice());
            body.clear();
        }
        out.varint(self.member_changes.size() as u64);
        for (position, node, role) in self.member_changes() {
            out.varint(position.get()).u64(node).u8(role.number());
        }
    }

    pub(crate) fn load_from(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let version = from.u8()?;
        if !(1..=VERSION_WITH_MEMBERS).contains(&version) {
            return Err(unlike("version 1 to 4 of the access rules", from));
        }
        let is_enabled = read_bool(from)?;
        let mut system = System { is_enabled, changed_at: Position::new(from.varint()?), ..System::default() };
        for _ in 0..from.varint()? {
            let place = read_place(from)?;
            let (name, value) = read_whole(from, read_user)?;
            system.users.insert_mut(name, PutEntry { value, place });
        }
        for _ in 0..from.varint()? {
            let place = read_place(from)?;
            let (id, value) = read_whole(from, read_key)?;
            system.keys.insert_mut(id, PutEntry { value, place });
        }
        for _ in 0..from.varint()? {
            let (name, rules): (String, _) = read_whole(from, read_role)?;
            system.roles.insert_mut(name, rules);
        }
        for _ in 0..from.varint()? {
            system.rules.insert_mut((read_subject(from)?, read_rule(from)?));
        }
        if version > 1 {
            let secret = from.bytes()?;
            if !secret.is_empty() {
                let mut whole = Decoder::new(secret);
                system.secret = Some(read_secret(&mut whole)?);
                whole.end()?;
            }
        }
        if version > 2 {
            for _ in 0..from.varint()? {
                let (entity, kind, value) = read_quota(from)?;
                let value = value.ok_or(unlike("the value of a quota", from))?;
                system.quotas.insert_mut((entity, kind), value);
            }
        }
        if version > 3 {
            for _ in 0..from.varint()? {
                let MemberRecord { node, member } = read_whole(from, MemberRecord::read)?;
                system.members.insert_mut(node, member);
            }
            for _ in 0..from.varint()? {
                let position = Position::new(from.varint()?);
                system.member_changes.insert_mut(position, (from.u64()?, MemberRole::read(from)?));
            }
        }
        Ok(system)
    }
}

fn put_place(place: Place, out: &mut Encoder) {
    out.varint(place.position.get()).varint(u64::from(place.index));
}

fn read_place(from: &mut Decoder<'_>) -> Result<Place, CodecError> {
    Ok(Place::new(Position::new(from.varint()?), from.varint_u32()?))
}

/// Reads a value that takes its bytes as a whole.
fn read_whole<T>(from: &mut Decoder<'_>, read: fn(&mut Decoder<'_>) -> Result<T, CodecError>) -> Result<T, CodecError> {
    let mut body = Decoder::new(from.bytes()?);
    let value = read(&mut body)?;
    body.end()?;
    Ok(value)
}
