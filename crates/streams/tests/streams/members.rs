//! Members by lease: shares, commits, and expired leases; and records that are kept for groups.

use crate::support::check;

#[test]
fn members_share_the_partitions_and_none_moves_without_need() {
    check(
        "create a 5
         join g a 10000
         shares g a
         join g a 10000
         shares g a
         join g a 10000
         shares g a
         leave g a 0
         shares g a
         leave g a 0
         partitions a 7
         shares g a
         leave g a 1 + leave g a 2
         shares g a",
        "topic 0 has 5
         group 0 has member 0
         0: [0, 1, 2, 3, 4] to 12000
         group 0 has member 1
         0: [0, 1, 2] to 12000, 1: [3, 4] to 14000
         group 0 has member 2
         0: [0, 1] to 12000, 1: [3, 4] to 14000, 2: [2] to 16000
         group 0 goes on without the member
         1: [0, 3, 4] to 14000, 2: [1, 2] to 16000
         group 0 goes on without the member
         topic 0 has 7
         1: [0, 3, 4, 5] to 14000, 2: [1, 2, 6] to 16000
         group 0 goes on without the member + group 0 goes on without the member
         none",
    );
}

#[test]
fn a_member_commits_where_it_reads_and_nowhere_else() {
    check(
        "create a 2
         join g a 10000
         owner g 0 1 a/1 1
         join g a 10000
         owner g 0 1 a/1 2
         owner g 0 1 a/0 2
         owner g 1 2 a/1 3 + leave g a 1 + owner g 1 2 a/1 4
         owner g 7 2 a/1 4
         leave g a 1 + owner g 0 3 a/1 4
         owner g 0 1 a/1 5
         committed g",
        "topic 0 has 2
         group 0 has member 0
         group 0 at #0/1
         group 0 has member 1
         refused 0: member 0 is fenced: another member owns partition 1, or owned it in between; rejoin the group
         group 0 at #0/0
         refused 2: unknown member 1: rejoin the group
         refused 0: unknown member 7: rejoin the group
         group 0 goes on without the member + group 0 at #0/1
         refused 0: member 0 is fenced: another member owns partition 1, or owned it in between; rejoin the group
         #0/0 2 \"\" None at 6000, #0/1 4 \"\" None at 9000",
    );
}

#[test]
fn an_expired_lease_ends_with_the_next_action_of_another_member() {
    check(
        "create a 2
         join g a 3000
         join g a 30000
         later 10000
         owner g 0 1 a/0 1
         shares g a
         later 10000
         renew g a 1
         shares g a
         owner g 0 1 a/0 2
         renew g a 0
         later 100000
         renew g a 1
         shares g a
         later 100000
         join g a 1000
         shares g a",
        "topic 0 has 2
         group 0 has member 0
         group 0 has member 1
         group 0 at #0/0
         0: [0] to 18000, 1: [1] to 33000
         group 0 goes on with the member
         1: [0, 1] to 58000
         refused 0: unknown member 0: rejoin the group
         refused 0: unknown member 0: rejoin the group
         group 0 goes on with the member
         1: [0, 1] to 163000
         group 0 has member 2
         2: [0, 1] to 237000",
    );
}

#[test]
fn a_place_with_a_name_is_taken_over_at_once() {
    check(
        "create a 3
         join g a 10000 one
         join g a 10000 two
         join g a 10000 one
         shares g a
         owner g 0 1 a/0 1
         join g a 10000 two + join g a 10000 two + owner g 4 5 a/2 3
         shares g a",
        "topic 0 has 3
         group 0 has member 0
         group 0 has member 1
         group 0 has member 2
         1: [0, 2] to 13000, 2: [1] to 14000
         refused 0: unknown member 0: rejoin the group
         group 0 has member 3 + group 0 has member 4 + group 0 at #0/2
         2: [0, 1] to 14000, 4: [2] to 17000",
    );
}

#[test]
fn a_group_is_led_by_leases_or_by_a_coordinator() {
    check(
        "create a 2
         generation g 1
         member g 1 a/0 1
         join g a 10000
         member g 1 a/0 2
         generation g 3
         disband g
         disband g leases
         leave g a 0
         generation g 3
         disband g
         disband g leases
         join g a 10000 + disband g
         join g a 10000 + disband g all
         groups",
        "topic 0 has 2
         group 0 goes on
         group 0 at #0/0
         group 0 has member 0
         refused 0: generation 1 of the group is stale, current generation is 2
         refused 0: the group has 1 members with a running lease: stop them first
         refused 0: the group has 1 members with a running lease: stop them first
         refused 0: the group has 1 members with a running lease: stop them first
         group 0 goes on without the member
         group 0 goes on
         refused 0: the group may have members of generation 3: stop them first
         group 0 is gone
         refused 1: the group has 1 members with a running lease: stop them first
         group 1 has member 1 + group 1 is gone
         none",
    );
}

#[test]
fn a_refused_member_gets_the_reason() {
    check(
        "join g a 1000
         create a 1
         join g a 0
         join g a 3600001
         join g a 3600000
         delete a
         renew g a 0
         create a 1
         shares g a
         leave g a 0",
        "refused 0: unknown topic \"a\"
         topic 0 has 1
         refused 0: lease_ms must be between 1 and 3600000, got 0
         refused 0: lease_ms must be between 1 and 3600000, got 3600001
         group 0 has member 0
         topic 0 is gone
         refused 0: unknown topic \"a\"
         topic 1 has 1
         none
         group 0 goes on without the member",
    );
}

#[test]
fn unread_records_of_a_protecting_group_outlive_retention() {
    check(
        "create a 1 ms=1000
         produce a/0 0@0 1@0
         produce a/0 2@0
         protect g a
         retain
         commit g a/0 2
         retain
         offsets a/0
         commit h a/0 0 + protect h a + keep a/0 all
         commit h a/0 3 + keep a/0 all
         offsets a/0
         commit g a/0 3 + unprotect h a + forget h a/0 + keep a/0 all
         offsets a/0
         produce a/0 3@0
         trim a/0 all
         unprotect g a
         produce a/0 4@0
         retain",
        "topic 0 has 1
         #0/0 0..=1
         #0/0 2..=2
         group 0 is cared for
         all stays
         group 0 at #0/0
         #0/0 from 2
         2..3
         group 1 at #0/0 + group 1 is cared for + #0/0 from 2
         group 1 at #0/0 + #0/0 from 2
         2..3
         group 0 at #0/0 + group 1 is cared for + group 1 knows nothing of #0/0 + #0/0 from 3
         3..3
         #0/0 3..=3
         #0/0 from 4
         group 0 is cared for
         #0/0 4..=4
         #0/0 from 5",
    );
}

#[test]
fn a_deleted_group_protects_nothing_and_a_new_topic_of_the_name_is_not_protected() {
    check(
        "create a 1 ms=1000
         produce a/0 0@0
         protect g a
         disband g
         retain
         protect g a
         delete a
         create a 1 ms=1000
         produce a/0 0@0
         retain",
        "topic 0 has 1
         #0/0 0..=0
         group 0 is cared for
         group 0 is gone
         #0/0 from 1
         group 1 is cared for
         topic 0 is gone
         topic 1 has 1
         #1/0 0..=0
         #1/0 from 1",
    );
}
