//! Litmus tests: the model checker explores exactly the results that the orderings allow.

use std::sync::Arc;

use loom::thread;

use super::{AtomicU64, Futex, Ordering};

/// Two threads that each store to their own word and load the other's.
fn store_and_look(store: Ordering, load: Ordering) {
    loom::model(move || {
        let words: Arc<[AtomicU64; 2]> = Arc::default();
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                words[1].store(1, store);
                words[0].load(load)
            })
        };
        words[0].store(1, store);
        let seen = words[1].load(load) + other.join().unwrap();
        assert!(seen > 0, "each missed the other's store");
    });
}

#[test]
fn of_two_threads_that_store_then_load_with_fences_one_sees_the_other() {
    store_and_look(Ordering::SeqCst, Ordering::SeqCst);
}

#[test]
#[should_panic(expected = "each missed the other's store")]
fn of_two_threads_that_store_then_load_without_fences_both_may_miss_the_other() {
    store_and_look(Ordering::Release, Ordering::Acquire);
}

#[test]
fn a_sleeper_is_woken_and_a_thread_about_to_sleep_sees_the_changed_number() {
    loom::model(|| {
        let futex = Arc::<Futex>::default();
        let sleeps = {
            let futex = Arc::clone(&futex);
            thread::spawn(move || {
                while futex.load(Ordering::Acquire) == 0 {
                    futex.wait(0);
                }
            })
        };
        futex.fetch_add(1, Ordering::Release);
        futex.wake(1);
        sleeps.join().unwrap();
    });
}
