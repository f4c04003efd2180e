//! Idempotent producers: a batch that is sent again is stored once, and nothing is stored out of
//! order.

use crate::support::check;

#[test]
fn a_batch_that_is_sent_again_is_answered_with_its_first_offset() {
    check(
        "create a 2
         init
         sent 0 0 0 a/0 x y
         sent 0 0 2 a/0 z
         sent 0 0 0 a/0 x y
         sent 0 0 2 a/0 z
         sent 0 0 3 a/0 w
         offsets a/0
         senders a/0
         sent 0 0 0 a/1 v + sent 0 0 0 a/1 v + sent 0 0 1 a/1 w
         offsets a/1",
        "topic 0 has 2
         producer 0
         #0/0 0..=1
         #0/0 2..=2
         #0/0 0..=1 again
         #0/0 2..=2 again
         #0/0 3..=3
         0..4
         0 epoch 0 up to 3
         #0/1 0..=0 + #0/1 0..=0 again + #0/1 1..=1
         0..2",
    );
}

#[test]
fn five_batches_are_known_and_older_ones_are_out_of_order() {
    check(
        "create a 1
         init
         sent 0 0 0 a/0 x
         sent 0 0 1 a/0 x
         sent 0 0 2 a/0 x
         sent 0 0 3 a/0 x
         sent 0 0 4 a/0 x
         sent 0 0 5 a/0 x
         sent 0 0 1 a/0 x
         sent 0 0 0 a/0 x
         sent 0 0 7 a/0 x
         sent 0 0 1 a/0 x x
         offsets a/0",
        "topic 0 has 1
         producer 0
         #0/0 0..=0
         #0/0 1..=1
         #0/0 2..=2
         #0/0 3..=3
         #0/0 4..=4
         #0/0 5..=5
         #0/0 1..=1 again
         refused 0: out-of-order sequence of producer 0: expected 6, got 0
         refused 0: out-of-order sequence of producer 0: expected 6, got 7
         refused 0: out-of-order sequence of producer 0: expected 6, got 1
         0..6",
    );
}

#[test]
fn a_gap_is_refused_also_at_the_start_and_within_a_commit() {
    check(
        "create a 1
         init + init
         sent 1 0 3 a/0 x
         sent 1 0 0 a/0 x + sent 1 0 2 a/0 x
         offsets a/0
         sent 1 0 0 a/0 x + sent 1 0 1 a/0 x + sent 1 0 2 a/0 x
         init + sent 2 0 4 a/0 x
         init + sent 2 0 0 a/0 x
         sent 7 0 0 a/0 x
         sent 2 -1 0 a/0 x",
        "topic 0 has 1
         producer 0 + producer 1
         refused 0: out-of-order sequence of producer 1: expected 0, got 3
         refused 1: out-of-order sequence of producer 1: expected 1, got 2
         0..0
         #0/0 0..=0 + #0/0 1..=1 + #0/0 2..=2
         refused 1: out-of-order sequence of producer 2: expected 0, got 4
         producer 2 + #0/0 3..=3
         refused 0: unknown producer 7: initialize the producer again
         refused 0: invalid batch of producer 2: epoch -1, sequence 0",
    );
}

#[test]
fn a_later_epoch_begins_at_0_and_fences_the_one_before_in_its_partition_only() {
    check(
        "create a 2
         init
         sent 0 0 0 a/0 x + sent 0 0 0 a/1 x
         sent 0 1 1 a/0 y
         sent 0 1 0 a/0 y
         sent 0 0 1 a/0 x
         sent 0 0 1 a/1 x
         sent 0 0 0 a/0 x
         senders a/0
         senders a/1",
        "topic 0 has 2
         producer 0
         #0/0 0..=0 + #0/1 0..=0
         refused 0: out-of-order sequence of producer 0: expected 0, got 1
         #0/0 1..=1
         refused 0: producer 0 is fenced: epoch 0 is stale, current epoch is 1
         #0/1 1..=1
         refused 0: producer 0 is fenced: epoch 0 is stale, current epoch is 1
         0 epoch 1 up to 0
         0 epoch 0 up to 1",
    );
}

#[test]
fn behind_the_last_sequence_comes_0() {
    check(
        "create a 1
         init
         later 90000000
         init
         sent 0 0 2147483646 a/0 x y z
         sent 0 0 1 a/0 w
         sent 0 0 2147483646 a/0 x y z",
        "topic 0 has 1
         producer 0
         producer 1
         #0/0 0..=2
         #0/0 3..=3
         #0/0 0..=2 again",
    );
}

#[test]
fn a_producer_that_was_silent_for_a_day_is_forgotten_and_may_go_on() {
    check(
        "create a 1
         init
         sent 0 0 0 a/0 x
         later 43200000
         sent 0 0 1 a/0 x
         later 80000000
         init
         sent 0 0 1 a/0 x
         later 90000000
         init
         senders a/0
         sent 0 0 2 a/0 x",
        "topic 0 has 1
         producer 0
         #0/0 0..=0
         #0/0 1..=1
         producer 1
         #0/0 1..=1 again
         producer 2
         none
         #0/0 2..=2",
    );
}

#[test]
fn in_a_topic_that_is_newer_than_the_producer_any_sequence_may_be_the_first() {
    // A client does not know that the topic of this name is another one.
    check(
        "create a 1
         init
         sent 0 0 0 a/0 x
         delete a
         create a 1
         sent 0 0 1 a/0 y
         sent 0 0 1 a/0 y",
        "topic 0 has 1
         producer 0
         #0/0 0..=0
         topic 0 is gone
         topic 1 has 1
         #1/0 0..=0
         #1/0 0..=0 again",
    );
}
