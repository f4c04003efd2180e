//! The commands: their changes and refusals, and that a restart finds the same state.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quire_model::codec::Decoder;
use quire_model::memory::World;
use quire_model::{DecideError, Model, Operation, Position, Resource, ResourceKind, Timestamp};
use quire_system::{
    AccessLimit, AccessNameProblem, AccessRule, Command, DatabaseSecret, KEY_RULES_MAX, KeyId, NewKey, QuotaEntity,
    QuotaKind, QuotaName, QuotaValue, Refusal, RulePattern, RuleProblem, RuleSubject, ScramCredential, ScramMechanism,
    ScramShape, SecretHash, System,
};

fn world() -> World<System> {
    World::new()
}

/// Commits one command. Returns whether it changed anything.
fn commit(world: &mut World<System>, command: Command<'_>) -> Result<bool, Refusal> {
    match world.commit(Timestamp::ZERO, &[command]) {
        Ok(replies) => Ok(replies[0].is_changed),
        Err(DecideError::Refused { command: 0, refusal }) => Err(refusal),
        Err(other) => panic!("{other:?}"),
    }
}

fn id(number: u8) -> KeyId {
    KeyId::parse(&format!("key{number:07}")).unwrap()
}

fn key(number: u8, user: &str) -> NewKey<'_> {
    let secret = SecretHash([number; 32]);
    NewKey { id: id(number), secret, user, rules: None, expires: Some(Timestamp::from_micros(100)), note: "" }
}

fn read_orders() -> AccessRule {
    AccessRule::allow(Operation::Read, ResourceKind::Topic, RulePattern::Literal("orders".to_owned()))
}

fn credential(mechanism: ScramMechanism, salt: u8) -> ScramCredential {
    let bytes = mechanism.hash_bytes();
    let (stored_key, server_key) = (vec![1; bytes], vec![2; bytes]);
    ScramCredential { mechanism, iterations: 4_096, salt: vec![salt], stored_key, server_key }
}

#[test]
fn a_commit_makes_the_first_administrator_and_enables_access_or_does_neither() {
    let mut world = world();
    assert_eq!(commit(&mut world, Command::Enable), Err(Refusal::NoAdmin));
    assert!(world.model.is_unused());
    let refused = world.commit(
        Timestamp::ZERO,
        &[Command::CreateUser { user: "root", roles: &["admin"] }, Command::Enable, Command::Enable],
    );
    assert_eq!(refused, Err(DecideError::Refused { command: 2, refusal: Refusal::AlreadyEnabled }));
    assert!(world.model.is_unused());
    let first = NewKey { expires: None, ..key(1, "root") };
    world
        .commit(
            Timestamp::ZERO,
            &[Command::CreateUser { user: "root", roles: &["admin"] }, Command::CreateKey(first), Command::Enable],
        )
        .unwrap();
    let set = world.model.rule_set();
    assert!(set.is_enabled());
    let root = set.verify_key(id(1), SecretHash([1; 32]), Timestamp::ZERO).unwrap();
    assert!(set.allows(&root, Operation::Alter, Resource::ACCESS));
    assert_eq!(commit(&mut world, Command::Disable), Ok(true));
    assert!(!world.model.rule_set().is_enabled());
    assert_eq!(commit(&mut world, Command::Disable), Err(Refusal::NotEnabled));
}

