//! Applies the parts of a commit, in order.

use super::{Condition, Draft, Event, Job, Message, Naive, NaivePayload, NaiveReply, Part, Phase, Retry, Rival, Topic};

impl Draft {
    pub(super) fn take(&mut self, part: &Part) -> Option<NaiveReply> {
        match *part {
            Part::Produce { topic, value } => {
                self.effects = true;
                let number = self.after.topics.len();
                let topic = self.after.topics.entry(topic).or_insert_with(|| Topic { number, ..Topic::default() });
                topic.messages.push(Message { value, record: self.record, time_ms: self.clock / 1000 });
                Some(NaiveReply::Produced(topic.messages.len() as u64 - 1))
            }
            Part::CreateRival { rival } => {
                let Naive { stores, queues, subscriptions, .. } = &self.after;
                let is_taken = match rival {
                    Rival::Store(store) => stores.contains_key(&store),
                    Rival::Queue(queue) => queues.contains(&queue) || subscriptions.contains_key(&queue),
                };
                (!is_taken && self.after.rivals.insert(rival)).then_some(())?;
                self.effects = true;
                Some(NaiveReply::Done)
            }
            Part::DeleteRival { rival } => {
                self.after.rivals.remove(&rival).then_some(())?;
                self.effects = true;
                Some(NaiveReply::Done)
            }
            Part::DeleteRecords { topic, before, keep_unread } => {
                let unread = self.after.unread(topic);
                let topic = self.after.topics.get_mut(&topic)?;
                let next = topic.messages.len() as u64;
                let before = before.unwrap_or(next);
                (before <= next).then_some(())?;
                let start = unread.filter(|_| keep_unread).map_or(before, |unread| unread.min(before));
                self.effects |= start > topic.start;
                topic.start = topic.start.max(start);
                Some(NaiveReply::Starts(topic.start))
            }
            Part::KeepMessages { topic, kept_ms } => {
                self.alter(topic)?.kept_ms = kept_ms;
                Some(NaiveReply::Done)
            }
            Part::KeepBytes { topic, kept_bytes } => {
                self.alter(topic)?.kept_bytes = kept_bytes;
                Some(NaiveReply::Done)
            }
            Part::CompactKeys { topic } => {
                self.alter(topic)?.compacts = true;
                Some(NaiveReply::Done)
            }
            Part::Join { group, topic, name, lease_ms } => self.join((group, topic), name, lease_ms),
            Part::Renew { group, topic, member } => self.renew((group, topic), member),
            Part::Leave { group, topic, member } => self.leave((group, topic), member),
            Part::Protect { group, topic, protects } => {
                let protected = &mut self.after.topics.get_mut(&topic)?.protected;
                if protects {
                    protected.insert(group)
                } else {
                    protected.remove(&group)
                };
                self.after.groups.insert(group);
                self.effects = true;
                Some(NaiveReply::Done)
            }
            Part::Offset { group, topic, offset, by } => {
                self.after.topics.get(&topic)?;
                if let Some((member, since)) = by {
                    self.reads((group, topic), member, since)?;
                }
                self.after.groups.insert(group);
                self.effects = true;
                self.after.offsets.insert((group, topic), offset);
                Some(NaiveReply::Done)
            }
            Part::Append { store, tag, events, ref condition, value } => {
                self.holds(store, condition.as_ref()).then_some(())?;
                if events == 0 {
                    return Some(NaiveReply::NOTHING);
                }
                self.has_store_name(store)?;
                self.effects = true;
                let (record, time) = (self.record, self.now);
                let store = &mut self.after.stores.entry(store).or_default().events;
                let first = store.len() as u64 + 1;
                store.extend(std::iter::repeat_n(Event { tag, id: None, value, record, time, gone: false }, events));
                Some(NaiveReply::Appended { positions: Some((first, store.len() as u64)), duplicate: false })
            }
            Part::AppendOnce { store, tag, id, value } => {
                self.has_store_name(store)?;
                let (record, time) = (self.record, self.now);
                let store = &mut self.after.stores.entry(store).or_default().events;
                if let Some(index) = store.iter().position(|event| event.id == Some(id) && !event.gone) {
                    let position = index as u64 + 1;
                    return Some(NaiveReply::Appended { positions: Some((position, position)), duplicate: true });
                }
                self.effects = true;
                store.push(Event { tag, id: Some(id), value, record, time, gone: false });
                let position = store.len() as u64;
                Some(NaiveReply::Appended { positions: Some((position, position)), duplicate: false })
            }
            Part::Trim { store: name, up_to } => {
                let store = self.after.stores.get_mut(&name)?;
                let before = self.events_before.get(&name).copied().unwrap_or_default();
                (up_to <= before).then_some(())?;
                if up_to > store.trimmed {
                    self.effects = true;
                    store.trimmed = up_to;
                    (1..).zip(&mut store.events).for_each(|(position, event)| event.gone |= position <= up_to);
                }
                Some(NaiveReply::NOTHING)
            }
            Part::Forget { store: name, tag } => {
                let store = self.after.stores.get_mut(&name)?;
                let before = self.events_before.get(&name).copied().unwrap_or_default();
                self.effects = true;
                let were_there = (1..).zip(&mut store.events).take_while(|(position, _)| *position <= before);
                were_there.for_each(|(_, event)| event.gone |= event.tag == tag);
                Some(NaiveReply::NOTHING)
            }
            Part::KeepEvents { store, kept_ms } => {
                self.has_store_name(store)?;
                self.after.stores.entry(store).or_default().kept_ms = kept_ms;
                self.effects = true;
                Some(NaiveReply::NOTHING)
            }
            Part::Subscribe { name, store, tag, after } => self.subscribe(name, store, tag, after),
            Part::Unsubscribe { name } => self.unsubscribe(name),
            Part::Deliver { name, ref positions, to } => self.deliver(name, positions, to),
            Part::Enqueue { queue, priority, attempts_max, run_at, value } => {
                (!self.after.rivals.contains(&Rival::Queue(queue))).then_some(())?;
                self.effects = true;
                self.after.queues.insert(queue);
                let later = run_at.filter(|run_at| *run_at > self.now);
                let phase = later.map_or(Phase::Pending, |run_at| Phase::Scheduled { run_at });
                let carries = NaivePayload::Value(value);
                self.after.jobs.push(Job { queue, priority, attempt: 0, attempts_max, carries, phase, is_lost: false });
                Some(NaiveReply::Enqueued(self.after.jobs.len() - 1))
            }
            Part::Fetch { ref queues, count, lease_micros } => {
                let mut fetched = Vec::new();
                // First the due state changes of all queues, then one queue after the other.
                for number in 0..self.jobs_before {
                    if queues.contains(&self.after.jobs[number].queue) {
                        self.settle(number);
                    }
                }
                for queue in queues {
                    self.fetch(*queue, count as usize, lease_micros, &mut fetched);
                }
                Some(NaiveReply::Fetched(fetched))
            }
            Part::Ack { job, lease } => {
                self.held(job, lease)?;
                self.set(job, Phase::Completed);
                Some(NaiveReply::Done)
            }
            Part::Fail { job, lease, retry } => {
                self.held(job, lease)?;
                let Job { attempt, attempts_max, .. } = self.after.jobs[job];
                let phase = match retry {
                    Retry::At(time) if attempt < attempts_max => Phase::Retrying { due: time.max(self.now) },
                    _ => Phase::Dead,
                };
                self.set(job, phase);
                Some(NaiveReply::Done)
            }
            Part::Snooze { job, lease, until } => {
                self.held(job, lease)?;
                // The attempt does not count.
                self.after.jobs[job].attempt -= 1;
                self.wait_until(job, until);
                Some(NaiveReply::Done)
            }
            Part::Cancel { job } => {
                self.settle_unchanged(job);
                let phase = self.after.jobs.get(job)?.phase;
                (!matches!(phase, Phase::Completed | Phase::Dead | Phase::Cancelled)).then_some(())?;
                self.set(job, Phase::Cancelled);
                Some(NaiveReply::Done)
            }
            Part::Revive { job } => {
                self.settle_unchanged(job);
                let is_dead = self.after.jobs.get(job)?.phase == Phase::Dead;
                is_dead.then_some(())?;
                (self.after.jobs[job].attempt, self.after.jobs[job].is_lost) = (0, false);
                self.wait_until(job, 0);
                Some(NaiveReply::Done)
            }
            Part::Heartbeat { job, lease, lease_micros } => {
                self.held(job, lease)?;
                self.set(job, Phase::Active { lease, deadline: self.now + lease_micros });
                Some(NaiveReply::Done)
            }
            Part::PutBlock { block, must_be_new, value } => self.put_block(block, must_be_new, value),
            Part::DeleteBlock { block } => self.delete_block(block),
            Part::PutEdge { source, target } => self.put_edge(source, target),
            Part::DeleteEdge { source, target } => self.delete_edge(source, target),
            Part::KeepGraph { kept_ms, versions } => self.keep_graph(kept_ms, versions),
            Part::TrimGraph { from } => self.trim_graph(from),
        }
    }

    /// Whether a store has its topic name, or may take it.
    pub(super) fn has_store_name(&self, store: usize) -> Option<()> {
        (!self.after.rivals.contains(&Rival::Store(store))).then_some(())
    }

    fn holds(&self, store: usize, condition: Option<&Condition>) -> bool {
        let events = self.after.stores.get(&store).map_or(&[][..], |store| &store.events);
        let last = |wanted: usize| {
            let found = events.iter().rposition(|event| event.tag == wanted && !event.gone);
            found.map_or(0, |index| index as u64 + 1)
        };
        match condition {
            None => true,
            Some(Condition::NoneWith { tag, after }) => last(*tag) <= *after,
            Some(Condition::LastIs { tag, position }) => last(*tag) == *position,
        }
    }
}
