//! The start of a partition: explicit deletions, and retention by a topic's settings.

use crate::support::check;

#[test]
fn deleted_records_are_unreadable_at_once_and_their_offsets_not_used_again() {
    check(
        "produce a/0 or 2 new 0 1 2
         produce a/0 3 4
         trim a/0 1
         offsets a/0
         fetch a/0 0 1000
         fetch a/0 1 1000
         trim a/0 0
         offsets a/0
         trim a/0 6
         trim a/0 4 + produce a/0 5 + trim a/0 6
         offsets a/0
         fetch a/0 6 1000
         produce a/0 6
         trim a/0 all
         offsets a/0
         produce a/0 7
         fetch a/0 7 1000
         trim a/1 all
         offsets a/1
         trim a/2 0",
        "#0/0 0..=2
         #0/0 3..=4
         #0/0 from 1
         1..5
         offset 0 is out of range: the partition starts at 1, its next offset is 5
         0: 0 1 2, 3: 3 4, then 5
         #0/0 from 1
         1..5
         refused 0: offset 6 is invalid: the partition ends at 5
         #0/0 from 4 + #0/0 5..=5 + #0/0 from 6
         6..6
         then 6
         #0/0 6..=6
         #0/0 from 7
         7..7
         #0/0 7..=7
         7: 7, then 8
         #0/1 from 0
         0..0
         refused 0: unknown partition 2: the topic has 2 partitions, counted from 0",
    );
}

#[test]
fn times_are_found_among_the_records_that_are_there() {
    check(
        "produce a/0 or 1 new p@100 q@300 r@200
         produce a/0 s@250 t@400
         latest a/0
         trim a/0 2
         at a/0 0
         at a/0 300
         latest a/0
         trim a/0 all
         at a/0 0
         latest a/0
         produce a/0 u@7
         latest a/0
         at a/0 7
         at a/0 8",
        "#0/0 0..=2
         #0/0 3..=4
         4 of 400
         #0/0 from 2
         2 of 200
         4 of 400
         4 of 400
         #0/0 from 5
         none
         none
         #0/0 5..=5
         5 of 7
         5 of 7
         none",
    );
}

#[test]
fn records_go_when_their_time_is_over_up_to_the_first_that_stays() {
    check(
        "create a 1 ms=10000
         produce a/0 x@1000
         produce a/0 y@90000
         produce a/0 z@2000
         retain
         later 8000
         retain
         offsets a/0
         later 100000
         retain
         offsets a/0
         retain",
        "topic 0 has 1
         #0/0 0..=0
         #0/0 1..=1
         #0/0 2..=2
         all stays
         #0/0 from 1
         1..3
         #0/0 from 3
         3..3
         all stays",
    );
}

#[test]
fn a_partition_keeps_at_least_its_retained_bytes() {
    // Each of these batches has 69 bytes.
    check(
        "create a 1
         produce a/0 0
         produce a/0 1
         produce a/0 2
         retain
         alter a bytes=138
         retain
         offsets a/0
         bytes a/0
         alter a bytes=70
         retain
         bytes a/0
         alter a bytes=1
         retain
         offsets a/0
         bytes a/0
         trim a/0 all
         bytes a/0",
        "topic 0 has 1
         #0/0 0..=0
         #0/0 1..=1
         #0/0 2..=2
         all stays
         topic 0 has 1
         #0/0 from 1
         1..3
         138
         topic 0 has 1
         all stays
         138
         topic 0 has 1
         #0/0 from 2
         2..3
         69
         #0/0 from 3
         69",
    );
}

#[test]
fn a_retention_of_zero_keeps_no_checked_record() {
    check(
        "create a 1 ms=0
         produce a/0 x@1000
         produce a/0 y@90000
         later 1500
         retain
         offsets a/0
         later 100000
         retain
         offsets a/0
         retain
         create b 1 bytes=0
         produce b/0 x
         produce b/0 y
         retain
         offsets b/0
         retain
         produce b/0 z
         offsets b/0
         retain
         alter b bytes=none
         produce b/0 z
         retain",
        "topic 0 has 1
         #0/0 0..=0
         #0/0 1..=1
         #0/0 from 1
         1..2
         #0/0 from 2
         2..2
         all stays
         topic 1 has 1
         #1/0 0..=0
         #1/0 1..=1
         #1/0 from 2
         2..2
         all stays
         #1/0 2..=2
         2..3
         #1/0 from 3
         topic 1 has 1
         #1/0 3..=3
         all stays",
    );
}
