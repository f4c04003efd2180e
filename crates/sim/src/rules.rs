//! Changes of access rules among crashes, and clients that are checked by them. One seed is one
//! run, except for the text of the administrator's key.
//!
//! Processes die within any operation on the disk, and power is lost. After each opening:
//!
//! * users and rules are those after the last acknowledged change, or after the one that was
//!   interrupted;
//! * each change has its audit event, and an interrupted one has both or none;
//! * each queue has the jobs of the clients that had the right at that moment.
//!
//! Another process sometimes has the database open, and checks clients by the rules that the first
//! one has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use fastrand::Rng;
use quire::events::{Query, ReadOptions};
use quire::system::{AccessRule, Command, Principal, RulePattern, RuleSet, RuleSubject};
use quire::{
    AUDIT_STORE, Background, Database, Durability, Duty, Error, ErrorKind, Guard, ManualClock, NewJob, Operation,
    Permissions, Resource, ResourceKind, Timestamp,
};

use crate::disk::{ArmedFault, Effect, Process, SimDisk};
use crate::plan;
use crate::trace::Trace;

const SEEDS: u64 = 150;
const STEPS: usize = 120;
const USERS: u8 = 3;
const QUEUES: u8 = 3;
/// One of this many steps arms a fault.
const STEPS_PER_FAULT: u8 = 8;
/// A fault meets one of the next operations on the disk.
const OPERATIONS_MAX: u64 = 40;

/// The users and the rules, each of a user on a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NaiveRules {
    /// Whether each user is enabled.
    users: BTreeMap<u8, bool>,
    /// Whether a rule allows or denies a user to write to a queue.
    rules: BTreeSet<(u8, u8, bool)>,
    changes: u64,
}

/// A change that has an effect.
#[derive(Debug, Clone, Copy)]
enum RuleChange {
    Create(u8),
    Drop(u8),
    Enable(u8, bool),
    Add(u8, u8, bool),
    Remove(u8, u8, bool),
}

impl NaiveRules {
    fn allows(&self, user: u8, queue: u8) -> bool {
        let has = |is_allowed| self.rules.contains(&(user, queue, is_allowed));
        self.users.get(&user) == Some(&true) && has(true) && !has(false)
    }

    /// A random change that has an effect.
    fn draw(&self, random: &mut Rng) -> RuleChange {
        loop {
            let (user, queue, flag) = (random.u8(0..USERS), random.u8(0..QUEUES), random.bool());
            let known = self.users.get(&user).copied();
            let has = self.rules.contains(&(user, queue, flag));
            match random.u8(0..10) {
                0..=1 if known.is_none() => return RuleChange::Create(user),
                2 if known.is_some() => return RuleChange::Drop(user),
                3 if known.is_some_and(|is_enabled| is_enabled != flag) => return RuleChange::Enable(user, flag),
                4..=7 if known.is_some() && !has => return RuleChange::Add(user, queue, flag),
                8..=9 if has => return RuleChange::Remove(user, queue, flag),
                _ => {}
            }
        }
    }

    fn after(&self, change: RuleChange) -> Self {
        let mut next = self.clone();
        match change {
            RuleChange::Create(user) => drop(next.users.insert(user, true)),
            RuleChange::Drop(user) => {
                next.users.remove(&user);
                next.rules.retain(|(own, ..)| *own != user);
            }
            RuleChange::Enable(user, is_enabled) => drop(next.users.insert(user, is_enabled)),
            RuleChange::Add(user, queue, flag) => drop(next.rules.insert((user, queue, flag))),
            RuleChange::Remove(user, queue, flag) => drop(next.rules.remove(&(user, queue, flag))),
        }
        next.changes += 1;
        next
    }
}

fn user_name(user: u8) -> String {
    format!("user-{user}")
}

fn queue_name(queue: u8) -> String {
    format!("queue-{queue}")
}