#[test]
fn a_key_is_refused_when_it_is_wrong_expired_disabled_or_dropped_or_its_user_is() {
    let mut world = world();
    commit(&mut world, Command::CreateUser { user: "ann", roles: &[] }).unwrap();
    commit(&mut world, Command::CreateKey(key(1, "ann"))).unwrap();
    let verify = |world: &World<System>, secret: u8, now: u64| {
        world.model.rule_set().verify_key(id(1), SecretHash([secret; 32]), Timestamp::from_micros(now))
    };
    let ann = verify(&world, 1, 99).expect("the key is valid");
    assert_eq!((&*ann.name, ann.key, ann.expires), ("ann", Some(id(1)), Some(Timestamp::from_micros(100))));
    assert_eq!(verify(&world, 2, 99), None);
    assert_eq!(verify(&world, 1, 100), None);
    assert_eq!(world.model.rule_set().verify_key(id(2), SecretHash([1; 32]), Timestamp::ZERO), None);

    let everyone = RuleSubject::Everyone;
    commit(&mut world, Command::AddRule { subject: &everyone, rule: &read_orders() }).unwrap();
    let orders = Resource::new(ResourceKind::Topic, "orders");
    let may = |world: &World<System>| world.model.rule_set().allows(&ann, Operation::Read, orders);
    assert!(may(&world));
    commit(&mut world, Command::EnableKey { key: id(1), is_enabled: false }).unwrap();
    assert!(verify(&world, 1, 99).is_none() && !may(&world));
    commit(&mut world, Command::EnableKey { key: id(1), is_enabled: true }).unwrap();
    assert!(verify(&world, 1, 99).is_some() && may(&world));
    commit(&mut world, Command::EnableUser { user: "ann", is_enabled: false }).unwrap();
    assert!(verify(&world, 1, 99).is_none() && !may(&world));
    commit(&mut world, Command::EnableUser { user: "ann", is_enabled: true }).unwrap();
    commit(&mut world, Command::DropKey { key: id(1) }).unwrap();
    assert!(verify(&world, 1, 99).is_none() && !may(&world));
}

#[test]
fn a_dropped_user_leaves_no_key_no_password_and_no_rule_to_its_successor() {
    let mut world = world();
    let ann = RuleSubject::Principal("ann".to_owned());
    commit(&mut world, Command::CreateUser { user: "ann", roles: &[] }).unwrap();
    commit(&mut world, Command::CreateUser { user: "bob", roles: &[] }).unwrap();
    commit(&mut world, Command::CreateKey(key(1, "ann"))).unwrap();
    commit(&mut world, Command::CreateKey(key(2, "bob"))).unwrap();
    commit(&mut world, Command::PutScram { user: "ann", credential: &credential(ScramMechanism::Sha256, 1) }).unwrap();
    commit(&mut world, Command::AddRule { subject: &ann, rule: &read_orders() }).unwrap();
    commit(&mut world, Command::DropUser { user: "ann" }).unwrap();
    commit(&mut world, Command::CreateUser { user: "ann", roles: &[] }).unwrap();
    assert_eq!(world.model.rules().count(), 0);
    assert_eq!(world.model.keys().map(|(id, _)| id).collect::<Vec<_>>(), [id(2)]);
    assert_eq!(world.model.rule_set().scram("ann", ScramMechanism::Sha256), None);
}

#[test]
fn each_mechanism_has_one_credential_and_a_disabled_user_none() {
    let mut world = world();
    commit(&mut world, Command::CreateUser { user: "ann", roles: &[] }).unwrap();
    for salt in [1, 2] {
        for mechanism in ScramMechanism::ALL {
            commit(&mut world, Command::PutScram { user: "ann", credential: &credential(mechanism, salt) }).unwrap();
        }
    }
    let set = world.model.rule_set();
    for mechanism in ScramMechanism::ALL {
        assert_eq!(set.scram("ann", mechanism), Some(&credential(mechanism, 2)));
    }
    let dropped = Command::DropScram { user: "ann", mechanism: ScramMechanism::Sha256 };
    assert_eq!(commit(&mut world, dropped.clone()), Ok(true));
    assert_eq!(commit(&mut world, dropped), Ok(false));
    assert_eq!(world.model.rule_set().scram("ann", ScramMechanism::Sha256), None);
    commit(&mut world, Command::EnableUser { user: "ann", is_enabled: false }).unwrap();
    assert_eq!(world.model.rule_set().scram("ann", ScramMechanism::Sha512), None);
    let weak = ScramCredential { iterations: 4_095, ..credential(ScramMechanism::Sha256, 1) };
    let refused = commit(&mut world, Command::PutScram { user: "ann", credential: &weak });
    assert_eq!(refused, Err(Refusal::InvalidCredential));
}

