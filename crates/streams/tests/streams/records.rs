//! Topics, records and the offsets of groups.

use crate::support::check;

#[test]
fn offsets_of_a_partition_are_dense_and_every_partition_has_its_own() {
    check(
        "create orders 2
         produce orders/0 a b
         produce orders/1 x
         produce orders/0 c
         offsets orders/0
         offsets orders/1
         fetch orders/0 0 100000
         fetch orders/1 0 100000",
        "topic 0 has 2
         #0/0 0..=1
         #0/1 0..=0
         #0/0 2..=2
         0..3
         0..1
         0: a b, 2: c, then 3
         0: x, then 1",
    );
}

#[test]
fn a_later_part_of_a_commit_sees_what_an_earlier_one_does() {
    check(
        "create a 2 + produce a/1 x y + produce a/1 z + commit g a/1 3 + commit g a/0 0
         produce b/0 or 3 new x + produce b/2 y + produce #1/2 z + create c 1
         create d 1 + create d 2
         topics
         groups",
        "topic 0 has 2 + #0/1 0..=1 + #0/1 2..=2 + group 0 at #0/1 + group 0 at #0/0
         #1/0 0..=0 + #1/2 0..=0 + #1/2 1..=1 + topic 2 has 1
         refused 1: the topic already exists, with 1 partitions
         a#0 of 2, b#1 of 3, c#2 of 1
         g: 2",
    );
}

#[test]
fn a_key_belongs_to_one_of_the_partitions_that_the_topic_has_when_the_commit_is_decided() {
    check(
        "create a 5 + keyed a foobar x
         keyed a foobar y + keyed b foobar or 1 new z
         keyed c foobar z",
        "topic 0 has 5 + #0/1 0..=0
         #0/1 1..=1 + #1/0 0..=0
         refused 0: unknown topic \"c\"",
    );
}

#[test]
fn a_refused_commit_leaves_nothing() {
    check(
        "produce a/0 or 1 new x + commit g a/0 1 + produce nowhere/0 y
         topics
         groups
         produce b/0 or 1 new x",
        "refused 2: unknown topic \"nowhere\"
         none
         none
         #0/0 0..=0",
    );
}

#[test]
fn topics_are_created_on_first_use_only_when_asked_to() {
    check(
        "produce a/0 x
         produce a/0 or 1 new x
         produce a/0 or 7 new y
         produce a/1 or 7 new z
         produce #4/0 or 1 new z
         commit g b/0 1
         topics",
        "refused 0: unknown topic \"a\"
         #0/0 0..=0
         #0/0 1..=1
         refused 0: unknown partition 1: the topic has 1 partitions, counted from 0
         refused 0: unknown topic id 4
         refused 0: unknown topic \"b\"
         a#0 of 1",
    );
}

#[test]
fn a_fetch_starts_at_the_batch_that_holds_the_offset_and_keeps_to_its_bytes() {
    // Each of these batches has 61 bytes and 8 a record.
    check(
        "produce a/0 or 1 new 0 1 2
         produce a/0 3
         produce a/0 4 5
         fetch a/0 0 1
         fetch a/0 0 153
         fetch a/0 0 154
         fetch a/0 2 1000
         fetch a/0 4 0
         fetch a/0 6 1000
         fetch a/0 7 1000
         fetch a/1 0 1000",
        "#0/0 0..=2
         #0/0 3..=3
         #0/0 4..=5
         0: 0 1 2, then 3
         0: 0 1 2, then 3
         0: 0 1 2, 3: 3, then 4
         0: 0 1 2, 3: 3, 4: 4 5, then 6
         4: 4 5, then 6
         then 6
         offset 7 is out of range: the partition starts at 0, its next offset is 6
         unknown partition 1: the topic has 1 partitions, counted from 0",
    );
}

#[test]
fn a_new_partition_is_empty_and_not_missing() {
    check(
        "create a 1
         offsets a/0
         fetch a/0 0 1000
         fetch a/0 1 1000
         at a/0 0
         offsets #3/0",
        "topic 0 has 1
         0..0
         then 0
         offset 1 is out of range: the partition starts at 0, its next offset is 0
         none
         unknown topic id 3",
    );
}

#[test]
fn a_time_finds_the_first_record_that_is_not_earlier() {
    check(
        "produce a/0 or 1 new p@100 q@300 r@200
         produce a/0 s@250 t@400
         at a/0 0
         at a/0 200
         at a/0 300
         at a/0 301
         at a/0 401",
        "#0/0 0..=2
         #0/0 3..=4
         0 of 100
         1 of 300
         1 of 300
         4 of 400
         none",
    );
}

#[test]
fn the_newest_offset_of_a_group_counts_even_when_it_is_lower() {
    check(
        "create a 2
         commit g a/0 5 first
         commit g a/0 2 epoch + commit g a/1 9 + commit h a/0 1
         committed g
         committed h
         committed nobody
         groups",
        "topic 0 has 2
         group 0 at #0/0
         group 0 at #0/0 + group 0 at #0/1 + group 1 at #0/0
         #0/0 2 \"epoch\" Some(5) at 3000, #0/1 9 \"\" None at 3000
         #0/0 1 \"\" None at 3000
         none
         g: 2, h: 1",
    );
}

#[test]
fn names_follow_kafkas_rule_and_groups_may_be_any_text() {
    let (longest, longer) = ("n".repeat(249), "n".repeat(250));
    let (longest_group, longer_group) = ("g".repeat(255), "g".repeat(256));
    check(
        &format!(
            "create A.b_c-9 1
             create . 1
             create .. 1
             create ... 1
             create a/b 1
             produce a/b/0 x
             produce é/0 or 1 new x
             create {longest} 1
             create {longer} 1
             commit größe/☃ #0/0 1
             commit {longest_group} #0/0 1
             commit {longer_group} #0/0 1
             commit  #0/0 1"
        ),
        "topic 0 has 1
         refused 0: invalid topic name: `.` and `..` are reserved
         refused 0: invalid topic name: `.` and `..` are reserved
         topic 1 has 1
         refused 0: invalid topic name: it contains '/', only A-Z a-z 0-9 . _ - are allowed
         refused 0: invalid topic name: it contains '/', only A-Z a-z 0-9 . _ - are allowed
         refused 0: invalid topic name: it contains 'é', only A-Z a-z 0-9 . _ - are allowed
         topic 2 has 1
         refused 0: invalid topic name: it has 250 bytes, at most 249 are allowed
         group 0 at #0/0
         group 1 at #0/0
         refused 0: invalid consumer group name: it has 256 bytes, at most 255 are allowed
         refused 0: invalid consumer group name: it is empty",
    );
}

#[test]
fn limits_are_kept_and_named() {
    let (longest, longer) = ("m".repeat(4096), "m".repeat(4097));
    check(
        &format!(
            "create a 100000
             create b 100001
             create c 0
             commit g a/0 1 {longest}
             commit g a/0 1 {longer}"
        ),
        "topic 0 has 100000
         refused 0: the number of partitions must be between 1 and 100000, got 100001
         refused 0: the number of partitions must be between 1 and 100000, got 0
         group 0 at #0/0
         refused 0: metadata of an offset exceeds 4096 bytes, got 4097",
    );
}