fn carry_out(database: &Database, change: RuleChange) -> Result<(), Error> {
    let (RuleChange::Create(user)
    | RuleChange::Drop(user)
    | RuleChange::Enable(user, _)
    | RuleChange::Add(user, ..)
    | RuleChange::Remove(user, ..)) = change;
    let name = user_name(user);
    let subject = RuleSubject::Principal(name.clone());
    let rule_of = |queue, is_allowed| {
        let pattern = RulePattern::Literal(queue_name(queue));
        if is_allowed {
            AccessRule::allow(Operation::Write, ResourceKind::Queue, pattern)
        } else {
            AccessRule::deny(Operation::Write, ResourceKind::Queue, pattern)
        }
    };
    let rule;
    let command = match change {
        RuleChange::Create(_) => Command::CreateUser { user: &name, roles: &[] },
        RuleChange::Drop(_) => Command::DropUser { user: &name },
        RuleChange::Enable(_, is_enabled) => Command::EnableUser { user: &name, is_enabled },
        RuleChange::Add(_, queue, is_allowed) => {
            rule = rule_of(queue, is_allowed);
            Command::AddRule { subject: &subject, rule: &rule }
        }
        RuleChange::Remove(_, queue, is_allowed) => {
            rule = rule_of(queue, is_allowed);
            Command::RemoveRule { subject: &subject, rule: &rule }
        }
    };
    database.access().change(&[command]).map(drop)
}

/// A client that is checked by the newest rules.
#[derive(Debug)]
struct Client {
    owner: Database,
    principal: Principal,
    rules: RwLock<Arc<RuleSet>>,
}

impl Client {
    fn database(owner: &Database, user: u8) -> Database {
        let rules = RwLock::new(owner.access().rules());
        let client = Client { owner: owner.clone(), principal: Principal::named(user_name(user)), rules };
        owner.guarded(Arc::new(Guard::new(Arc::new(client))))
    }

    fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Permissions for Client {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.rules().allows(&self.principal, operation, resource)
    }

    fn denies(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.rules().denies(&self.principal, operation, resource)
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.rules().allows_every(&self.principal, operation, kind)
    }

    fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.rules().allows_any(&self.principal, operation, kind)
    }

    fn refresh(&self) -> quire::Result<()> {
        let newest = self.owner.access().checked_rules()?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = newest;
        Ok(())
    }
}

/// What a run did.
#[derive(Debug, Default)]
struct RulesReport {
    changes: u64,
    deaths: u64,
    refused: u64,
    committed: u64,
}

struct RulesWorld {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    process: Process,
    database: Option<Database>,
    rules: NaiveRules,
    /// The rules after the change that was interrupted.
    maybe: Option<NaiveRules>,
    /// The jobs of each queue.
    jobs: [u64; QUEUES as usize],
    /// The queue of an interrupted enqueue.
    maybe_job: Option<u8>,
    /// The audit events before the first change.
    audited: u64,
    report: RulesReport,
}