#[test]
fn the_usual_shape_of_credentials_is_that_of_most_of_a_mechanism() {
    let mut world = world();
    let usual = |world: &World<System>| world.model.rule_set().usual_scram(ScramMechanism::Sha256);
    assert_eq!(usual(&world), ScramShape::default());
    let of = |mechanism, iterations, salt_bytes| {
        let salt = vec![7; salt_bytes];
        ScramCredential { iterations, salt, ..credential(mechanism, 1) }
    };
    for (user, credential) in [
        ("ann", of(ScramMechanism::Sha256, 4_096, 20)),
        ("bob", of(ScramMechanism::Sha256, 8_192, 26)),
        ("cem", of(ScramMechanism::Sha256, 8_192, 26)),
        ("ann", of(ScramMechanism::Sha512, 9_000, 64)),
    ] {
        if world.model.user(user).is_none() {
            commit(&mut world, Command::CreateUser { user, roles: &[] }).unwrap();
        }
        commit(&mut world, Command::PutScram { user, credential: &credential }).unwrap();
    }
    assert_eq!(usual(&world), ScramShape { iterations: 8_192, salt_bytes: 26 });
    let of_other = world.model.rule_set().usual_scram(ScramMechanism::Sha512);
    assert_eq!(of_other, ScramShape { iterations: 9_000, salt_bytes: 64 });
}

#[test]
fn commands_about_unknown_things_and_invalid_ones_are_refused_with_the_facts() {
    let mut world = world();
    let unknown = || Refusal::UnknownUser { user: "ann".to_owned() };
    assert_eq!(commit(&mut world, Command::DropUser { user: "ann" }), Err(unknown()));
    assert_eq!(commit(&mut world, Command::CreateKey(key(1, "ann"))), Err(unknown()));
    assert_eq!(commit(&mut world, Command::DropKey { key: id(1) }), Err(Refusal::UnknownKey { key: id(1) }));
    let of_role = |role: &str| Refusal::UnknownRole { role: role.to_owned() };
    assert_eq!(commit(&mut world, Command::CreateUser { user: "ann", roles: &["clerk"] }), Err(of_role("clerk")));
    let built_in = Refusal::BuiltInRole { role: "reader".to_owned() };
    assert_eq!(commit(&mut world, Command::PutRole { role: "reader", rules: &[] }), Err(built_in));
    for (name, problem) in [
        ("", AccessNameProblem::Empty),
        ("*", AccessNameProblem::Wildcard),
        ("a\nb", AccessNameProblem::Control { at: 1 }),
        (&"x".repeat(256), AccessNameProblem::TooLong { bytes: 256 }),
    ] {
        let refused = commit(&mut world, Command::CreateUser { user: name, roles: &[] });
        assert_eq!(refused, Err(Refusal::InvalidName(problem)));
    }

    commit(&mut world, Command::PutRole { role: "clerk", rules: &[read_orders()] }).unwrap();
    commit(&mut world, Command::CreateUser { user: "ann", roles: &["clerk", "reader", "clerk"] }).unwrap();
    assert_eq!(world.model.user("ann").unwrap().roles, ["clerk", "reader"]);
    let exists = Refusal::UserExists { user: "ann".to_owned() };
    assert_eq!(commit(&mut world, Command::CreateUser { user: "ann", roles: &[] }), Err(exists));
    let in_use = Refusal::RoleInUse { role: "clerk".to_owned(), user: "ann".to_owned() };
    assert_eq!(commit(&mut world, Command::DropRole { role: "clerk" }), Err(in_use));
    let for_ever = NewKey { expires: None, ..key(1, "ann") };
    let required = Refusal::ExpiryRequired { user: "ann".to_owned() };
    assert_eq!(commit(&mut world, Command::CreateKey(for_ever)), Err(required));
    let many = vec![read_orders(); KEY_RULES_MAX + 1];
    let narrowed = NewKey { rules: Some(&many), ..key(1, "ann") };
    let refused = commit(&mut world, Command::CreateKey(narrowed));
    assert_eq!(refused, Err(Refusal::LimitExceeded(AccessLimit::RulesOfKey)));
    commit(&mut world, Command::CreateKey(key(1, "ann"))).unwrap();
    assert_eq!(commit(&mut world, Command::CreateKey(key(1, "ann"))), Err(Refusal::KeyExists { key: id(1) }));
    let spaces = AccessRule::allow(Operation::Read, ResourceKind::Space, RulePattern::Prefix("a".to_owned()));
    let refused = commit(&mut world, Command::AddRule { subject: &RuleSubject::Everyone, rule: &spaces });
    assert_eq!(refused, Err(Refusal::InvalidRule(RuleProblem::PrefixOfSpaces)));
}

