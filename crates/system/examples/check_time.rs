//! Prints the time of a check among three and among 10,000 rules.
//!
//! ```text
//! cargo run --release -p quire-system --example check_time
//! ```

use quire_model::memory::World;
use quire_model::{Operation, Resource, ResourceKind, Timestamp};
use quire_system::{AccessRule, Command, Principal, RulePattern, RuleSubject, System};

/// A measurement has this many rounds, and the fastest one counts: other programs disturb some.
const MEASUREMENTS: usize = 9;

fn main() {
    for count in [3, 10_000] {
        measure(count);
    }
}

fn measure(count: usize) {
    let rules: Vec<AccessRule> = (0..count)
        .map(|number| {
            let name = format!("tenant-{:03}.orders.{number}", number % 100);
            let pattern = match number % 3 {
                0 => RulePattern::Literal(name),
                1 => RulePattern::Prefix(name),
                _ => return AccessRule::allow(Operation::Read, ResourceKind::Space, RulePattern::Literal(name)),
            };
            AccessRule::allow(Operation::Read, ResourceKind::Topic, pattern)
        })
        .collect();
    let mut world = World::<System>::new();
    let subject = RuleSubject::Principal("ann".to_owned());
    for rule in &rules {
        world.commit(Timestamp::ZERO, &[Command::AddRule { subject: &subject, rule }]).expect("the rule is valid");
    }
    let set = world.model.rule_set();
    let names: Vec<String> =
        (0..1_000).map(|number| format!("tenant-{:03}.orders.{}", number % 100, number * 9)).collect();
    let who = Principal::named("ann");
    let rounds = 100;
    let checks = rounds * names.len() as u32;
    let times = (0..MEASUREMENTS).map(|_| {
        let mut allowed = 0u64;
        #[expect(clippy::disallowed_methods, reason = "a measurement by hand")]
        let begun = std::time::Instant::now();
        for _ in 0..rounds {
            for name in &names {
                allowed += u64::from(set.allows(&who, Operation::Read, Resource::new(ResourceKind::Topic, name)));
            }
        }
        let time = begun.elapsed() / checks;
        assert!(allowed > 0);
        time
    });
    println!("{:?} for a check among {count} rules", times.min().expect("there are measurements"));
}
