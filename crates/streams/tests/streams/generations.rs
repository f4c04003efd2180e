//! Groups: their generations fence, and they can be forgotten.

use crate::support::check;

#[test]
fn a_member_of_an_earlier_generation_commits_nothing() {
    check(
        "create a 1
         member g 0 a/0 1
         generation g 1
         member g 1 a/0 2
         generation g 2 i=m j=n
         member g 1 a/0 3
         member g 3 a/0 3
         committed g
         member g 2 a/0 4
         commit g a/0 5
         committed g
         statics g
         generation g 3
         statics g",
        "topic 0 has 1
         group 0 at #0/0
         group 0 goes on
         group 0 at #0/0
         group 0 goes on
         refused 0: generation 1 of the group is stale, current generation is 2
         refused 0: generation 3 of the group is stale, current generation is 2
         #0/0 2 \"\" None at 4000
         group 0 at #0/0
         group 0 at #0/0
         #0/0 5 \"\" None at 10000
         i=m, j=n
         group 0 goes on
         none",
    );
}

#[test]
fn two_coordinators_can_not_begin_the_same_generation() {
    check(
        "generation g 1
         generation g 1
         generation g 3
         generation g 2 + generation g 3
         generation g 3",
        "group 0 goes on
         refused 0: generation 1 of the group is stale, current generation is 1
         refused 0: generation 3 of the group is stale, current generation is 1
         group 0 goes on + group 0 goes on
         refused 0: generation 3 of the group is stale, current generation is 3",
    );
}

#[test]
fn offsets_and_groups_can_be_forgotten() {
    check(
        "create a 2
         commit g a/0 1 + commit g a/1 2
         forget g a/0
         committed g
         forget g a/0
         forget h a/0
         forget g a/2
         disband g
         groups
         disband g
         commit g a/0 3 + disband g + commit g a/0 4
         committed g
         groups",
        "topic 0 has 2
         group 0 at #0/0 + group 0 at #0/1
         group 0 knows nothing of #0/0
         #0/1 2 \"\" None at 2000
         group 0 knows nothing of #0/0
         refused 0: unknown consumer group \"h\"
         refused 0: unknown partition 2: the topic has 2 partitions, counted from 0
         group 0 is gone
         none
         refused 0: unknown consumer group \"g\"
         group 1 at #0/0 + group 1 is gone + group 2 at #0/0
         #0/0 4 \"\" None at 11000
         g: 1",
    );
}

#[test]
fn a_static_member_that_is_replaced_stays_so_within_its_generation() {
    check(
        "generation g 1 i=m
         replace g 1 i=n
         statics g
         replace g 2 i=o
         replace h 0 i=o
         generation g 2 i=o
         statics g",
        "group 0 goes on
         group 0 has another member
         i=n
         refused 0: generation 2 of the group is stale, current generation is 1
         refused 0: unknown consumer group \"h\"
         group 0 goes on
         i=o",
    );
}

#[test]
fn offsets_are_committed_in_what_lies_outside_and_nothing_else_is_done_with_it() {
    check(
        "commit g %7/0 12
         committed g
         commit g %7/1 1
         produce %7/0 x
         delete %7
         forget g %7/0
         committed g",
        "group 0 at #2147483655/0
         #2147483655/0 12 \"\" None at 1000
         refused 0: unknown partition 1: the topic has 1 partitions, counted from 0
         refused 0: unknown topic id 2147483655
         refused 0: unknown topic id 2147483655
         group 0 knows nothing of #2147483655/0
         none",
    );
}
