//! The life of topics: created, changed, deleted, created again.

use crate::support::check;

#[test]
fn a_deleted_topic_loses_its_records_and_offsets_and_its_name_is_free() {
    check(
        "produce a/0 or 1 new x y
         commit g a/0 1
         create b 1
         delete a
         topics
         committed g
         produce #0/0 z
         offsets #0/0
         delete a
         create a 2
         offsets a/0
         fetch a/0 0 1000
         produce a/0 z
         fetch a/0 0 1000",
        "#0/0 0..=1
         group 0 at #0/0
         topic 1 has 1
         topic 0 is gone
         b#1 of 1
         none
         refused 0: unknown topic id 0
         unknown topic id 0
         refused 0: unknown topic \"a\"
         topic 2 has 2
         0..0
         then 0
         #2/0 0..=0
         0: z, then 1",
    );
}

#[test]
fn a_commit_sees_its_own_deletions_and_changes() {
    check(
        "create a 1 + delete a + create a 2 + produce a/1 x
         topics
         delete a + produce a/0 x
         delete a + produce a/0 or 3 new y + partitions a 5 + produce a/4 z
         topics
         partitions a 6 + alter a batch=80 + produce a/5 x + produce a/5 a-longer-record",
        "topic 0 has 1 + topic 0 is gone + topic 1 has 2 + #1/1 0..=0
         a#1 of 2
         refused 1: unknown topic \"a\"
         topic 1 is gone + #2/0 0..=0 + topic 2 has 5 + #2/4 0..=0
         a#2 of 5
         refused 3: batch_bytes_max of the topic is exceeded: the limit is 80, got 83",
    );
}

#[test]
fn partitions_are_added_and_never_taken() {
    check(
        "create a 2
         partitions a 4
         produce a/3 x
         partitions a 4
         partitions a 3
         partitions a 100001
         partitions b 3",
        "topic 0 has 2
         topic 0 has 4
         #0/3 0..=0
         refused 0: the number of partitions must exceed the current 4, got 4
         refused 0: the number of partitions must exceed the current 4, got 3
         refused 0: the number of partitions must be between 1 and 100000, got 100001
         refused 0: unknown topic \"b\"",
    );
}

#[test]
fn settings_are_changed_one_by_one() {
    check(
        "create a 1 ms=5000 bytes=100 cleanup=2
         settings a
         alter a batch=69
         alter a ms=none codec=4 cleanup=0 tombstones=7
         settings a
         produce a/0 x
         produce a/0 xy
         alter a batch=0
         create b 1
         settings b",
        "topic 0 has 1
         Some(5000) Some(100) 2147483647 none compact,delete 86400000
         topic 0 has 1
         topic 0 has 1
         None Some(100) 69 zstd delete 7
         #0/0 0..=0
         refused 0: batch_bytes_max of the topic is exceeded: the limit is 69, got 70
         refused 0: batch_bytes_max must be at least 1
         topic 1 has 1
         None None 2147483647 none delete 86400000",
    );
}