/// The state, by plain maps.
#[derive(Debug, Default, Clone, PartialEq)]
struct Naive {
    users: BTreeMap<String, (bool, BTreeSet<String>)>,
    keys: BTreeMap<KeyId, (String, bool)>,
    rules: BTreeSet<(RuleSubject, AccessRule)>,
}

impl Naive {
    fn of(model: &System) -> Self {
        let user = |user: &quire_system::User| (user.is_enabled, user.roles.iter().cloned().collect());
        Naive {
            users: model.users().map(|(name, known)| (name.to_owned(), user(known))).collect(),
            keys: model.keys().map(|(id, key)| (id, (key.principal.clone(), key.is_enabled))).collect(),
            rules: model.rules().map(|(subject, rule)| (subject.clone(), rule.clone())).collect(),
        }
    }

    /// Whether the command is accepted; it is carried out then.
    fn take(&mut self, command: &Command<'_>) -> bool {
        match command {
            Command::CreateUser { user, roles } => {
                let fresh = !self.users.contains_key(*user);
                if fresh {
                    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
                    self.users.insert((*user).to_owned(), (true, roles));
                }
                fresh
            }
            Command::EnableUser { user, is_enabled } => {
                self.users.get_mut(*user).map(|known| known.0 = *is_enabled).is_some()
            }
            Command::DropUser { user } => {
                self.keys.retain(|_, (owner, _)| owner != user);
                let is_known = self.users.remove(*user).is_some();
                if is_known {
                    self.rules.retain(|(subject, _)| *subject != RuleSubject::Principal((*user).to_owned()));
                }
                is_known
            }
            Command::CreateKey(new) => {
                let fits = self.users.contains_key(new.user) && !self.keys.contains_key(&new.id);
                if fits {
                    self.keys.insert(new.id, (new.user.to_owned(), true));
                }
                fits
            }
            Command::EnableKey { key, is_enabled } => {
                self.keys.get_mut(key).map(|known| known.1 = *is_enabled).is_some()
            }
            Command::DropKey { key } => self.keys.remove(key).is_some(),
            Command::AddRule { subject, rule } => {
                self.rules.insert(((*subject).clone(), (*rule).clone()));
                true
            }
            Command::RemoveRule { subject, rule } => {
                self.rules.remove(&((*subject).clone(), (*rule).clone()));
                true
            }
            other => panic!("{other:?}"),
        }
    }
}

const USERS: [&str; 3] = ["ann", "bob", "cem"];