impl RulesWorld {
    fn new(seed: u64, random: &mut Rng) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_790_000_000_000)));
        let disk = SimDisk::new(seed, plan::pace(random), Arc::clone(&clock), Trace::silent());
        let process = disk.process();
        let mut world = RulesWorld {
            disk,
            clock,
            process,
            database: None,
            rules: NaiveRules::default(),
            maybe: None,
            jobs: [0; QUEUES as usize],
            maybe_job: None,
            audited: 0,
            report: RulesReport::default(),
        };
        let database = world.open_in(world.process.clone()).expect("no fault is armed");
        database.access().init("root").expect("enabled");
        world.audited = audit_events(&database);
        world.database = Some(database);
        world
    }

    fn open_in(&self, process: Process) -> quire::Result<Database> {
        let builder = Database::builder("/data").durability(Durability::Sync).segment_bytes(1 << 16);
        let builder = builder.checkpoint_bytes(1 << 13).clock(Arc::clone(&self.clock) as _);
        builder.storage(Arc::new(process)).background(Background::Caller).open()
    }

    fn database(&self) -> Database {
        self.database.clone().expect("it is open")
    }

    fn step(&mut self, random: &mut Rng) {
        if random.u8(0..STEPS_PER_FAULT) == 0 {
            let after = random.bool();
            let effect = if random.bool() { Effect::Kill { after } } else { Effect::PowerCut { after } };
            self.disk.arm(ArmedFault { after: random.u64(0..OPERATIONS_MAX), operations: &[], effect });
        }
        match random.u8(0..20) {
            0..=8 => self.change(random),
            9..=13 => self.enqueue(&self.database(), random),
            14 => self.enqueue_by_another(random),
            15 => drop(self.database().checkpoint()),
            16 => drop(self.database().carry_out(Duty::Compact)),
            17 => self.disk.kill(&self.process).expect("it is alive"),
            18 => self.disk.cut_power().expect("it has power"),
            _ => self.reopen(),
        }
        if !self.process.lives() {
            self.report.deaths += 1;
            self.reopen();
        }
    }

    fn change(&mut self, random: &mut Rng) {
        let change = self.rules.draw(random);
        let next = self.rules.after(change);
        match carry_out(&self.database(), change) {
            Ok(()) => {
                self.rules = next;
                self.report.changes += 1;
                // No request after it is checked by older rules.
                if self.process.lives() {
                    self.check_rules();
                }
            }
            Err(error) => {
                assert!(!self.process.lives(), "{change:?}: {error}");
                self.maybe = Some(next);
            }
        }
    }

    /// A client enqueues a job, through this opening of the database.
    fn enqueue(&mut self, owner: &Database, random: &mut Rng) {
        let (user, queue) = (random.u8(0..USERS), random.u8(0..QUEUES));
        let enqueued = Client::database(owner, user).queue(&queue_name(queue)).enqueue(NewJob::new("job"));
        match enqueued {
            Ok(_) => {
                assert!(self.rules.allows(user, queue), "user {user} may not write to queue {queue}");
                self.jobs[usize::from(queue)] += 1;
                self.report.committed += 1;
            }
            Err(error) if !self.process.lives() => {
                let is_permitted = self.rules.allows(user, queue);
                assert!(error.kind() != ErrorKind::NotPermitted || !is_permitted, "{error}");
                self.maybe_job = is_permitted.then_some(queue);
            }
            Err(error) => {
                assert!(!self.rules.allows(user, queue), "user {user} may write to queue {queue}: {error}");
                self.report.refused += 1;
            }
        }
    }

    /// Another process has the database open, and a client of it enqueues a job after a change by
    /// the first one.
    fn enqueue_by_another(&mut self, random: &mut Rng) {
        self.disk.disarm();
        let other = self.disk.another();
        let database = self.open_in(other.clone()).expect("no fault is armed");
        self.enqueue(&database, random);
        self.change(random);
        self.enqueue(&database, random);
        drop(database);
        self.disk.bury(&other).expect("it has ended");
    }

    /// Opens the database after the process has ended in any way.
    fn reopen(&mut self) {
        drop(self.database.take());
        self.disk.bury(&self.process).expect("it has ended");
        self.disk.disarm();
        self.process = self.disk.process();
        let database = self.open_in(self.process.clone()).expect("no fault is armed");
        self.database = Some(database);
        let changes = audit_events(&self.database()) - self.audited;
        if let Some(next) = self.maybe.take()
            && next.changes == changes
        {
            self.rules = next;
        }
        assert_eq!(changes, self.rules.changes, "each change has its audit event");
        self.check_rules();
        for queue in 0..QUEUES {
            let found = self.database().queue(&queue_name(queue)).stats().expect("readable");
            let found = found.map_or(0, |stats| stats.pending);
            let jobs = &mut self.jobs[usize::from(queue)];
            let is_possible = found == *jobs || self.maybe_job == Some(queue) && found == *jobs + 1;
            assert!(is_possible, "queue {queue} has {found} jobs, expected {jobs}");
            *jobs = found;
        }
        self.maybe_job = None;
    }

    fn check_rules(&self) {
        let rules = self.database().access().rules();
        assert!(rules.is_enabled());
        for user in 0..USERS {
            let principal = Principal::named(user_name(user));
            assert_eq!(rules.has_user(&user_name(user)), self.rules.users.get(&user) == Some(&true));
            for queue in 0..QUEUES {
                let name = queue_name(queue);
                let found = rules.allows(&principal, Operation::Write, Resource::new(ResourceKind::Queue, &name));
                assert_eq!(found, self.rules.allows(user, queue), "user {user} and queue {queue}: {:?}", self.rules);
            }
        }
    }
}

fn audit_events(database: &Database) -> u64 {
    let read = database.events(AUDIT_STORE).read(&Query::all(), ReadOptions::default()).expect("readable");
    assert_eq!(read.events.len() as u64, database.events(AUDIT_STORE).head().expect("readable").get());
    read.events.len() as u64
}

#[test]
fn rules_hold_through_crashes_and_no_client_commits_without_a_right() {
    let mut total = RulesReport::default();
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let mut world = RulesWorld::new(seed, &mut random);
        (0..STEPS).for_each(|_| world.step(&mut random));
        world.reopen();
        let RulesReport { changes, deaths, refused, committed } = world.report;
        total.changes += changes;
        total.deaths += deaths;
        total.refused += refused;
        total.committed += committed;
    }
    let RulesReport { changes, deaths, refused, committed } = total;
    assert!(changes > 3_000 && deaths > 1_000 && refused > 1_000 && committed > 300, "{total:?}");
}
