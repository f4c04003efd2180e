//! Checks against a naive evaluator, which compares every rule with the resource by its definition.
//!
//! `PROPTEST_CASES` sets the number of random rule sets.

use proptest::prelude::*;
use quire_model::memory::World;
use quire_model::{Operation, Resource, ResourceKind, Timestamp};
use quire_system::{
    AccessRule, BuiltInRole, Command, KeyId, NewKey, Principal, RuleEffect, RulePattern, RuleSet, RuleSubject,
    SecretHash, System,
};

const USER: &str = "ann";
const ROLE: &str = "clerk";

/// Whether the rule covers the resource, by its definition.
fn covers(rule: &AccessRule, resource: Resource<'_>) -> bool {
    let same_kind = rule.kind == resource.kind;
    match &rule.pattern {
        RulePattern::Any if same_kind => true,
        RulePattern::Literal(name) if same_kind && name == resource.name => true,
        RulePattern::Prefix(prefix) => same_kind && resource.name.starts_with(prefix.as_str()),
        pattern if rule.kind == ResourceKind::Space => match (resource.kind.separator(), pattern) {
            (None, _) | (_, RulePattern::Prefix(_)) => false,
            (Some(separator), RulePattern::Any) => resource.name.contains(separator),
            (Some('.'), RulePattern::Literal(space)) => {
                resource.name.starts_with(&format!("{}.", space.replace('/', ".")))
            }
            (Some(_), RulePattern::Literal(space)) => resource.name.starts_with(&format!("{space}/")),
        },
        _ => false,
    }
}

fn naive(rules: &[AccessRule], operation: Operation, resource: Resource<'_>) -> bool {
    let is_allowed = rules.iter().filter(|rule| covers(rule, resource)).any(|rule| {
        let grants = rule.operation == Operation::All || operation.allowed_by().contains(&rule.operation);
        rule.effect == RuleEffect::Allow && grants
    });
    is_allowed && !naive_denies(rules, operation, resource)
}

fn naive_denies(rules: &[AccessRule], operation: Operation, resource: Resource<'_>) -> bool {
    rules.iter().filter(|rule| covers(rule, resource)).any(|rule| {
        rule.effect == RuleEffect::Deny && (rule.operation == operation || rule.operation == Operation::All)
    })
}