/// A command by numbers: the same for the model and the naive one.
fn with_command<T>(numbers: (u8, usize, u8, bool), then: impl FnOnce(Command<'_>) -> T) -> T {
    let (what, user, number, flag) = numbers;
    let (user, number) = (USERS[user % 3], number % 4);
    let subject = RuleSubject::Principal(user.to_owned());
    let rule = AccessRule::allow(Operation::Read, ResourceKind::Queue, RulePattern::Prefix(format!("q{number}")));
    then(match what % 8 {
        0 => Command::CreateUser { user, roles: if flag { &["reader"] } else { &[] } },
        1 => Command::EnableUser { user, is_enabled: flag },
        2 => Command::DropUser { user },
        3 => Command::CreateKey(key(number, user)),
        4 => Command::EnableKey { key: id(number), is_enabled: flag },
        5 => Command::DropKey { key: id(number) },
        6 => Command::AddRule { subject: &subject, rule: &rule },
        _ => Command::RemoveRule { subject: &subject, rule: &rule },
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_model_answers_like_the_naive_one_and_restarts_as_it_was(
        commands in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<u8>(), any::<bool>()), 1..60),
        restart in any::<prop::sample::Index>(),
    ) {
        let mut world = world();
        let mut naive = Naive::default();
        for numbers in &commands {
            let mut expected = naive.clone();
            let accepts = with_command(*numbers, |command| expected.take(&command));
            let accepted = with_command(*numbers, |command| commit(&mut world, command).is_ok());
            prop_assert_eq!(accepted, accepts);
            if accepts {
                naive = expected;
            }
            prop_assert_eq!(&Naive::of(&world.model), &naive);
        }
        let at = Position::new(restart.index(commands.len() + 1) as u64);
        let restarted = world.restarted(at);
        prop_assert_eq!(World::saved(&restarted), World::saved(&world.model));
        prop_assert_eq!(restarted, world.model);
    }

    /// A salvage without a checkpoint reads a log of which some segments were compacted and others
    /// not.
    #[test]
    fn whichever_dropped_entries_a_compaction_left_the_log_gives_the_same_state(
        commands in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<u8>(), any::<bool>()), 1..60),
        left in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut world = world();
        for numbers in &commands {
            let _ = with_command(*numbers, |command| commit(&mut world, command));
        }
        let mut salvaged = System::default();
        for (entry, is_left) in world.log.entries().zip(left) {
            if is_left || world.model.survives(&entry, Timestamp::ZERO) {
                salvaged.apply(&entry);
            }
        }
        prop_assert_eq!(salvaged, world.model);
    }

    #[test]
    fn any_bytes_are_a_state_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut from = Decoder::new(&bytes);
        if let Ok(state) = System::load(&mut from) {
            state.rule_set();
        }
    }
}

/// A state with everything.
fn full() -> World<System> {
    let mut world = world();
    let rules = [
        read_orders(),
        AccessRule::deny(Operation::All, ResourceKind::Space, RulePattern::Any),
        AccessRule::allow(Operation::Write, ResourceKind::Queue, RulePattern::Prefix("mails".to_owned())),
    ];
    commit(&mut world, Command::PutRole { role: "clerk", rules: &rules }).unwrap();
    commit(&mut world, Command::CreateUser { user: "root", roles: &["admin", "clerk"] }).unwrap();
    commit(&mut world, Command::PutScram { user: "root", credential: &credential(ScramMechanism::Sha512, 3) }).unwrap();
    commit(&mut world, Command::CreateKey(NewKey { rules: Some(&rules), note: "a note", ..key(1, "root") })).unwrap();
    commit(&mut world, Command::CreateKey(NewKey { expires: None, ..key(2, "root") })).unwrap();
    for subject in
        [RuleSubject::Everyone, RuleSubject::Principal("cn".to_owned()), RuleSubject::Role("clerk".to_owned())]
    {
        rules.iter().for_each(|rule| {
            commit(&mut world, Command::AddRule { subject: &subject, rule }).unwrap();
        });
    }
    commit(&mut world, Command::PutSecret { secret: DatabaseSecret([7; 32]) }).unwrap();
    for entity in entities() {
        commit(&mut world, put_quota(&entity, Some(1.5))).unwrap();
    }
    commit(&mut world, Command::Enable).unwrap();
    world
}

#[test]
fn a_state_with_everything_is_read_back_and_no_part_of_it_is_another_state() {
    let world = full();
    let saved = World::saved(&world.model);
    let loaded = System::load(&mut Decoder::new(&saved)).unwrap();
    assert_eq!(loaded, world.model);
    for length in 0..saved.len() {
        assert!(System::load(&mut Decoder::new(&saved[..length])).is_err(), "the first {length} bytes");
    }
    for entry in world.log.entries() {
        assert_eq!(world.model.check_applicable(&entry), Ok(()));
        let shorter = quire_model::Entry { body: &entry.body[..entry.body.len() / 2], ..entry };
        // Half of a name is a name; everything else is refused.
        let _ = world.model.check_applicable(&shorter);
    }
}

/// An entity of each kind.
fn entities() -> Vec<QuotaEntity> {
    let names = || [None, Some(QuotaName::Default), Some(QuotaName::Named("ann".to_owned()))];
    let all = names().into_iter().flat_map(|user| names().map(|client| QuotaEntity { user: user.clone(), client }));
    all.skip(1).collect()
}

