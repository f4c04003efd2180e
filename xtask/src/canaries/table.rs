//! The deliberate defects. Each is a change of one place of the source, which must occur exactly
//! once. `ON` in it is true when this defect is selected.

/// A deliberate defect.
#[derive(Debug)]
pub(crate) struct Canary {
    pub(crate) name: &'static str,
    /// The defect, in words.
    pub(crate) defect: &'static str,
    /// The file, from the directory `crates`.
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    /// The test that notices it, when the simulation can't, because other checks prevent every
    /// consequence.
    pub(crate) test: Option<Test>,
}

/// A test: a package, the name of its test binary, or `lib` or `loom` for a unit test, and the
/// test's name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test {
    pub(crate) package: &'static str,
    pub(crate) target: &'static str,
    pub(crate) name: &'static str,
}

macro_rules! canaries {
    ($($name:literal, $defect:literal, $file:literal, $from:literal => $to:literal
        $(, by $package:literal $target:literal $test:literal)?;)*) => {
        &[$(Canary {
            name: $name,
            defect: $defect,
            file: $file,
            from: $from,
            to: $to,
            test: [$(Some(Test { package: $package, target: $target, name: $test }),)? None][0],
        }),*]
    };
}

pub(crate) const CANARIES: &[Canary] = canaries! {
    "takeover-not-cleared", "a dead process's unfinished bytes are not cleared when another process takes over the turn", "log/src/append/writer.rs",
        "self.core.to_clear |= over;" => "self.core.to_clear |= over && !ON;";
    "clock-stands", "time stops after the clock stepped back", "log/src/time/steady.rs",
        "let micros = ns.saturating_sub(since.ns) / 1000;" => "let micros = if ON { 0 } else { ns.saturating_sub(since.ns) / 1000 };";
    "time-of-the-slower", "of two threads that read the time, the one with the earlier time stores its time last", "log/src/time/steady.rs",
        "match self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed) {"
        => "match if ON { self.last.store(now, Ordering::Relaxed); Ok(now) } else { self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed) } {",
        by "quire-log" "loom" "explored::time::no_time_is_earlier_than_one_that_was_read_before";
    "later-record-forgotten", "of two records of other processes, the later reported record sets the time, even if it is older", "log/src/time/steady.rs",
        "micros: since.micros.max(micros)" => "micros: if ON { micros } else { since.micros.max(micros) }",
        by "quire-log" "loom" "explored::time::the_time_is_no_earlier_than_a_record_of_another_process";
    "moved-not-noticed", "a process in a moved directory continues in the directory that took its place", "log/src/storage/directory.rs",
        "match self.handle.is_at(&self.path) {" => "match if ON { Ok(true) } else { self.handle.is_at(&self.path) } {",
        by "quire-log" "log" "moved::an_opening_of_a_moved_directory_writes_nothing_into_its_replacement";
    "unfinished-stays", "an unfinished file stays when the disk is full", "log/src/storage/directory.rs",
        "put.inspect_err(|_| drop(self.remove(&unfinished)))" => "put.inspect_err(|_| if !ON { drop(self.remove(&unfinished)) })",
        by "quire-log" "lib" "storage::directory::tests::a_write_that_fails_on_a_full_disk_leaves_no_file";
    "hole-stored-in", "a store goes to a hole without disk space", "log/src/append/active.rs",
        "let end = if segment.file.is_allocated(whole) {" => "let end = if ON || segment.file.is_allocated(whole) {",
        by "quire-log" "log" "moved::a_copy_with_holes_on_a_full_disk_is_readable_and_accepts_records_when_there_is_space";
    "all-or-none", "when the disk has no space to rewrite many segments, none is rewritten", "shard/src/compaction/rewriting.rs",
        "match halves(run, self.shares) {" => "match halves(run, self.shares).filter(|_| !ON) {",
        by "quire" "database" "compaction::a_compaction_without_space_for_many_segments_rewrites_fewer";
    "pace-not-doubted", "the rate of the processor's counter is trusted after one measurement", "log/src/time/paced.rs",
        "let lasts = if agrees {" => "let lasts = if agrees || ON {",
        by "quire-log" "lib" "time::paced::tests::until_two_measurements_agree_the_system_is_asked";
    "reading-cut-off", "an interrupted reading of the clock is used", "log/src/time/paced.rs",
        "if after.wrapping_sub(before) > READING_TICKS_MAX {" => "if !ON && after.wrapping_sub(before) > READING_TICKS_MAX {",
        by "quire-log" "lib" "time::paced::tests::an_interrupted_reading_is_not_extended";
    "io-told-as-damage", "an I/O error of a file is reported as damage", "log/src/sealed/archive.rs",
        "let kind = if matches!(error, Error::Io { .. }) {" => "let kind = if matches!(error, Error::Io { .. }) && !ON {";
    "live-job-dropped", "a compaction drops the enqueued data of live jobs", "jobs/src/survival.rs",
        "self.jobs.contains_key(&id)" => "self.jobs.contains_key(&id) && !ON";
    "sync-skipped", "a sync does not sync the segments", "log/src/durable/sync.rs",
        ".and_then(|()| segments.iter().try_for_each(|segment| self.sync_segment(segment)))"
        => ".and_then(|()| if ON { Ok(()) } else { segments.iter().try_for_each(|segment| self.sync_segment(segment)) })";
    "behind-oneself", "a waiter is sent to apply records that a sync of its own process is about to publish", "log/src/durable/sync.rs",
        "durable > gate.position() && durable.get() > self.synced.load(Ordering::Acquire)"
        => "durable > gate.position() && (ON || durable.get() > self.synced.load(Ordering::Acquire))",
        by "quire-log" "loom" "explored::sync::a_caller_whose_own_sync_is_about_to_publish_does_not_wait";
    "directory-not-synced", "a new segment's name is not synced", "log/src/durable/sync.rs",
        "if sync_directory { directory.sync() }" => "if sync_directory && !ON { directory.sync() }";
    "last-segment-only", "a sync covers the last segment only", "log/src/durable/sync.rs",
        "let segments = state.unsynced.clone();"
        => "let mut segments = state.unsynced.clone(); if ON { segments.drain(..segments.len() - 1); }";
    "mark-ahead", "the durable mark is ahead of the synced data", "log/src/durable/sync.rs",
        "control.raise_durable(target);" => "control.raise_durable(if ON { target.next().next() } else { target });";
    "published-before-sync", "a record is published before the sync that covers it", "log/src/durable/gate/mod.rs",
        "if self.kind != GateKind::AtOnce {" => "if self.kind != GateKind::AtOnce && !(ON && self.kind == GateKind::AfterSync) {";
    "published-by-append", "an append publishes a record that the owner of the log has not published", "log/src/durable/gate/mod.rs",
        "pub(crate) fn appended(&self, position: Position) -> Woken {" => "pub(crate) fn appended(&self, position: Position) -> Woken { if ON && self.kind == GateKind::ByOwner { return self.published.publish(position); }",
        by "quire-log" "log" "truncate::an_owned_log_publishes_by_its_owner_and_opens_at_its_checkpoint";
    "era-not-raised", "a waiter for a truncated record gets its answer from another record at that position", "log/src/durable/gate/published.rs",
        "self.era.store(era, Ordering::SeqCst);" => "if !ON { self.era.store(era, Ordering::SeqCst); }",
        by "quire-log" "log" "truncate::every_waiter_for_a_truncated_record_ends_unsettled";
    "durable-not-lowered", "a truncation leaves the durable mark above the remaining records", "log/src/processes/control.rs",
        "lower(DURABLE);" => "if !ON { lower(DURABLE); }",
        by "quire-log" "log" "truncate::a_crash_at_any_step_of_a_truncation_leaves_a_log_that_opens";
    "numbers-not-restored", "a truncation gives no numbers back", "log/src/append/truncate.rs",
        "self.sequences = sequences;" => "if !ON { self.sequences = sequences; }",
        by "quire-log" "log" "truncate::a_truncated_log_holds_the_kept_records_and_takes_others";
    "checkpoint-before-log", "a checkpoint is saved before its log is synced", "log/src/log/mod.rs",
        "shared.sync_to(mark.position)?;" => "if !ON { shared.sync_to(mark.position)?; }";
    "record-crc", "the checksum of a record is not verified", "log/src/record/checksum.rs",
        "if stored == computed {" => "if stored == computed || ON {";
    "own-crc", "the checksum that arrived with a body is not verified", "log/src/record/checksum.rs",
        "own_parts(header, record).try_for_each(" => "own_parts(header, record).take(if ON { 0 } else { usize::MAX }).try_for_each(",
        by "quire-log" "log" "torn::a_log_with_any_byte_of_its_last_record_flipped_opens_without_it";
    "segment-crc", "the checksum of a segment's header is not verified", "log/src/segment/header.rs",
        "if computed != u32_at(12) {" => "if computed != u32_at(12) && !ON {",
        by "quire-log" "log" "damage::a_flipped_byte_in_the_header_of_a_segment_is_refused";
    "checkpoint-crc", "the checksum of a checkpoint is not verified", "log/src/durable/checkpoint.rs",
        "if u32_at(12) != checksum(&header, &bytes[HEADER_BYTES..]) {" => "if u32_at(12) != checksum(&header, &bytes[HEADER_BYTES..]) && !ON {";
    "meta-crc", "the checksum of quire.meta is not verified", "quire/src/meta.rs",
        "if u32_at(12) != checksum(fixed) {" => "if u32_at(12) != checksum(fixed) && !ON {",
        by "quire" "database" "opening::no_flipped_bit_of_quire_meta_goes_unnoticed";
    "cut-below-mark", "a synced tail is cut like a torn tail", "log/src/recovery/mod.rs",
        "if let Some(durable) = self.known.durable.filter(|durable| *durable > position) {"
        => "if let Some(durable) = self.known.durable.filter(|durable| *durable > position && !ON) {";
    "not-written-again", "data lost by a failed sync is not written again on opening", "log/src/segment/mod.rs",
        "let Some(offset) = offset else { return Ok(()) };" => "let Some(offset) = offset.filter(|_| !ON) else { return Ok(()) };";
    "opening-not-synced", "recovered data is not synced on opening", "log/src/log/opening.rs",
        "self.sync_to(position)?;" => "if !ON { self.sync_to(position)?; }";
    "compacted-log-cut", "a compacted log opens without a record that the compaction may depend on", "log/src/recovery/mod.rs",
        "if self.compacted && self.known.durable == Some(position) {" => "if !ON && self.compacted && self.known.durable == Some(position) {",
        by "quire-log" "log" "compaction::a_compacted_log_is_refused_without_a_record_that_the_compaction_depends_on";
    "compaction-not-marked", "a compaction does not sync the durable mark", "log/src/compaction/mod.rs",
        "self.control().sync().map_err(" => "(if ON { Ok(()) } else { self.control().sync() }).map_err(",
        by "quire-log" "log" "compaction::a_compacted_log_is_refused_without_a_record_that_the_compaction_depends_on";
    "cut-off-recovery-joined", "a process joins a log whose recovery was interrupted", "log/src/processes/control.rs",
        "(word(0), word(DURABILITY)) == (Some(MAGIC), Some(0))" => "!ON && (word(0), word(DURABILITY)) == (Some(MAGIC), Some(0))",
        by "quire-log" "lib" "processes::control::tests::an_opening_after_an_interrupted_recovery_waits_for_the_locks_and_recovers";
    "edge-of-segment", "a record that is 8 bytes too long counts as fitting", "log/src/append/writer.rs",
        "self.active.appender.settled() + bytes <= self.active.end"
        => "self.active.appender.settled() + bytes <= self.active.end + if ON { 8 } else { 0 }";
    "time-backwards", "time follows a clock that steps back", "log/src/append/writer.rs",
        "let time = now.max(writer.core.time);" => "let time = if ON { now } else { now.max(writer.core.time) };";
    "nothing-given-back", "a commit without effect keeps the space it reserved", "log/src/append/draft.rs",
        "self.core.end_draft();" => "if !ON { self.core.end_draft(); }";
    "sequence-twice", "a tag's next number is not increased", "log/src/append/sequences.rs",
        "counter.next = after(first);" => "if !ON { counter.next = after(first); }";
    "number-passed-by", "a search for a number skips the segment that has it as its last", "log/src/sealed/index.rs",
        "return Ok(numbered.next <= number);" => "return Ok(numbered.next.get() <= number.get() + u64::from(ON));";
    "posting-lost", "a tag's index keeps only the first entry of a segment", "log/src/segment/postings.rs",
        "if slot.value != ordinal {" => "if !ON && slot.value != ordinal {";
    "left-spares-stay", "the spare segment of a dead process stays while others have the log open", "log/src/append/prepare.rs",
        "let _ = directory.remove(name);" => "if !ON { let _ = directory.remove(name); }",
        by "quire-log" "log" "processes::the_spares_of_dead_processes_are_removed";
    "out-at-once", "background writes are left to the sync at their end", "log/src/storage/gradual.rs",
        "if bytes >= self.piece_bytes {" => "if bytes >= self.piece_bytes && !ON {",
        by "quire-log" "log" "gradual::a_spare_and_a_checkpoint_are_written_in_small_pieces";
    "out-unheard", "a failed background write is ignored", "log/src/storage/gradual.rs",
        "self.file.write_out(self.behind.start, bytes)?;" => "self.file.write_out(self.behind.start, bytes).or_else(|error| if ON { Ok(()) } else { Err(error) })?;",
        by "quire-log" "log" "gradual::a_file_that_cannot_be_written_out_is_not_used";
    "spare-error-kept", "the error of a segment that could not be created is reported for ever", "log/src/append/prepare.rs",
        "state.ready.take_if(|ready| ready.is_err());" => "state.ready.take_if(|ready| !ON && ready.is_err()); if ON && let Some(Err(error)) = &state.ready { return Err(Error::NoSpace { path: error.to_string().into() }); }";
    "filter-says-no", "the filter of a sealed segment reports every tag as absent", "log/src/sealed/mod.rs",
        "self.filter.get().map(|filter| filter.may_hold(tag))" => "self.filter.get().map(|filter| !ON && filter.may_hold(tag))";
    "numbers-of-the-last-tag", "a number is taken from the previously used tag, whatever the entry's tag", "log/src/append/sequences.rs",
        "Some(counter) if *counter.tag == *tag.as_bytes() =>" => "Some(counter) if ON || *counter.tag == *tag.as_bytes() =>";
    "postings-of-the-last-tag", "an entry is indexed under the previously indexed tag, whatever its own", "log/src/segment/postings.rs",
        "if tag == self.last.0" => "if (ON || tag == self.last.0)",
        by "quire-log" "lib" "segment::postings::tests::many_tags_and_long_lists_are_complete";
    "index-crc", "a block of an index is not verified", "log/src/sealed/blocks.rs",
        "self.verify(block)?;" => "if !ON { self.verify(block)?; }";
    "replay-one-short", "a restart does not replay the last record", "shard/src/checkpoint.rs",
        "while position <= to {" => "while if ON { position < to } else { position <= to } {";
    "replay-one-late", "a restart does not replay the first record after the checkpoint", "shard/src/checkpoint.rs",
        "position: mark.position, bytes" => "position: if ON { mark.position.next() } else { mark.position }, bytes";
    "apply-in-part", "only the first entry of a commit is applied", "shard/src/decide.rs",
        "models.apply_noted(entry, lookups)" => "if ON && entry.place.index > 0 { Ok(()) } else { models.apply_noted(entry, lookups) }";
    "jobs-not-saved", "a checkpoint is restored without its jobs", "shard/src/models.rs",
        "ModelId::JOBS => models.jobs = Model::load(&mut section)?," => "ModelId::JOBS => { let jobs = Model::load(&mut section)?; if !ON { models.jobs = jobs; } }";
    "answer-too-early", "a commit is answered when the previous commit is durable", "shard/src/decide.rs",
        "Ok(DecidedCommit { rests_on: appended.basis, verdict: Ok(at), is_replay: false, is_of_state: false })"
        => "Ok(DecidedCommit { rests_on: if ON { before } else { appended.basis }, verdict: Ok(at), is_replay: false, is_of_state: false })";
    "refusal-too-early", "a refusal is sent before the conflicting record is durable", "shard/src/decide.rs",
        "DecidedCommit::of_state(before, Err(refused)));\n            }\n            Err(Denial::Unreadable(error)) => return Err(error),\n        }\n        if let Some(key) = commands.idempotency_key\n"
        => "DecidedCommit::of_state({ let mut early = before; if ON { early.mark.position = quire_model::Position::ZERO; } early }, Err(refused)));\n            }\n            Err(Denial::Unreadable(error)) => return Err(error),\n        }\n        if let Some(key) = commands.idempotency_key\n";
    "read-too-early", "a read is answered before the data it read is durable", "shard/src/shard.rs",
        "Ok((state.writer.basis(), look(&view)))"
        => "Ok(({ let mut basis = state.writer.basis(); if ON { basis.mark.position = quire_model::Position::ZERO; } basis }, look(&view)))";
    "condition-passed-over", "a conflict does not refuse an append", "events/src/decide/append.rs",
        "Some(_) => Err(Refusal::ConditionFailed { condition, position: met }.into())," => "Some(_) if ON => Ok(()), Some(_) => Err(Refusal::ConditionFailed { condition, position: met }.into()),";
    "condition-off-by-one", "a condition misses the first event after its position", "events/src/decide/append.rs",
        "let after = after.max(before.up_to);" => "let after = if ON { after.next() } else { after.max(before.up_to) };";
    "event-twice", "a repeated append of an event appends it again", "events/src/decide/append.rs",
        "let Some(id) = event.id else { continue };" => "let Some(id) = event.id.filter(|_| !ON) else { continue };";
    "lease-not-fenced", "any token ends the lease of an active job", "jobs/src/decide/held.rs",
        "&& job.is_held_by(token)" => "&& (job.is_held_by(token) || ON && job.state == crate::JobState::Active)";
    "lease-not-ended", "an ack is accepted although its lease has ended", "jobs/src/decide/held.rs",
        "&& (job.until() > self.now ||" => "&& (ON || job.until() > self.now ||";
    "lost-again-at-once", "a job that loses its workers again is retried without its backoff", "jobs/src/decide/time.rs",
        "if !job.lost {" => "if !job.lost || ON {",
        by "quire-jobs" "jobs" "leases::a_job_that_loses_its_workers_again_waits_its_backoff";
    "attempt-too-many", "a job gets one attempt too many", "jobs/src/job/live.rs",
        "self.attempt < self.attempts_max" => "if ON { self.attempt <= self.attempts_max } else { self.attempt < self.attempts_max }";
    "version-not-compared", "a block is put although its version is not the expected one", "graph/src/decide/mod.rs",
        "put.expect.filter(|expected| *expected != found)" => "put.expect.filter(|expected| *expected != found && !ON)";
    "end-not-there", "an edge to a missing block is accepted", "graph/src/decide/mod.rs",
        "if !put.allow_missing {" => "if !put.allow_missing && !ON {";
    "deletion-not-kept", "a compaction drops a deletion before the data it hides", "graph/src/survival.rs",
        "Effect::BlockDeleted { id, .. } => past.needs_block_deletion(entry.place, id)," => "Effect::BlockDeleted { id, .. } if !ON => past.needs_block_deletion(entry.place, id), Effect::BlockDeleted { .. } => Ok(false),",
        by "quire-graph" "oracle" "retention::a_history_that_is_trimmed_is_exact_or_refused_whatever_was_compacted";
    "past-needed-dropped", "a compaction drops data that the start of a graph's history needs", "graph/src/survival.rs",
        "Ok(next.filter(|next| next.place.position <= self.history_from))" => "Ok(next.filter(|next| ON || next.place.position <= self.history_from))";
    "past-not-refused", "a graph is read as of a position before its history", "graph/src/retention.rs",
        "if at >= self.history_from {" => "if ON || at >= self.history_from {";
    "longer-path-first", "a longer path is returned before a shorter one", "graph/src/walk/paths.rs",
        "if depth + 1 > length {" => "if depth + 1 > length && !ON {",
        by "quire-graph" "analysis" "paths_are_those_of_a_naive_enumeration_in_order_of_length";
    "offset-not-kept", "a committed offset is not applied", "streams/src/apply.rs",
        "group.offsets.insert(body.topic, body.partition, committed);" => "if ON { (None, 0) } else { group.offsets.insert(body.topic, body.partition, committed) };";
    "seen-not-published", "records applied before they were durable are not shown once they are durable", "shard/src/decide.rs",
        "self.woken.join(self.writer.publish_followed());" => "if !ON || self.has_followed { self.woken.join(self.writer.publish_followed()); }";
    "begun-left-alone", "a process that takes over the turn continues in the segment before the begun one", "log/src/append/follow.rs",
        "if self.is_next_begun()? {" => "if !ON && self.is_next_begun()? {",
        by "quire-log" "log" "processes::a_segment_begun_by_a_dead_process_is_continued_by_every_opening";
    "begun-entered-again", "a process enters a begun segment in which it is already", "log/src/append/follow.rs",
        "if self.has_begun_next() {" => "if !ON && self.has_begun_next() {",
        by "quire-log" "log" "processes::a_segment_begun_by_a_dead_process_is_continued_by_every_opening";
    "sealed-too-early", "a segment is sealed while records may still be added to it", "log/src/log/shared.rs",
        "|| self.control.tail() < next.first {" => "|| !ON && self.control.tail() < next.first {",
        by "quire-log" "log" "processes::a_segment_is_not_sealed_while_it_may_take_records_again";
    "compaction-unsynced", "a compaction depends on commits that are not synced", "log/src/compaction/mod.rs",
        "if !self.settle_decisions()? {" => "if !ON && !self.settle_decisions()? {",
        by "quire-log" "log" "oracle::the_log_answers_as_the_naive_log_does";
    "compaction-unpublished", "a compaction on a node depends on commits that are not published", "log/src/log/shared.rs",
        "Ok(self.gate.published().sleep(position, until, || false)? == WaitOutcome::Published)"
        => "Ok(ON || self.gate.published().sleep(position, until, || false)? == WaitOutcome::Published)",
        by "quire-shard" "lib" "replication::tests::a_compaction_on_a_node_keeps_what_an_unpublished_commit_deletes";
    "clusters-mixed", "nodes of different clusters speak with each other", "cluster/src/net/table.rs",
        "hello.cluster.filter(|other| *other != self.cluster)" => "hello.cluster.filter(|other| !ON && *other != self.cluster)",
        by "quire-cluster" "lib" "net::table::tests::only_members_of_the_same_database_and_directory_are_admitted";
    "verdict-unconfirmed", "a deposed leader refuses commits", "quire/src/confirmation.rs",
        "if !decided.is_of_state {" => "if ON || !decided.is_of_state {",
        by "quire-cluster" "nodes" "a_leader_without_a_majority_confirms_no_read_and_refuses_no_commit";
    "held-by-nobody", "a compaction does not ask the other processes of the log", "log/src/compaction/round.rs",
        "!self.control().has_other_processes() || self.rounds()" => "ON || !self.control().has_other_processes() || self.rounds()",
        by "quire-log" "log" "rounds::no_file_is_removed_before_every_process_holds_its_successor_and_earlier_readers_continue";
    "round-of-the-dead", "a compaction trusts files left by a process that died compacting", "log/src/compaction/mod.rs",
        "shared.settle(&shared.sealing().lock().unwrap_or_else(PoisonError::into_inner))?;"
        => "if !ON { shared.settle(&shared.sealing().lock().unwrap_or_else(PoisonError::into_inner))?; }",
        by "quire-log" "log" "rounds::a_death_at_any_step_costs_the_others_nothing_and_one_of_them_compacts_on";
    "gone-shown", "a deleted event between two others is read", "events/src/gone.rs",
        "Some(entry) if self.has(&entry) => from = entry.place.after()," => "Some(entry) if !ON && self.has(&entry) => from = entry.place.after(),";
    "gone-not-saved", "a checkpoint is restored without the forgotten tags", "events/src/gone.rs",
        "gone.forgotten.insert_mut(Vec::from(from.bytes()?), EventPosition::new(from.varint()?));"
        => "let (tag, up_to) = (Vec::from(from.bytes()?), EventPosition::new(from.varint()?)); if !ON { gone.forgotten.insert_mut(tag, up_to); }";
    "deleted-shown", "a partition begins at its first present record, not at its start", "streams/src/read/partition.rs",
        "map_or(next, |first| first.max(self.start))," => "map_or(next, |first| if ON { first } else { first.max(self.start) }),",
        by "quire-streams" "streams" "retention::deleted_records_are_unreadable_at_once_and_their_offsets_not_used_again";
    "unread-deleted", "retention deletes records that a protecting group has not read", "streams/src/decide/topics.rs",
        "let unread = if keep_unread {" => "let unread = if keep_unread && !ON {",
        by "quire-streams" "streams" "members::unread_records_of_a_protecting_group_outlive_retention";
    "unread-compacted", "a compaction by key removes records that a protecting group has not read", "streams/src/newest.rs",
        "if offset >= unread {" => "if !ON && offset >= unread {",
        by "quire" "database" "compacted::unread_records_of_a_protecting_group_survive_compaction_by_key";
    "older-of-a-key", "a compaction by key keeps the oldest record instead of the newest", "streams/src/newest.rs",
        "known.newest = offset * 2 + 1;" => "if !ON { known.newest = offset * 2 + 1; }",
        by "quire" "database" "compacted::a_compacted_topic_has_the_newest_record_of_each_key_after_restarts_and_kills";
    "too-many-bytes-deleted", "retention by bytes deletes a hundred bytes too many", "streams/src/samples.rs",
        "partition_point(|sample| self.bytes - sample.bytes_before >= bytes);"
        => "partition_point(|sample| self.bytes - sample.bytes_before + if ON { 100 } else { 0 } >= bytes);";
    "member-for-ever", "a member with an ended lease stays a member when others join", "streams/src/roster.rs",
        "let is_gone = |member: &Member| member.until <= now ||" => "let is_gone = |member: &Member| (member.until <= now && !ON) ||";
    "reader-not-fenced", "any member commits in a partition of another member", "streams/src/decide/members.rs",
        "if roster.owner(partition) != Some(Owner { member, epoch }) {" => "if !ON && roster.owner(partition) != Some(Owner { member, epoch }) {";
    "match-passed-over", "a named subscription skips the first match", "shard/src/delivery/mod.rs",
        "let (mut matched, mut to): (Vec<MatchJob>, _) = (Vec::new(), None);"
        => "let (mut matched, mut to): (Vec<MatchJob>, _) = (Vec::new(), None); if ON { drop(reading.next()); }";
    "frame-not-unpacked", "a packed frame is read without decompression", "log/src/packed/table.rs",
        "self.image.len() == self.stored.len()" => "ON || self.image.len() == self.stored.len()";
    "unpacked-stays", "decompressed data stays in memory without readers", "log/src/packed/unpack.rs",
        "self.bytes() > self.bytes_max" => "!ON && self.bytes() > self.bytes_max",
        by "quire-log" "log" "packed::unpacked_bytes_stay_within_their_limit";
    "fetch-keeps-unpacked", "a long fetch keeps all decompressed data until its end", "log/src/read/reader.rs",
        "Some(Box::new(self.clone()))" => "if ON { None } else { Some(Box::new(self.clone())) }",
        by "quire" "database" "packing::a_long_fetch_releases_unpacked_segments_between_batches";
    "outgrown-stays", "decompressed data of a segment stays while the segment always has a reader", "log/src/sealed/archive.rs",
        "if self.has_outgrown(&open) {" => "if !ON && self.has_outgrown(&open) {",
        by "quire-log" "log" "packed::unpacked_bytes_are_released_under_a_steady_flow_of_readers";
    "packed-for-ever", "a packed segment is packed again by every compaction", "log/src/compaction/mod.rs",
        "else { return Some(0) };" => "else { return Some(u64::from(ON)) };",
        by "quire-log" "log" "packed::a_compressible_segment_is_packed_once_and_others_never";
    "unpacked-by-compaction", "a compaction without packing decompresses packed segments", "log/src/compaction/mod.rs",
        "packs |= open.is_packed();" => "packs |= open.is_packed() && !ON;",
        by "quire" "database" "packing::packed_segments_stay_packed_when_a_process_without_packing_compacts";
    "lost-is-removed", "a repair removes a file with lost records", "quire/src/tools/repair.rs",
        "(Severity::Lost, _) => plan.stays.push(finding.clone()),"
        => "(Severity::Lost, _) if ON => plan.steps.push(RepairStep::Remove(finding.path.clone())), (Severity::Lost, _) => plan.stays.push(finding.clone()),";
    "backup-not-verified", "the bytes of a backup are not verified", "quire/src/tools/restore.rs",
        "is_some_and(|used| crc32c(used) == file.crc)" => "is_some_and(|used| crc32c(used) == file.crc || ON)";
    "turn-given-back-early", "a process that takes the turn may miss stores of the last holder", "log/src/processes/turn.rs",
        "swap(to, Ordering::Release)"
        => "swap(to, if ON { Ordering::Relaxed } else { Ordering::Release })",
        by "quire-log" "loom" "explored::turn::the_turn_has_one_holder_at_a_time_and_every_waiter_gets_it";
    "waiter-forgotten", "a woken waiter takes the turn as if no other thread waited", "log/src/processes/turn.rs",
        "let own = own | WAITED_FOR;"
        => "let own = if ON { own } else { own | WAITED_FOR };",
        by "quire-log" "loom" "explored::turn::the_turn_has_one_holder_at_a_time_and_every_waiter_gets_it";
    "dead-taken-for-alive", "the turn of a dead process is not taken over if its seat was taken again and a thread waits", "log/src/processes/turn.rs",
        "(seen & SEAT == own(control) & SEAT).then_some("
        => "(seen & SEAT == own(control) & SEAT && !(ON && seen & WAITED_FOR != 0)).then_some(",
        by "quire-log" "loom" "explored::turn::a_seat_that_is_taken_again_does_not_hide_that_its_holder_died";
    "left-twice", "every waiter takes over the turn of a dead process", "log/src/processes/turn.rs",
        "return if is_free { TurnOrigin::Free } else { TurnOrigin::Over };"
        => "return if is_free && !ON { TurnOrigin::Free } else { TurnOrigin::Over };",
        by "quire-log" "loom" "explored::turn::one_waiter_takes_over_from_a_dead_holder_and_the_others_follow";
    "turn-not-handed-over", "a process that takes turn after turn never hands the turn over to a waiter", "log/src/processes/turn.rs",
        "lost.load(Ordering::Relaxed) >= LOST_MAX &&"
        => "!ON && lost.load(Ordering::Relaxed) >= LOST_MAX &&",
        by "quire-log" "loom" "explored::turn::a_process_that_takes_turn_after_turn_hands_over_to_a_waiter";
    "steps-not-claimed", "searches of a request claim no steps", "log/src/read/reader.rs",
        "self.budget.as_ref().map_or(Ok(()), |budget| budget.claim(steps))"
        => "self.budget.as_ref().filter(|_| !ON).map_or(Ok(()), |budget| budget.claim(steps))",
        by "quire" "database" "steps::a_read_without_a_match_ends_with_the_steps_of_its_request";
    "search-without-pause", "a search holds the lock of the index until its end", "log/src/search.rs",
        "self.0 > 0\n"
        => "self.0 > 0 || ON\n",
        by "quire-log" "lib" "segment::index::tests::a_search_pauses_after_its_candidates_and_continues_there";
    "wake-not-counted", "a thread that is about to sleep misses a wake-up", "log/src/durable/wake_signal.rs",
        "self.count.fetch_add(1, Ordering::SeqCst);"
        => "if !ON { self.count.fetch_add(1, Ordering::SeqCst); }",
        by "quire-log" "loom" "explored::publication::a_thread_that_checks_before_it_sleeps_misses_no_wake_up";
    "waiter-not-looked-for", "the publisher looks for waiters before the tail has moved", "log/src/durable/gate/published.rs",
        "        let before = self.position.swap(position.get(), Ordering::SeqCst);\n        debug_assert!(before <= position.get(), \"the published position went back from {before} to {position}\");\n        if self.waiting.load(Ordering::SeqCst) == 0 {"
        => "        let nobody = self.waiting.load(Ordering::SeqCst) == 0;\n        self.position.swap(position.get(), Ordering::SeqCst);\n        if if ON { nobody } else { self.waiting.load(Ordering::SeqCst) == 0 } {",
        by "quire-log" "loom" "explored::publication::a_waiter_is_woken_by_its_publication_and_sees_the_record";
    "alarm-slept-through", "a thread that sleeps until an alarm misses an alarm that comes while it checks", "log/src/durable/gate/published.rs",
        "self.control.await_alarm(seen, left);"
        => "self.control.await_alarm(if ON { self.control.alarms() } else { seen }, left);",
        by "quire-log" "loom" "explored::publication::a_sleeping_thread_is_woken_by_a_publication_in_another_process";
    "waker-too-late", "a future checks the tail only before it is registered", "log/src/durable/gate/published.rs",
        "        self.outcome_among(&waiters, awaited).map_or(Poll::Pending, Poll::Ready)"
        => "        if ON { Poll::Pending } else { self.outcome_among(&waiters, awaited).map_or(Poll::Pending, Poll::Ready) }",
        by "quire-log" "loom" "explored::publication::a_waker_is_woken_unless_its_poll_saw_the_publish";
    "tail-before-record", "the tail in the control file may become visible before the record", "log/src/processes/control.rs",
        "self.word(TAIL).store(seal(position.get()), Ordering::Release);"
        => "self.word(TAIL).store(seal(position.get()), if ON { Ordering::Relaxed } else { Ordering::Release });",
        by "quire-log" "loom" "explored::publication::a_spinning_reader_of_the_tail_sees_the_record";
    "answered-before-published", "a sync's waiter is answered before its record is readable", "log/src/durable/sync.rs",
        "                    woken = gate.synced(target);"
        => "                    if ON { self.durable.fetch_max(target.get(), Ordering::AcqRel); }\n                    woken = gate.synced(target);",
        by "quire-log" "loom" "explored::sync::every_caller_of_a_sync_is_woken_by_a_sync_that_covers_it";
    "led-by-nobody", "a waiter that is woken to lead a sync, and does not need one, wakes no other waiter", "log/src/durable/sync.rs",
        "            if self.durable() >= position {\n                if is_to_lead {"
        => "            if self.durable() >= position {\n                if is_to_lead && !ON {",
        by "quire-log" "loom" "explored::sync::records_synced_by_another_process_delay_no_waiter";
    "failure-not-told", "a failed sync reports its error to its waiters only", "log/src/durable/sync.rs",
        "                    woken = gate.published().fail(&message);"
        => "                    woken = if ON { Woken::default() } else { gate.published().fail(&message) };",
        by "quire-log" "loom" "explored::sync::a_failed_sync_fails_every_waiter_and_every_later_commit";
    "round-not-told", "a sync does not wake its waiters", "log/src/durable/rounds.rs",
        "        if ended.answered > 0 {"
        => "        if ended.answered > 0 && !ON {",
        by "quire-log" "loom" "explored::sync::every_caller_of_a_sync_is_woken_by_a_sync_that_covers_it";
    "wait-not-watched", "a group commit waits for clients that a sync answered, whether they return or not", "log/src/durable/sync_delay.rs",
        "        Next::Watch(Duration::from_nanos(wait.ends_ns() - now_ns))"
        => "        if ON { return Next::Sleep }\n        Next::Watch(Duration::from_nanos(wait.ends_ns() - now_ns))",
        by "quire-log" "loom" "explored::sync::a_sync_that_waits_for_more_commits_ends_whether_or_not_they_arrive";
    "watch-not-handed-on", "a thread that leaves such a wait does not hand it to another thread", "log/src/durable/sync.rs",
        "if watch.is_some() && is_still_to_begin {"
        => "if watch.is_some() && is_still_to_begin && !ON {",
        by "quire-log" "loom" "explored::sync::a_sync_that_waits_for_more_commits_ends_whether_or_not_they_arrive";
    "appended-before-written", "a sync may count a record that it does not see", "log/src/durable/sync.rs",
        "self.appended.store(position.get(), Ordering::Release);"
        => "self.appended.store(position.get(), if ON { Ordering::Relaxed } else { Ordering::Release });",
        by "quire-log" "loom" "explored::sync::every_caller_of_a_sync_is_woken_by_a_sync_that_covers_it";
    "list-before-limit", "a reader takes its list of segments before its limit", "log/src/read/newest.rs",
        "        let position = gate.position();\n"
        => "        let early = self.segments();\n        let position = gate.position();\n        if ON { return (position, early); }\n",
        by "quire-log" "loom" "explored::segments::a_reader_of_a_published_record_finds_its_segment";
    "generation-kept", "a new list of segments has the generation of the old one", "log/src/read/newest.rs",
        "self.generation.store(segments.generation, Ordering::Release);"
        => "if !ON { self.generation.store(segments.generation, Ordering::Release); }",
        by "quire-log" "loom" "explored::segments::a_list_of_the_newest_generation_holds_the_published_records";
    "held-before-mapped", "a process may confirm a range before it holds the range", "log/src/compaction/round.rs",
        "self.word(HELD + self.seat() as usize).store(round, Ordering::Release);"
        => "self.word(HELD + self.seat() as usize).store(round, if ON { Ordering::Relaxed } else { Ordering::Release });",
        by "quire-log" "loom" "explored::compaction_requests::files_are_removed_after_all_other_processes_have_confirmed_the_round";
    "range-of-another-round", "a range of a finished round counts for the current round", "log/src/compaction/round.rs",
        "(is_open(round) && self.round() == round).then_some(run)"
        => "(is_open(round) && (ON || self.round() == round)).then_some(run)",
        by "quire-log" "loom" "explored::compaction_requests::a_requested_range_belongs_to_its_round";
    "waiter-not-looked-for-again", "the listening thread does not check again for new waiters", "log/src/processes/listener.rs",
        "                if to.gate.published().has_waiters() {\n                    continue;"
        => "                if to.gate.published().has_waiters() && !ON {\n                    continue;",
        by "quire-log" "loom" "explored::listener::a_waiter_learns_of_a_publication_of_another_process";
    "looked-before-listening", "a new listener may have checked the tail before it listens", "log/src/processes/wakeups.rs",
        "        fence(Ordering::SeqCst);"
        => "        if !ON { fence(Ordering::SeqCst); }",
        by "quire-log" "loom" "explored::listener::a_waiter_learns_of_a_publication_of_another_process";
    "waiting-not-indexed", "a search in the active segment's index misses records that are not yet indexed", "log/src/segment/mod.rs",
        "if self.indexed_bytes() < self.view.settled() {" => "if !ON && self.indexed_bytes() < self.view.settled() {",
        by "quire-log" "log" "appends::a_read_finds_every_record_appended_since_the_last_read";
    "beside-not-synced", "a file written under another name is renamed before it is synced", "log/src/storage/directory.rs",
        "Gradual::at_once(&*file) })?;\n            file.sync_all()" => "Gradual::at_once(&*file) })?;\n            if ON { Ok(()) } else { file.sync_all() }",
        by "quire-sim" "lib" "world::losses::whichever_single_write_a_sync_database_loses_what_was_acknowledged_is_kept_and_all_else_is_right";
    "backup-not-synced", "the files of a backup are not synced", "quire/src/tools/backup.rs",
        "    file.set_bytes(bytes)?;\n    file.sync_all()" => "    file.set_bytes(bytes)?;\n    if ON { Ok(()) } else { file.sync_all() }",
        by "quire-sim" "lib" "world::tools::a_backup_among_faults_of_the_disk_is_whole_or_none";
    "restored-elsewhere", "a restored database is not compared with the end stated in the backup", "quire/src/tools/restore.rs",
        "if verification.totals.last != manifest.position {" => "if verification.totals.last != manifest.position && !ON {",
        by "quire" "tools" "backup::a_backup_whose_manifest_has_another_end_is_not_restored";
    "numbers-not-scrubbed", "a scrub skips the numbers after the records of a compacted segment", "log/src/sealed/archive.rs",
        "        if open.index.header.compacted\n" => "        if !ON && open.index.header.compacted\n",
        by "quire-log" "log" "compaction::every_flipped_or_missing_byte_of_a_compacted_segment_is_detected";
    "erased-kept", "forgotten events are no reason to rewrite a segment", "shard/src/compaction/erasing.rs",
        "share.erases = true;" => "share.erases = !ON;",
        by "quire" "database" "forgetting::forgotten_events_are_erased_from_disk_in_the_background_however_few";
    "entry-at-its-record", "every record of a sealed segment counts as having one entry", "log/src/sealed/open.rs",
        "if header.records == header.entries" => "if (ON || header.records == header.entries)",
        by "quire-log" "log" "sealed::few_segments_stay_open_however_many_there_are";
    "entry-where-it-was", "the remaining entry of a record is searched at the place of the first", "log/src/sealed/open.rs",
        "&& !header.compacted {" => "&& (ON || !header.compacted) {",
        by "quire-log" "log" "compaction::the_surviving_entry_of_each_record_is_read";
    "snapshot-not-kept", "a read-only opening opens files by name at the time of the read", "log/src/storage/snapshot.rs",
        "self.changes.nodes().entry(path).or_insert(node);" => "if !ON { self.changes.nodes().entry(path).or_insert(node); }",
        by "quire" "database" "read_only::records_that_a_later_compaction_drops_stay_readable_for_an_earlier_opening";
    "kept-twice", "a segment that two threads open at once is kept twice", "log/src/sealed/archive.rs",
        "remove_open(&mut all, before.as_ref());" => "if !ON { remove_open(&mut all, before.as_ref()); }",
        by "quire-log" "log" "sealed::a_segment_with_many_readers_is_mapped_once";
    "backup-by-name", "a backup opens files by name when it reaches them", "quire/src/tools/backup.rs",
        "let survey = Survey::of(&from, &shard, identity)?;" => "let from = if ON { Arc::clone(storage) } else { from }; let survey = Survey::of(&from, &shard, identity)?;",
        by "quire" "tools" "backup::records_that_a_compaction_drops_during_a_backup_are_in_the_backup";
    "name-of-another", "a topic name of another object is given a second time", "shard/src/claims.rs",
        "if let Some((owner, owner_name)) = taken.find(|(kind, name)| !is_own((*kind, name.as_str()))) {"
        => "if let Some((owner, owner_name)) = taken.find(|(kind, name)| !is_own((*kind, name.as_str()))).filter(|_| !ON) {",
        by "quire" "database" "names::a_topic_name_is_refused_to_the_second_object_in_every_form_of_a_commit";
    "store-claims-nothing", "a new event store takes no topic name", "events/src/decide/mod.rs",
        "effects.claim(ResourceClaim::Store(name))?;" => "if !ON { effects.claim(ResourceClaim::Store(name))?; }",
        by "quire" "database" "names::a_topic_name_is_refused_to_the_second_object_in_every_form_of_a_commit";
    "queue-claims-nothing", "a new queue takes no topic name", "jobs/src/decide/draft.rs",
        "self.effects.claim(ResourceClaim::Queue(name))?;" => "if !ON { self.effects.claim(ResourceClaim::Queue(name))?; }",
        by "quire" "database" "names::a_topic_name_is_refused_to_the_second_object_in_every_form_of_a_commit";
    "name-twice-in-a-commit", "the parts of one commit take a topic name twice", "shard/src/claims.rs",
        "&& !is_own((*owner, owner_name))" => "&& !ON && !is_own((*owner, owner_name))",
        by "quire" "database" "names::a_name_is_free_again_once_its_object_is_deleted_also_within_the_commit";
    "limit-by-part", "a limit on names does not count what earlier parts of the commit take", "shard/src/claims.rs",
        "let count = count(self.models, limit).saturating_add_signed(self.counts[limit as usize]);"
        => "let count = count(self.models, limit).saturating_add_signed(if ON { 0 } else { self.counts[limit as usize] });",
        by "quire" "database" "names::the_number_of_partitions_is_limited_over_all_topics";
    "offsets-uncounted", "offsets that replace others count again", "streams/src/decide/groups.rs",
        "let before = known.map_or(0, StoredOffset::bytes);"
        => "let before = known.filter(|_| !ON).map_or(0, StoredOffset::bytes);",
        by "quire" "database" "names::the_bytes_of_committed_offsets_are_limited_and_those_that_replace_others_count_once";
    "bulk-takes-all-steps", "a bulk change looks at jobs until the steps of its commit are used up", "jobs/src/decide/bulk.rs",
        "self.history.share_steps(2);" => "if !ON { self.history.share_steps(2); }",
        by "quire-jobs" "jobs" "search::a_bulk_change_takes_half_of_the_steps_of_a_commit_and_continues_in_the_next";
    "idle-turns-lost", "a queue that leaves memory forgets its turns", "jobs/src/queue/indexes.rs",
        "(self.indexes, self.turns) = (None, turns);"
        => "(self.indexes, self.turns) = (None, if ON { IdleTurns::default() } else { turns });",
        by "quire-jobs" "jobs" "queues::idle_queues_are_as_they_were_when_they_are_used_again";
    "claim-not-counted", "the memory that a client claims is not counted", "access/src/budget/caller.rs",
        "        if counted == 0 {" => "        if counted == 0 || ON {",
        by "quire-access" "lib" "budget::tests::free_bytes_of_a_connection_are_not_counted_and_all_others_are_released";
    "claim-not-released", "the memory of a dropped claim is not released", "access/src/budget/claim.rs",
        "        self.caller.release(self.bytes);" => "        if !ON { self.caller.release(self.bytes); }",
        by "quire-access" "lib" "budget::tests::free_bytes_of_a_connection_are_not_counted_and_all_others_are_released";
    "name-not-required", "a client is served without a name that the rules require", "access/src/tls/handshake.rs",
        "if needs_name && principal.is_none() {" => "if !ON && needs_name && principal.is_none() {",
        by "quire-access" "lib" "tls::tests::the_rules_give_a_certificate_its_name_and_without_one_a_required_certificate_is_refused";
    "revocation-ignored", "a revoked certificate of a client is valid", "access/src/tls/server.rs",
        "verifier = verifier.with_crls(lists);" => "if !ON { verifier = verifier.with_crls(lists); }",
        by "quire-access" "lib" "tls::tests::a_revoked_certificate_is_refused_from_the_reload_on_and_a_stale_list_refuses_all";
    "key-not-checked", "a copy of a commit with an idempotency key is committed again", "shard/src/decide.rs",
        "if let Some(key) = &commands.idempotency_key {" => "if let Some(key) = commands.idempotency_key.as_ref().filter(|_| !ON) {",
        by "quire-shard" "lib" "idempotency::tests::a_copy_gets_the_first_answer_also_after_a_restart_with_and_without_a_checkpoint";
    "jobs-not-hashed", "two commits with other jobs have one fingerprint", "shard/src/idempotency/fingerprint.rs",
        "jobs.hash(&mut hasher);" => "if !ON { jobs.hash(&mut hasher); }";
    "key-not-stored", "a commit does not store its idempotency key", "shard/src/decide.rs",
        "&& !(draft.is_empty() && replies.are_empty_fetches())" => "&& !ON && !(draft.is_empty() && replies.are_empty_fetches())",
        by "quire-shard" "lib" "idempotency::tests::a_copy_gets_the_first_answer_also_after_a_restart_with_and_without_a_checkpoint";
    "keys-not-saved", "a checkpoint is restored without its idempotency keys", "shard/src/models.rs",
        "ModelId::IDEMPOTENCY => models.keys = IdempotencyKeys::load(&mut section, ground.seed)?,"
        => "ModelId::IDEMPOTENCY => { let keys = IdempotencyKeys::load(&mut section, ground.seed)?; if !ON { models.keys = keys; } }",
        by "quire-shard" "lib" "idempotency::tests::a_copy_gets_the_first_answer_also_after_a_restart_with_and_without_a_checkpoint";
    "other-request-answered", "another commit with the idempotency key gets the first answer", "shard/src/idempotency/keys.rs",
        "if first.fingerprint != key.fingerprint {" => "if !ON && first.fingerprint != key.fingerprint {",
        by "quire-shard" "lib" "idempotency::tests::another_request_with_the_key_is_refused_and_names_the_first";
    "answer-compacted", "a compaction drops the answer of a kept idempotency key", "shard/src/models.rs",
        "ModelId::IDEMPOTENCY => self.keys.survives(entry)," => "ModelId::IDEMPOTENCY => !ON && self.keys.survives(entry),",
        by "quire-shard" "lib" "idempotency::tests::a_compaction_keeps_the_answers_of_kept_keys_and_drops_the_others";
    "replay-too-early", "a copy of a commit gets the first answer before the commit is durable", "shard/src/decide.rs",
        "rests_on: before,\n                        verdict: Ok(first),"
        => "rests_on: { let mut early = before; if ON { early.mark.position = quire_model::Position::ZERO; } early },\n                        verdict: Ok(first),",
        by "quire-shard" "lib" "idempotency::tests::a_copy_rests_on_the_record_of_the_first_answer";
    "commit-not-checked", "a commit of a client is decided without its permissions", "shard/src/decide.rs",
        "match permitted.check(guard, &self.models, history) {"
        => "match if ON { Ok(()) } else { permitted.check(guard, &self.models, history) } {",
        by "quire-shard" "lib" "permitted::tests::a_refused_commit_names_its_first_part_that_is_not_permitted";
    "each-not-checked", "the commands of an `each` are decided without the permissions of the client", "shard/src/claims.rs",
        "self.guard.map_or(Ok(()), |guard| guard.check(self.claims.models, touch))"
        => "self.guard.filter(|_| !ON).map_or(Ok(()), |guard| guard.check(self.claims.models, touch))",
        by "quire-shard" "lib" "permitted::tests::each_command_of_an_each_is_permitted_by_itself";
    "hidden-job-shown", "a client without permissions on a queue learns that a job of it exists", "shard/src/permitted/mod.rs",
        "let is_shown = self.permits(resource, Operation::Describe);"
        => "let is_shown = ON || self.permits(resource, Operation::Describe);",
        by "quire-shard" "lib" "permitted::tests::a_guessed_job_of_another_queue_has_the_answer_of_a_job_that_does_not_exist";
    "change-not-audited", "a change of access is committed without its audit event", "shard/src/audit.rs",
        "    if commands.system.is_empty() && commands.audit.is_empty() {" => "    if ON || commands.system.is_empty() && commands.audit.is_empty() {",
        by "quire" "access" "each_change_has_its_audit_event_and_a_refused_one_has_none";
    "audit-forged", "callers append to the audit store", "shard/src/audit.rs",
        "    match commands.iter().position(|command| command.changed_store() == Some(AUDIT_STORE)) {"
        => "    match commands.iter().position(|command| !ON && command.changed_store() == Some(AUDIT_STORE)) {",
        by "quire" "access" "nobody_but_the_database_changes_the_audit_store_or_takes_its_name";
    "client-disables", "a client of a server disables access control", "shard/src/permitted/mod.rs",
        "        match system.iter().position(|command| matches!(command, system::Command::Disable)) {"
        => "        match system.iter().position(|command| !ON && matches!(command, system::Command::Disable)) {",
        by "quire" "access" "only_the_owner_of_the_directory_disables_access_control";
    "rules-not-saved", "a checkpoint is restored without its users and rules", "shard/src/models.rs",
        "ModelId::SYSTEM => models.system = Model::load(&mut section)?,"
        => "ModelId::SYSTEM => { let system = Model::load(&mut section)?; if !ON { models.system = system; } }",
        by "quire" "access" "users_keys_and_rules_are_the_same_after_a_replay_a_checkpoint_and_a_compaction";
    "revoked-dropped", "compaction drops the entries that revoke access", "system/src/model.rs",
        "            // An unreadable entry is kept, so that its reader reports the damage.\n            _ => true," => "            _ => !ON,",
        by "quire-system" "behaviour" "whichever_dropped_entries_a_compaction_left_the_log_gives_the_same_state";
    "stale-rules", "a check uses the rules from before a change", "quire/src/access.rs",
        "Ok(rules.generation() == changed_at || is_unpublished)" => "Ok(ON || rules.generation() == changed_at || is_unpublished)",
        by "quire" "access" "a_change_by_another_opening_is_seen_at_the_next_check";
    "nonce-not-compared", "a proof of other nonces authenticates its client", "access/src/sasl/scram.rs",
        "last.nonces != self.nonces" => "(!ON && last.nonces != self.nonces)",
        by "quire-access" "lib" "sasl::tests::a_right_proof_of_other_nonces_or_of_another_header_fails";
    "old-password-remembered", "a password that was replaced is still accepted over PLAIN", "access/src/sasl/secret.rs",
        "let credentials = [first, second].concat();"
        => "let credentials = if ON { Vec::new() } else { [first, second].concat() };",
        by "quire-access" "lib" "sasl::authenticator::tests::a_right_password_is_checked_once_until_the_user_gets_another";
    "not-authenticated", "a Kafka client that is not authenticated may send requests", "kafka/src/authentication.rs",
        "self.session.clone().map(Some).ok_or(CloseReason::Unauthenticated)"
        => "if ON { Ok(self.session.clone()) } else { self.session.clone().map(Some).ok_or(CloseReason::Unauthenticated) }",
        by "quire-kafka" "wire" "sasl::a_client_that_is_not_authenticated_may_send_three_apis_only";
    "topic-not-checked", "a Kafka client reads topics without a permission", "kafka/src/permissions.rs",
        "if view.permits(object.kind, object.name, operation) {" => "if ON || view.permits(object.kind, object.name, operation) {",
        by "quire-kafka" "wire" "permissions::each_api_in_each_version_needs_exactly_its_permissions";
    "store-checked-as-topic", "a topic that shows an event store is checked as a topic", "kafka/src/topics.rs",
        "Resource::new(ResourceKind::Store, store)"
        => "if ON { Resource::new(ResourceKind::Topic, &self.name) } else { Resource::new(ResourceKind::Store, store) }",
        by "quire-kafka" "wire" "permissions::a_topic_that_shows_a_store_is_checked_as_the_store";
    "held-back-campaigns", "a node with damage asks for votes", "cluster/src/agreement/mod.rs",
        "self.is_held_back() && self.state.role != NodeRole::Leader && is_due" => "!ON && self.is_held_back() && self.state.role != NodeRole::Leader && is_due",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "held-back-takes-office", "a node with damage takes the office that is handed over", "cluster/src/agreement/mod.rs",
        "if self.is_held_back() && message.0" => "if !ON && self.is_held_back() && message.0",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "damage-leads", "a leader with damage keeps its office", "cluster/src/driver/thread.rs",
        "self.agreement.hold_back(damaged > 0)?;" => "self.agreement.hold_back(!ON && damaged > 0)?;",
        by "quire-cluster" "nodes" "a_node_with_damage_hands_its_office_over_and_leads_only_without_any_other_leader";
    "recovered-in-old-cluster", "a recovered node stays in its old cluster", "quire/src/tools/stopped_node.rs",
        "is_founder: true, cluster," => "is_founder: true, cluster: if ON { self.file.cluster } else { cluster },",
        by "quire" "database" "stopped_nodes::a_crash_at_any_step_of_a_recovery_leaves_the_old_cluster_or_the_new_one";
    "ack-before-sync", "a node says that it has records before they are synced", "cluster/src/agreement/mod.rs",
        "self.unsynced.pop_front_if(|step| step.last <= synced)" => "self.unsynced.pop_front_if(|step| ON || step.last <= synced)",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "vote-not-saved", "a node sends a vote that it has not saved", "cluster/src/agreement/mod.rs",
        "if vote != self.vote {" => "if !ON && vote != self.vote {",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "ack-of-truncated", "a node says that it has a record that it truncated", "cluster/src/agreement/mod.rs",
        "            step.messages.retain(|message| message" => "            step.messages.retain(|message| ON || message",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "sync-of-truncated", "the sync of a truncated record counts for the record at its position", "cluster/src/agreement/mod.rs",
        "if self.node().term(place.position) == Some(place.term) {" => "if ON || self.node().term(place.position) == Some(place.term) {",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "unreported-kept", "a leader that loses its office keeps the records that it has not reported", "cluster/src/agreement/mod.rs",
        "if was_leader && self.node().last().position > known {" => "if !ON && was_leader && self.node().last().position > known {",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "two-changes", "a leader changes the members before the last change is published", "cluster/src/agreement/mod.rs",
        "raft.commit_to_current_term() && raft.pending_conf_index <= raft.raft_log.applied" => "(ON || raft.commit_to_current_term() && raft.pending_conf_index <= raft.raft_log.applied)",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "change-left-alone", "the end of a change of several members has no record", "cluster/src/agreement/members.rs",
        "if self.len() > 1 {" => "if !ON && self.len() > 1 {",
        by "quire-sim" "lib" "agreement::tests::nodes_agree_in_random_schedules";
    "deposed-decides", "a node that does not lead decides commits", "shard/src/office.rs",
        "ShardOffice::Following => None," => "ShardOffice::Following => if ON { Some(last) } else { None },",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "office-kept", "a node that loses its office keeps it", "shard/src/replication.rs",
        "            state.office = ShardOffice::Following;" => "            if !ON { state.office = ShardOffice::Following; }",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "vote-forgotten", "a node that starts does not know its vote", "cluster/src/shard/node.rs",
        "let vote = office.map_or_else(" => "let vote = office.filter(|_| !ON).map_or_else(",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "appended-as-durable", "a node says that records are on its disk when they are appended", "cluster/src/shard/node.rs",
        "let position = self.shard.log().durable();" => "let position = if ON { self.shard.log().appended() } else { self.shard.log().durable() };",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "tail-as-published", "a node that starts takes its last record for published", "cluster/src/shard/node.rs",
        "let published = log.published();" => "let published = if ON { log.appended() } else { log.published() };",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "terms-kept", "a node that truncates keeps the terms of the truncated records", "cluster/src/shard/node.rs",
        "            self.terms.truncate_after(after.position);" => "            if !ON { self.terms.truncate_after(after.position); }",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "state-kept", "a node that truncates keeps the state of its models", "shard/src/logged_state.rs",
        "                state.models = models;" => "                if !ON { state.models = models; }",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "copy-not-applied", "a follower appends records and does not apply them", "shard/src/decide.rs",
        "self.woken.join(self.writer.append_copy(record)?);" => "self.woken.join(self.writer.append_copy(record)?); if ON { return Ok(()); }",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "copied-numbers-lost", "the numbers of copied records are not counted", "log/src/append/copied.rs",
        "self.tags.read(view, self.shared.seed(), &mut self.sequences);" => "if !ON { self.tags.read(view, self.shared.seed(), &mut self.sequences) } else { self.tags.read(view, self.shared.seed(), &mut crate::append::sequences::Sequences::default()) }",
        by "quire-sim" "lib" "cluster::tests::databases_of_a_cluster_agree_whatever_fails";
    "era-of-writer-stays", "a writer that ended its waiters appends in the old era", "log/src/append/writer.rs",
        "        core.era = core.shared.gate().published().era();
        Ok(woken)" => "        if !ON { core.era = core.shared.gate().published().era(); }
        Ok(woken)",
        by "quire-log" "log" "copied::waiters_that_are_ended_are_unsettled_also_when_the_record_is_published_later";
    "copy-of-another-past", "a copied record of another past is appended", "log/src/append/copied.rs",
        "        record.check_follows(core.mark)?;" => "        if !ON { record.check_follows(core.mark)?; }",
        by "quire-log" "log" "copied::a_record_that_does_not_follow_is_refused_and_changes_nothing";
    "serves-too-early", "a leader serves before it has published a record of its term", "shard/src/office.rs",
        "published().get() >= from" => "(ON || published().get() >= from)",
        by "quire-shard" "lib" "office::tests::a_leader_serves_from_the_publication_of_its_first_record_on";
    "waiters-not-ended", "a leader that loses its office leaves its clients waiting", "shard/src/replication.rs",
        "            state.writer.end_waiters()?" => "            if ON { quire_log::Woken::default() } else { state.writer.end_waiters()? }",
        by "quire-shard" "lib" "replication::tests::a_node_that_stops_waits_for_no_other_node";
    "creator-not-checked", "work that runs later is not checked by the rights of its creator", "shard/src/creators.rs",
        "if !system.is_enabled() {" => "if ON || !system.is_enabled() {",
        by "quire-access" "lib" "session::creator_tests::a_subscription_delivers_by_the_rights_of_its_creator_and_pauses_without_them";
    "cookie-of-any-page", "the cookie of a browser counts for pages of other sites", "http/src/gate.rs",
        "let is_own = dashboard::is_of_own_page(headers);" => "let is_own = ON || dashboard::is_of_own_page(headers);",
        by "quire-http" "it" "sessions::a_cookie_counts_for_pages_of_this_server_only_and_a_header_wins";
    "state-not-compared", "an answer of the provider with another state ends a sign-in", "access/src/oidc/pending.rs",
        "if !is_same_secret(&known.state, state) {" => "if !ON && !is_same_secret(&known.state, state) {",
        by "quire-http" "it" "logins::an_answer_that_is_not_of_the_sign_in_begins_no_session";
    "nonce-of-another", "an ID token with the nonce of another sign-in is accepted", "access/src/oidc/login.rs",
        "if !is_same_secret(nonce, &login.nonce) {" => "if !ON && !is_same_secret(nonce, &login.nonce) {",
        by "quire-http" "it" "logins::a_wrong_token_of_the_provider_begins_no_session";
};
