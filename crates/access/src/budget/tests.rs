//! The budget through its public functions.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tokio::task::yield_now;

use super::{BudgetCaller, BudgetRefusal, ByteBudget, ByteClaim, FREE_BYTES, FrontEnd};

const MIB: usize = 1 << 20;

/// The share of an address is 1 MiB, and 15 MiB are for all.
fn budget() -> ByteBudget {
    ByteBudget::new(16 * MIB as u64)
}

fn from(budget: &ByteBudget, host: u8) -> BudgetCaller {
    budget.caller(FrontEnd::Http, Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))))
}

/// Claims `bytes` besides the uncounted ones, from the address of `host`.
fn filled(budget: &ByteBudget, host: u8, bytes: usize) -> ByteClaim {
    let mut claim = from(budget, host).claim();
    claim.grow(FREE_BYTES + bytes).expect("it is free");
    claim
}

fn used(budget: &ByteBudget) -> usize {
    budget.usage().bytes_used as usize
}

#[test]
fn free_bytes_of_a_connection_are_not_counted_and_all_others_are_released() {
    let budget = budget();
    let caller = from(&budget, 1);
    let (mut one, mut other) = (caller.claim(), caller.claim());
    one.grow(FREE_BYTES).expect("it is free");
    assert_eq!(used(&budget), 0);
    other.grow(1000).expect("it is free");
    assert_eq!(used(&budget), 1000);
    // Which of the two claims is larger makes no difference.
    drop(one);
    assert_eq!(used(&budget), 0);
    other.grow(FREE_BYTES).expect("it is free");
    assert_eq!(used(&budget), 1000);
    other.shrink_to(FREE_BYTES + 1);
    assert_eq!((used(&budget), other.bytes()), (1, FREE_BYTES + 1));
    let part = other.split(FREE_BYTES);
    assert_eq!((used(&budget), part.bytes(), other.bytes()), (1, FREE_BYTES, 1));
    drop((other, part));
    assert_eq!(used(&budget), 0);
}

#[test]
fn claims_that_outlive_their_connection_have_no_free_bytes() {
    let budget = budget();
    let members: Vec<ByteClaim> = (0..16)
        .map(|_| {
            let mut claim = from(&budget, 1).beyond_connection().claim();
            claim.grow(MIB / 16).expect("its share");
            claim
        })
        .collect();
    assert_eq!(used(&budget), MIB);
    assert!(!from(&budget, 1).beyond_connection().claim().try_grow(1), "the address has its share");
    drop(members);
    assert_eq!((used(&budget), budget.usage().refused), (0, [0; 3]));
}

#[test]
fn an_address_holds_its_share_over_all_connections_or_one_larger_item() {
    let budget = budget();
    let first = filled(&budget, 1, MIB / 2);
    let mut second = from(&budget, 1).claim();
    let refused = second.grow(FREE_BYTES + MIB / 2 + 1);
    assert_eq!(refused, Err(BudgetRefusal::ShareExceeded { share_bytes: MIB as u64 }));
    assert_eq!((used(&budget), budget.usage().refused), (MIB / 2, [0, 1, 0]), "a refusal takes nothing");
    second.grow(FREE_BYTES + MIB / 2).expect("its share");
    drop(first);
    second.grow(3 * MIB).expect("the address holds nothing else");
    let part = second.split(3 * MIB);
    second.grow(1).expect("its parts are the same item");
    let mut third = from(&budget, 1).claim();
    assert!(third.grow(FREE_BYTES + 1).is_err());
    filled(&budget, 2, MIB);
    drop((second, part, third));
    assert_eq!((used(&budget), budget.0.addresses().len()), (0, 0), "the accounts are gone");
}

#[test]
fn loopback_connections_and_networks_have_shares_of_their_own() {
    let budget = budget();
    let caller = |peer: Option<&str>| budget.caller(FrontEnd::Grpc, peer.map(|peer| peer.parse().expect("an address")));
    let can_both_hold_a_share = |one: Option<&str>, other: Option<&str>| {
        let (one, other) = (caller(one), caller(other));
        let hold = |caller: &BudgetCaller| {
            let mut claim = caller.claim();
            claim.grow(FREE_BYTES + MIB).map(|()| claim)
        };
        let _first = hold(&one).expect("the first");
        hold(&other).is_ok()
    };
    for peer in [Some("127.0.0.1"), Some("127.9.9.9"), Some("::1"), Some("::ffff:127.0.0.1"), None] {
        assert!(can_both_hold_a_share(peer, peer), "{peer:?}");
    }
    assert!(!can_both_hold_a_share(Some("2001:db8::1"), Some("2001:db8::2")));
    assert!(can_both_hold_a_share(Some("2001:db8::1"), Some("2001:db8:0:1::1")));
    assert!(!can_both_hold_a_share(Some("192.0.2.1"), Some("::ffff:192.0.2.1")));
}