fn put_quota(entity: &QuotaEntity, value: Option<f64>) -> Command<'_> {
    let value = value.map(|value| QuotaValue::new(value).unwrap());
    Command::PutQuota { entity, kind: QuotaKind::RequestPercentage, value }
}

#[test]
fn the_most_specific_quota_holds_and_a_removed_one_does_not() {
    let mut world = world();
    let found = |world: &World<System>| {
        let found = world.model.rule_set().quota("ann", "ann", QuotaKind::RequestPercentage);
        found.map(|(holder, value)| (holder.user.is_some(), holder.client.is_some(), value))
    };
    assert_eq!(found(&world), None);
    // From the most general to the most specific one.
    let mut order = entities();
    let rank = |name: &Option<QuotaName>| match name {
        None => 0,
        Some(QuotaName::Default) => 1,
        Some(QuotaName::Named(_)) => 2,
    };
    order.sort_by_key(|entity| (rank(&entity.user), rank(&entity.client)));
    for (number, entity) in order.iter().enumerate() {
        let value = 1.0 + number as f64;
        assert_eq!(commit(&mut world, put_quota(entity, Some(value))), Ok(true));
        assert_eq!(commit(&mut world, put_quota(entity, Some(value))), Ok(false));
        assert_eq!(found(&world), Some((entity.user.is_some(), entity.client.is_some(), value)));
    }
    for entity in order.iter().rev() {
        assert_eq!(commit(&mut world, put_quota(entity, None)), Ok(true));
        assert_eq!(commit(&mut world, put_quota(entity, None)), Ok(false));
    }
    assert_eq!(found(&world), None);
    assert_eq!(QuotaValue::new(0.0).or(QuotaValue::new(f64::NAN)).or(QuotaValue::new(f64::INFINITY)), None);
    let nothing = QuotaEntity { user: None, client: None };
    assert_eq!(commit(&mut world, put_quota(&nothing, Some(1.0))), Err(Refusal::InvalidName(AccessNameProblem::Empty)));
}

#[test]
fn the_secret_of_a_database_is_given_once_and_shows_nothing() {
    let mut world = world();
    commit(&mut world, Command::CreateUser { user: "root", roles: &[] }).unwrap();
    assert_eq!(world.model.rule_set().secret(), None);
    // A checkpoint from before there were secrets.
    let saved = World::saved(&world.model);
    let earlier = [&[1], &saved[1..saved.len() - 2]].concat();
    assert_eq!(System::load(&mut Decoder::new(&earlier)), Ok(world.model.clone()));
    // One from before there were quotas.
    let earlier = [&[2], &saved[1..saved.len() - 1]].concat();
    assert_eq!(System::load(&mut Decoder::new(&earlier)), Ok(world.model.clone()));

    let first = DatabaseSecret([7; 32]);
    assert_eq!(commit(&mut world, Command::PutSecret { secret: first.clone() }), Ok(true));
    assert_eq!(commit(&mut world, Command::PutSecret { secret: DatabaseSecret([8; 32]) }), Ok(false));
    assert_eq!(world.model.rule_set().secret(), Some(&first));
    let shown = format!("{first:?} {}", Command::PutSecret { secret: first.clone() }.thing());
    assert!(!shown.contains('7'), "{shown}");
}

/// Replaced and dropped credentials leave the disk with the next compaction. Nothing else does.
#[test]
fn only_replaced_and_dropped_credentials_leave_the_disk() {
    let mut world = full();
    let gone = |world: &World<System>| {
        let is_gone = |entry: &quire_model::Entry<'_>| !world.model.survives(entry, Timestamp::ZERO);
        world.log.entries().filter(is_gone).map(|entry| entry.place.position.get()).collect::<Vec<_>>()
    };
    // The user of the second record has a password since the third.
    assert_eq!(gone(&world), [2]);
    commit(&mut world, Command::DropKey { key: id(1) }).unwrap();
    assert_eq!(gone(&world), [2, 4]);
    commit(&mut world, Command::DropScram { user: "root", mechanism: ScramMechanism::Sha512 }).unwrap();
    assert_eq!(gone(&world), [2, 3, 4]);
    commit(&mut world, Command::Disable).unwrap();
    assert_eq!(gone(&world), [2, 3, 4]);
}
