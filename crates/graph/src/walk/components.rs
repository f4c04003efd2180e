//! Strongly connected components, and the topological order with the cycles that stand in its way.
//!
//! Components by Tarjan's algorithm (R. Tarjan, *Depth-first search and linear graph algorithms*,
//! 1972) with its stack in a list; the order by Kahn's (A. B. Kahn, *Topological sorting of large
//! networks*, 1962).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Walk;
use super::links::Links;
use super::tokens::NONE;
use crate::{BlockId, Direction};

/// The blocks of a walk, each behind all that have an edge to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologicalOrder {
    /// The blocks that are in no cycle and behind none; those that may be first come in the order
    /// of the walk.
    pub order: Vec<BlockId>,
    /// The reasons why the other blocks have no order: strongly connected components of more than
    /// one block, and blocks with an edge to themselves.
    pub cycles: Vec<Vec<BlockId>>,
    /// The blocks that are in no cycle and behind one, in the order of the walk: they have no place
    /// in the order either.
    pub behind: Vec<BlockId>,
}

impl TopologicalOrder {
    /// Keeps `count` blocks: of the order, then of the cycles, the last of which may be cut, then
    /// of the blocks after the cycles. Returns whether there were more.
    pub fn truncate(&mut self, count_max: usize) -> bool {
        let count = |cycles: &[Vec<BlockId>]| cycles.iter().map(Vec::len).sum::<usize>();
        let all = self.order.len() + count(&self.cycles) + self.behind.len();
        self.order.truncate(count_max);
        truncate_sets(&mut self.cycles, count_max - self.order.len());
        self.behind.truncate(count_max - self.order.len() - count(&self.cycles));
        all > count_max
    }
}

/// Keeps `count` blocks of the sets, the last of which may be cut. Returns whether there were more.
pub fn truncate_sets(sets: &mut Vec<Vec<BlockId>>, count_max: usize) -> bool {
    let mut left = count_max;
    for index in 0..sets.len() {
        if sets[index].len() > left {
            sets[index].truncate(left);
            sets.truncate(if left == 0 { index } else { index + 1 });
            return true;
        }
        left -= sets[index].len();
    }
    false
}

impl Walk {
    /// Parts the visited blocks into strongly connected components: every block of one can be
    /// reached from every other along the walked edges. Components, and blocks within one, come in
    /// the order of the walk.
    ///
    /// It looks at the edges that the walk gives: see
    /// [`WalkPlan::with_edges`](crate::WalkPlan::with_edges).
    pub fn components(&self) -> Vec<Vec<BlockId>> {
        let components = self.numbered_components(&Links::of(self, Direction::Outgoing));
        components.into_iter().map(|component| self.ids(&component)).collect()
    }

    /// Brings the visited blocks into an order in which every edge leads from an earlier to a later
    /// one, as far as there is one. Looks at the same edges as [`Walk::components`].
    pub fn topological_order(&self) -> TopologicalOrder {
        let links = Links::of(self, Direction::Outgoing);
        let mut arriving = alloc::vec![0u32; self.met.len()];
        for link in &self.edges {
            arriving[link.target as usize] += 1;
        }
        let mut ready: VecDeque<u32> =
            self.order.iter().copied().filter(|number| arriving[*number as usize] == 0).collect();
        let mut order = Vec::new();
        while let Some(number) = ready.pop_front() {
            order.push(number);
            for edge in links.from(number) {
                arriving[edge.to as usize] -= 1;
                if arriving[edge.to as usize] == 0 {
                    ready.push_back(edge.to);
                }
            }
        }
        let (mut cycles, mut behind) = (Vec::new(), Vec::new());
        if order.len() < self.order.len() {
            let is_cycle = |component: &Vec<u32>| {
                component.len() > 1 || links.from(component[0]).iter().any(|edge| edge.to == component[0])
            };
            cycles = self.numbered_components(&links);
            cycles.retain(is_cycle);
            // A block with a place has no arriving edge left. A block that is left and not in a
            // cycle follows one.
            let mut is_placed: Vec<bool> = arriving.iter().map(|left| *left == 0).collect();
            for number in cycles.iter().flatten() {
                is_placed[*number as usize] = true;
            }
            behind = self.order.iter().copied().filter(|number| !is_placed[*number as usize]).collect();
        }
        let cycles = cycles.iter().map(|cycle| self.ids(cycle)).collect();
        TopologicalOrder { order: self.ids(&order), cycles, behind: self.ids(&behind) }
    }

    fn ids(&self, numbers: &[u32]) -> Vec<BlockId> {
        numbers.iter().map(|number| self.met[*number as usize].id).collect()
    }

    fn numbered_components(&self, links: &Links) -> Vec<Vec<u32>> {
        let count = self.met.len();
        // When a block was entered, and the earliest that is reached from it on the stack.
        let (mut entered, mut lowest) = (alloc::vec![NONE; count], alloc::vec![NONE; count]);
        let mut is_open = alloc::vec![false; count];
        let (mut open, mut components) = (Vec::new(), Vec::new());
        let mut clock = 0;
        let mut calls: Vec<(u32, usize)> = Vec::new();
        for root in &self.order {
            if entered[*root as usize] != NONE {
                continue;
            }
            calls.push((*root, 0));
            while let Some((number, next)) = calls.pop() {
                let this = number as usize;
                if next == 0 {
                    (entered[this], lowest[this]) = (clock, clock);
                    clock += 1;
                    open.push(number);
                    is_open[this] = true;
                } else {
                    let back = links.from(number)[next - 1].to as usize;
                    if is_open[back] {
                        lowest[this] = lowest[this].min(lowest[back]);
                    }
                }
                if let Some(edge) = links.from(number).get(next) {
                    calls.push((number, next + 1));
                    if entered[edge.to as usize] == NONE {
                        calls.push((edge.to, 0));
                    }
                } else if lowest[this] == entered[this] {
                    let first = open.iter().rposition(|open| *open == number).expect("it is open");
                    let mut component = open.split_off(first);
                    component.iter().for_each(|number| is_open[*number as usize] = false);
                    component.sort_unstable();
                    components.push(component);
                }
            }
        }
        components.sort_unstable();
        components
    }
}