#[test]
fn the_last_sixteenth_is_reserved_and_no_item_is_larger_than_all() {
    let budget = budget();
    let claims: Vec<ByteClaim> = (1..=15).map(|host| filled(&budget, host, MIB)).collect();
    let late = from(&budget, 20);
    assert_eq!(late.claim().grow(FREE_BYTES + 1), Err(BudgetRefusal::Exhausted));
    late.claim().grow(FREE_BYTES).expect("the free bytes of a connection");
    assert_eq!(late.check(FREE_BYTES + MIB, true), Ok(()));
    let mut fetch = late.claim_with_reserve();
    fetch.grow(FREE_BYTES + MIB).expect("the reserve");
    assert!(fetch.grow(1).is_err());
    fetch.grow_anyway(MIB);
    assert_eq!(used(&budget), 17 * MIB, "what was done is answered, and counted");
    drop((claims, fetch));
    let too_large = late.claim().grow(FREE_BYTES + 15 * MIB + 1);
    assert_eq!(too_large, Err(BudgetRefusal::TooLarge { bytes_max: 16 * MIB as u64 }));
    assert_eq!(too_large.map_err(|refusal| refusal.retry_after()), Err(None));
    late.claim().grow(FREE_BYTES + 15 * MIB).expect("it is alone");
    assert_eq!(used(&budget), 0);
}

#[test]
fn as_much_as_is_free_is_given_at_once() {
    let budget = budget();
    let mut all = from(&budget, 1).claim();
    assert_eq!(all.grow_up_to(usize::MAX), FREE_BYTES + 15 * MIB);
    let mut none = from(&budget, 2).claim();
    assert_eq!((none.grow_up_to(usize::MAX), none.grow_up_to(1)), (FREE_BYTES, 0));
    all.shrink_to(FREE_BYTES + 14 * MIB);
    assert_eq!(none.grow_up_to(usize::MAX), MIB);
    let mut other = from(&budget, 1).claim();
    assert_eq!(other.grow_up_to(usize::MAX), FREE_BYTES, "the share of its address is exceeded");
}

/// Polls the future once.
async fn is_ready(future: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = future => true,
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn claims_wait_in_order_and_one_beyond_its_share_lets_others_pass() {
    let budget = budget();
    let mut all = from(&budget, 1).claim();
    all.grow(FREE_BYTES + 15 * MIB).expect("it is alone");
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let start = |host: u8, bytes: usize| {
        let (caller, order) = (from(&budget, host), Arc::clone(&order));
        tokio::spawn(async move {
            let mut claim = caller.claim();
            claim.grow_patiently(FREE_BYTES + bytes).await;
            order.lock().expect("not poisoned").push(host);
            claim
        })
    };
    let beyond_its_share = start(1, 1);
    yield_now().await;
    let (large, small) = (start(2, 2 * MIB), start(3, 1));
    while budget.usage().waiting < 3 {
        yield_now().await;
    }
    all.shrink_to(FREE_BYTES + 14 * MIB);
    for _ in 0..100 {
        yield_now().await;
    }
    assert!(order.lock().expect("not poisoned").is_empty(), "the small one waits behind the large one");
    assert_eq!(from(&budget, 4).claim().grow_up_to(1), 0, "nobody takes what others wait for");
    all.shrink_to(FREE_BYTES + 12 * MIB);
    let held = (large.await.expect("no panic"), small.await.expect("no panic"));
    assert_eq!(*order.lock().expect("not poisoned"), [2, 3]);
    drop(all);
    drop((beyond_its_share.await.expect("no panic"), held));
    assert_eq!((used(&budget), budget.usage().waiting), (0, 0));
}

#[tokio::test]
async fn a_wait_that_is_given_up_takes_nothing_and_a_claim_beyond_the_budget_gets_all() {
    let budget = budget();
    let some = filled(&budget, 1, MIB);
    let mut claim = from(&budget, 2).claim();
    assert!(!is_ready(claim.grow_patiently(100 * MIB)).await);
    assert_eq!((claim.bytes(), used(&budget), budget.usage().waiting), (0, MIB, 0));
    drop(some);
    claim.grow_patiently(100 * MIB).await;
    assert_eq!(claim.bytes(), 15 * MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_however_many_claim_at_once() {
    let budget = ByteBudget::new(1 << 20);
    let tasks: Vec<_> = (0..16_u8)
        .map(|host| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let caller = from(&budget, host % 4);
                for turn in 0..2_000_usize {
                    let mut claim = caller.claim();
                    match turn % 4 {
                        0 => drop(claim.grow(turn * 100)),
                        1 => claim.grow_anyway(turn),
                        2 => drop(claim.grow_up_to(1 << 18)),
                        _ => claim.grow_patiently(FREE_BYTES + (turn << 7)).await,
                    }
                    let _part = claim.split(turn);
                    if turn % 3 == 0 {
                        yield_now().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let usage = budget.usage();
    assert_eq!((usage.bytes_used, usage.waiting), (0, 0));
    assert!(budget.0.addresses().is_empty());
}
