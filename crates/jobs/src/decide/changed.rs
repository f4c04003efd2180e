//! The jobs that a commit has changed, and their current state.
//!
//! Most commits change one job: the first is stored apart and needs no allocation. The jobs of a
//! batch mostly come in the order of their ids.

use crate::JobId;
use crate::job::TransitionResult;
use crate::ordered::OrderedMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ChangedJobs {
    first: Option<(JobId, TransitionResult)>,
    /// Without the first.
    others: OrderedMap<JobId, TransitionResult>,
}

impl ChangedJobs {
    #[inline]
    pub(crate) fn get(&self, id: JobId) -> Option<&TransitionResult> {
        match &self.first {
            None => None,
            Some((first, standing)) if *first == id => Some(standing),
            Some(_) => self.others.get(&id),
        }
    }

    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.get(id).is_some()
    }

    #[inline]
    pub(crate) fn insert(&mut self, id: JobId, standing: TransitionResult) {
        match &mut self.first {
            None => self.first = Some((id, standing)),
            Some((first, before)) if *first == id => *before = standing,
            Some(_) => drop(self.others.insert(id, standing)),
        }
    }

    /// All of them, in no useful order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, &TransitionResult)> {
        self.first
            .iter()
            .map(|(id, standing)| (*id, standing))
            .chain(self.others.iter().map(|(id, standing)| (*id, standing)))
    }

    /// The draft states of the jobs, in the order of [`ChangedJobs::iter`].
    pub(crate) fn standings_mut(&mut self) -> impl Iterator<Item = &mut TransitionResult> {
        self.first.iter_mut().map(|(_, standing)| standing).chain(self.others.values_mut())
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use quire_model::{Place, Position};

    use super::*;
    use crate::JobState;

    #[test]
    fn each_job_has_its_last_change_however_many_there_are() {
        let (mut changed, mut expected) = (ChangedJobs::default(), BTreeMap::new());
        let states = JobState::ALL.into_iter().filter(|state| state.is_finished()).cycle();
        for (position, state) in [5, 3, 5, 9, 3, 5, 7].into_iter().zip(states) {
            let id = JobId::new(Place::new(Position::new(position), 0));
            assert_eq!(changed.contains(id), expected.contains_key(&id));
            changed.insert(id, TransitionResult::Finished(state));
            expected.insert(id, TransitionResult::Finished(state));
            assert!(changed.iter().map(|(id, standing)| (id, *standing)).collect::<BTreeMap<_, _>>() == expected);
            assert!(expected.iter().all(|(id, standing)| changed.get(*id) == Some(standing)));
        }
        changed.standings_mut().for_each(|standing| *standing = TransitionResult::Deleted);
        assert_eq!(
            changed.iter().filter(|(_, standing)| **standing == TransitionResult::Deleted).count(),
            expected.len()
        );
    }
}