fn commit(world: &mut World<System>, commands: &[Command<'_>]) {
    world.commit(Timestamp::ZERO, commands).expect("the commands are valid");
}

fn add(world: &mut World<System>, subject: &RuleSubject, rules: &[AccessRule]) {
    for rule in rules {
        commit(world, &[Command::AddRule { subject, rule }]);
    }
}

fn principal(name: &str, key: Option<KeyId>) -> Principal {
    Principal { key, ..Principal::named(name) }
}

/// Short names over few characters: many of them are prefixes, components or spaces of others.
fn names() -> impl Strategy<Value = String> {
    "[ab./]{1,5}"
}

fn rules(count_max: usize) -> impl Strategy<Value = Vec<AccessRule>> {
    let kind = proptest::sample::select(ResourceKind::ALL.to_vec());
    let operation = proptest::sample::select(Operation::ALL.to_vec());
    let rule = (any::<bool>(), kind, 0..5, names(), operation).prop_map(|(denies, kind, form, name, operation)| {
        let pattern = match form {
            0 => RulePattern::Any,
            1 | 2 if kind != ResourceKind::Space => RulePattern::Prefix(name),
            _ => RulePattern::Literal(name),
        };
        let effect = if denies { RuleEffect::Deny } else { RuleEffect::Allow };
        AccessRule { effect, kind, pattern, operation }
    });
    proptest::collection::vec(rule, 0..count_max)
}

/// A user whose own and whose key's rules are these, if it has a key.
fn with_rules(own: &[AccessRule], of_key: Option<&[AccessRule]>) -> (RuleSet, Principal) {
    let (mut world, id) = (World::<System>::new(), KeyId::parse("0123456789").unwrap());
    let key = NewKey {
        id,
        secret: SecretHash([1; 32]),
        user: USER,
        rules: of_key,
        expires: Some(Timestamp::from_micros(9)),
        note: "",
    };
    commit(&mut world, &[Command::CreateUser { user: USER, roles: &[] }, Command::CreateKey(key)]);
    add(&mut world, &RuleSubject::Principal(USER.to_owned()), own);
    (world.model.rule_set(), principal(USER, of_key.map(|_| id)))
}

/// Whether the rules allow the operation on every resource of the kind, by the definition.
fn naive_every(rules: &[AccessRule], operation: Operation, kind: ResourceKind) -> bool {
    let is_denied = rules.iter().any(|rule| {
        let may_cover = rule.kind == kind || rule.kind == ResourceKind::Space && kind.separator().is_some();
        let is_of = rule.operation == operation || rule.operation == Operation::All;
        rule.effect == RuleEffect::Deny && may_cover && is_of
    });
    let is_allowed = rules.iter().any(|rule| {
        let grants = rule.operation == Operation::All || operation.allowed_by().contains(&rule.operation);
        rule.effect == RuleEffect::Allow && rule.kind == kind && rule.pattern == RulePattern::Any && grants
    });
    is_allowed && !is_denied
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_and_any_resource_of_a_kind_are_allowed_by_their_definitions(
        own in rules(6),
        of_key in proptest::option::of(rules(4)),
        resources in proptest::collection::vec(names(), 1..6),
    ) {
        let (set, caller) = with_rules(&own, of_key.as_deref());
        let denies = own.iter().chain(of_key.iter().flatten()).any(|rule| rule.effect == RuleEffect::Deny);
        for (kind, operation) in ResourceKind::ALL.into_iter().flat_map(|kind| Operation::ALL.map(|op| (kind, op))) {
            let expected = naive_every(&own, operation, kind)
                && of_key.as_ref().is_none_or(|of_key| naive_every(of_key, operation, kind));
            let every = set.allows_every(&caller, operation, kind);
            prop_assert_eq!(every, expected, "{} {}", operation, kind);
            let allows = |name: &String| set.allows(&caller, operation, Resource::new(kind, name));
            prop_assert!(!every || resources.iter().all(allows), "{operation} {kind}");
            let any = set.allows_any(&caller, operation, kind);
            // A name that a denial excludes may be the only one that is tried.
            prop_assert!(denies || of_key.is_some() || any || !resources.iter().any(allows), "{operation} {kind}");
            prop_assert!(!every || any, "{operation} {kind}");
        }
    }

    #[test]
    fn a_rule_set_allows_what_the_naive_evaluator_allows(
        own in rules(8),
        of_role in rules(4),
        of_everyone in rules(3),
        of_key in proptest::option::of(rules(4)),
        resources in proptest::collection::vec(names(), 1..6),
    ) {
        let mut world = World::<System>::new();
        let id = KeyId::parse("0123456789").unwrap();
        commit(&mut world, &[
            Command::PutRole { role: ROLE, rules: &[] },
            Command::CreateUser { user: USER, roles: &[ROLE] },
            Command::CreateKey(NewKey {
                id,
                secret: SecretHash([1; 32]),
                user: USER,
                rules: of_key.as_deref(),
                expires: Some(Timestamp::from_micros(9)),
                note: "",
            }),
        ]);
        add(&mut world, &RuleSubject::Principal(USER.to_owned()), &own);
        // Half of the role's rules by the role itself, half added to it.
        let (first, second) = of_role.split_at(of_role.len() / 2);
        commit(&mut world, &[Command::PutRole { role: ROLE, rules: first }]);
        add(&mut world, &RuleSubject::Role(ROLE.to_owned()), second);
        add(&mut world, &RuleSubject::Everyone, &of_everyone);
        let set = world.model.rule_set();

        let all: Vec<AccessRule> = own.iter().chain(&of_role).chain(&of_everyone).cloned().collect();
        for name in &resources {
            for kind in ResourceKind::ALL {
                let resource = Resource::new(kind, name);
                for operation in Operation::ALL {
                    let expected = naive(&all, operation, resource);
                    prop_assert_eq!(set.allows(&principal(USER, None), operation, resource), expected);
                    let narrowed = of_key.as_ref().is_none_or(|rules| naive(rules, operation, resource));
                    prop_assert_eq!(set.allows(&principal(USER, Some(id)), operation, resource), expected && narrowed);
                    let stranger = naive(&of_everyone, operation, resource);
                    prop_assert_eq!(set.allows(&principal("bob", None), operation, resource), stranger);
                    let denied = naive_denies(&all, operation, resource);
                    prop_assert_eq!(set.denies(&principal(USER, None), operation, resource), denied);
                    let of_key = of_key.as_ref().is_some_and(|rules| naive_denies(rules, operation, resource));
                    prop_assert_eq!(set.denies(&principal(USER, Some(id)), operation, resource), denied || of_key);
                }
            }
        }
    }
}

fn of_rules(rules: &[AccessRule]) -> RuleSet {
    let mut world = World::<System>::new();
    add(&mut world, &RuleSubject::Principal(USER.to_owned()), rules);
    world.model.rule_set()
}

fn reads(set: &RuleSet, kind: ResourceKind, name: &str) -> bool {
    set.allows(&principal(USER, None), Operation::Read, Resource::new(kind, name))
}

#[test]
fn a_space_covers_names_at_component_borders() {
    use ResourceKind as K;
    let acme = RulePattern::Literal("acme".to_owned());
    let set = of_rules(&[AccessRule::allow(Operation::Read, K::Space, acme)]);
    for (kind, name) in
        [(K::Store, "acme/orders"), (K::Queue, "acme/eu/mails"), (K::Graph, "acme/x"), (K::Space, "acme")]
    {
        assert!(reads(&set, kind, name), "{kind} {name}");
    }
    for (kind, name) in [(K::Topic, "acme.orders"), (K::Group, "acme.eu.billing"), (K::TransactionalId, "acme.t")] {
        assert!(reads(&set, kind, name), "{kind} {name}");
    }
    for (kind, name) in [
        (K::Store, "acme"),
        (K::Store, "acme-x/orders"),
        (K::Store, "acme.orders"),
        (K::Store, "eu/acme/orders"),
        (K::Topic, "acme"),
        (K::Topic, "acme-x.orders"),
        (K::Topic, "acme/orders"),
        (K::Admin, "acme/orders"),
        (K::Cluster, "acme.orders"),
    ] {
        assert!(!reads(&set, kind, name), "{kind} {name}");
    }
}

#[test]
fn every_prefix_of_a_name_counts_not_only_the_longest() {
    let topic = ResourceKind::Topic;
    let prefix = |prefix: &str| RulePattern::Prefix(prefix.to_owned());
    let allow = |text: &str| AccessRule::allow(Operation::Read, topic, prefix(text));
    let set = of_rules(&[
        allow("pay"),
        AccessRule::deny(Operation::All, topic, prefix("pay.secret")),
        allow("pay.secret.open"),
    ]);
    assert!(reads(&set, topic, "pay"));
    assert!(reads(&set, topic, "pay.orders"));
    assert!(reads(&set, topic, "pay.secres"));
    assert!(!reads(&set, topic, "pay.secret"));
    assert!(!reads(&set, topic, "pay.secret.open.x"));
    assert!(!reads(&set, topic, "pa"));
}

#[test]
fn the_built_in_roles_allow_exactly_their_work() {
    use Operation as O;
    use ResourceKind as K;
    let mut world = World::<System>::new();
    for role in BuiltInRole::ALL {
        commit(&mut world, &[Command::CreateUser { user: role.name(), roles: &[role.name()] }]);
    }
    let set = world.model.rule_set();
    let may = |role: BuiltInRole, operation, kind, name| {
        set.allows(&principal(role.name(), None), operation, Resource::new(kind, name))
    };
    for kind in K::ALL {
        for operation in O::ALL {
            assert!(may(BuiltInRole::Admin, operation, kind, "x"));
            for role in [BuiltInRole::Operator, BuiltInRole::Monitor, BuiltInRole::Reader, BuiltInRole::Worker] {
                assert!(!(operation == O::Write && may(role, operation, kind, "x")), "{role:?} writes {kind}");
                assert!(!(operation == O::Delete && may(role, operation, kind, "x")), "{role:?} deletes {kind}");
            }
        }
    }
    for role in BuiltInRole::ALL {
        let is_admin = role == BuiltInRole::Admin;
        for secret in [Resource::ACCESS, Resource::BACKUP] {
            let sees = set.allows(&principal(role.name(), None), O::Describe, secret);
            assert_eq!(sees, is_admin, "{role:?} on {secret}");
        }
        let reads = |kind| may(role, O::Read, kind, "x");
        assert_eq!(reads(K::Store), matches!(role, BuiltInRole::Admin | BuiltInRole::Reader));
        assert_eq!(reads(K::Queue), matches!(role, BuiltInRole::Admin | BuiltInRole::Worker));
    }
    assert!(may(BuiltInRole::Operator, O::Alter, K::Admin, Resource::DATABASE.name));
    assert!(may(BuiltInRole::Operator, O::Alter, K::Queue, "mails"));
    assert!(may(BuiltInRole::Monitor, O::Describe, K::Admin, Resource::DATABASE.name));
    assert!(!may(BuiltInRole::Monitor, O::Alter, K::Queue, "mails"));
    assert!(may(BuiltInRole::Producer, O::Write, K::Topic, "orders"));
    assert!(!may(BuiltInRole::Producer, O::Read, K::Topic, "orders"));
}
