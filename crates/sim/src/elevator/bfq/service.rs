//! B-WF2Q+ (`block/bfq-wf2q.c`): queues by virtual finish time, served in that order as far as
//! their virtual start has come.
//!
//! A queue with weight `w` that gets `s` sectors of service ages by `s / w` in virtual time. The
//! virtual time of a class passes by `s / W`, `W` being the sum of weights. A queue that runs empty
//! stays in the idle tree until virtual time has passed its finish. So no queue gains by coming and
//! going. There are as many queues as processes: sorted vectors stand for the kernel's trees, with
//! the same order.

use super::state::{Bfq, CLASSES, Now};
use super::tree::{ServiceTree, Tree};

/// Fixed point of virtual time (`WFQ_SERVICE_SHIFT`).
const SERVICE_SHIFT: u32 = 22;

/// Service in virtual time (`bfq_delta`).
fn delta(service: u64, weight: u64) -> u64 {
    (service << SERVICE_SHIFT).checked_div(weight).unwrap_or(0)
}

impl Bfq {
    fn tree_of(&self, at: u32) -> &ServiceTree {
        &self.trees[self.queues[at as usize].class]
    }

    fn enter(&mut self, at: u32, tree: Tree) {
        let queue = self.queues[at as usize];
        let queues = &self.queues;
        let st = &mut self.trees[queue.class];
        let members = if tree == Tree::Active { &mut st.active } else { &mut st.idle };
        let place = members
            .partition_point(|&other| queues[other as usize].entity.finish <= queue.entity.finish);
        members.insert(place, at);
        self.queues[at as usize].entity.tree = tree;
    }

    fn extract(&mut self, at: u32) {
        let queue = &mut self.queues[at as usize];
        let st = &mut self.trees[queue.class];
        match queue.entity.tree {
            Tree::Active => st.active.retain(|&other| other != at),
            Tree::Idle => st.idle.retain(|&other| other != at),
            Tree::None => {}
        }
        queue.entity.tree = Tree::None;
    }

    /// `bfq_forget_entity`.
    fn forget(&mut self, at: u32) {
        let queue = &mut self.queues[at as usize];
        queue.entity.counted = false;
        let st = &mut self.trees[queue.class];
        st.weight_sum = st.weight_sum.saturating_sub(queue.entity.weight);
    }

    /// Drops an idle queue whose finish has passed, at most one a call (`bfq_forget_idle`).
    fn forget_idle(&mut self, class: usize) {
        let finish = |at: Option<&u32>| at.map(|&at| self.queues[at as usize].entity.finish);
        let st = &self.trees[class];
        let (first, last) = (finish(st.idle.first()), finish(st.idle.last()));
        let st = &mut self.trees[class];
        if let Some(last) = last.filter(|&last| st.active.is_empty() && last <= st.vtime) {
            st.vtime = last;
        }
        let passed = first.is_some_and(|first| first <= st.vtime);
        if let Some(at) = st.idle.first().copied().filter(|_| passed) {
            self.extract(at);
            self.forget(at);
        }
    }

    /// `__bfq_entity_update_weight_prio`.
    pub(super) fn update_weight(&mut self, at: u32) {
        let entity = self.queues[at as usize].entity;
        if !entity.weight_changed {
            return;
        }
        let factor = self.queues[at as usize].raise.factor;
        let weight = entity.own_weight * factor;
        if weight != entity.weight {
            self.uncount_weight(at);
        }
        let queue = &mut self.queues[at as usize];
        queue.entity.weight_changed = false;
        queue.entity.weight = weight;
        if entity.counted {
            let st = &mut self.trees[queue.class];
            st.weight_sum = st.weight_sum.saturating_sub(entity.weight) + weight;
        }
        if weight != entity.weight && factor == 1 {
            self.count_weight(at);
        }
    }

    /// `bfq_update_fin_time_enqueue`.
    fn enqueue(&mut self, at: u32, backshifted: bool) {
        self.update_weight(at);
        let vtime = self.tree_of(at).vtime;
        let queue = &mut self.queues[at as usize];
        let entity = &mut queue.entity;
        entity.finish = entity.start + delta(entity.budget.max(0) as u64, entity.weight);
        if backshifted && vtime > entity.finish {
            let push = (vtime - entity.finish) / queue.raise.factor;
            entity.start += push;
            entity.finish += push;
        }
        self.enter(at, Tree::Active);
    }

    /// An idle queue comes back (`__bfq_activate_entity`). `expects_more`: it goes on where it
    /// stopped.
    fn activate(&mut self, at: u32, expects_more: bool) {
        let vtime = self.tree_of(at).vtime;
        let entity = self.queues[at as usize].entity;
        let backshifted = expects_more && vtime > entity.finish;
        let earliest = if backshifted { entity.finish } else { vtime };
        if entity.tree == Tree::Idle {
            self.extract(at);
            self.queues[at as usize].entity.start = earliest.max(entity.finish);
        } else {
            let queue = &mut self.queues[at as usize];
            queue.entity.start = earliest;
            queue.entity.counted = true;
            self.trees[queue.class].weight_sum += entity.weight;
        }
        self.enqueue(at, backshifted);
    }

    /// `__bfq_activate_requeue_entity`. `expiration`: the queue's turn has just ended.
    pub(super) fn requeue(&mut self, at: u32, expects_more: bool, expiration: bool, now: Now) {
        let tree = self.queues[at as usize].entity.tree;
        if self.entity_in_service == Some(at) {
            self.age(at);
            let entity = &mut self.queues[at as usize].entity;
            entity.start = entity.finish;
            self.extract(at);
            self.enqueue(at, false);
        } else if tree == Tree::Active {
            self.extract(at);
            self.enqueue(at, false);
        } else {
            self.activate(at, expects_more);
        }
        self.update_next_in_service(Some(at), expiration, now);
    }

    /// Moves the finish to where the service received has brought it (`bfq_calc_finish`).
    fn age(&mut self, at: u32) {
        let entity = &mut self.queues[at as usize].entity;
        entity.finish = entity.start + delta(entity.service.max(0) as u64, entity.weight);
    }

    /// A queue has run empty (`__bfq_deactivate_entity`).
    pub(super) fn deactivate(&mut self, at: u32, expiration: bool, now: Now) {
        if !self.queues[at as usize].entity.counted {
            return;
        }
        self.age(at);
        if self.entity_in_service == Some(at) {
            self.entity_in_service = None;
        } else {
            self.queues[at as usize].entity.service = 0;
        }
        self.extract(at);
        if self.queues[at as usize].entity.finish > self.tree_of(at).vtime {
            self.enter(at, Tree::Idle);
        } else {
            self.forget(at);
        }
        if self.next_in_service == Some(at) {
            self.update_next_in_service(None, expiration, now);
        }
    }

    /// A queue gets service: it ages when its turn ends, virtual time passes at once
    /// (`bfq_bfqq_served`).
    pub(super) fn serve(&mut self, at: u32, sectors: i64) {
        let queue = &mut self.queues[at as usize];
        queue.raise.served(sectors);
        queue.entity.service += sectors;
        let class = queue.class;
        let st = &mut self.trees[class];
        st.vtime += delta(sectors.max(0) as u64, st.weight_sum);
        self.forget_idle(class);
    }

    /// `bfq_update_next_in_service`.
    fn update_next_in_service(&mut self, new: Option<u32>, expiration: bool, now: Now) {
        if let Some(new) = new.filter(|&new| self.next_in_service != Some(new)) {
            let takes_over = self.next_in_service.is_none_or(|next| {
                let (new, next) = (&self.queues[new as usize], &self.queues[next as usize]);
                new.class == next.class
                    && new.entity.start <= self.trees[new.class].vtime
                    && next.entity.finish > new.entity.finish
            });
            if takes_over {
                self.next_in_service = Some(new);
                return;
            }
        }
        self.next_in_service = self.look_up_next(expiration, now);
    }

    /// The first eligible queue of the highest class; the idle class has a turn every 200 ms
    /// (`bfq_lookup_next_entity`).
    fn look_up_next(&mut self, expiration: bool, now: Now) -> Option<u32> {
        let mut first_class = 0;
        if now.jiffies > self.idle_class_served + self.clock.hz() / 5 {
            if !self.trees[CLASSES - 1].active.is_empty() {
                first_class = CLASSES - 1;
            }
            self.idle_class_served = now.jiffies;
        }
        let somebody_served = self.entity_in_service.is_some() && !expiration;
        (first_class..CLASSES).find_map(|class| self.first_eligible(class, somebody_served))
    }

    /// `__bfq_lookup_next_entity`: virtual time jumps to where at least one queue is eligible.
    fn first_eligible(&mut self, class: usize, somebody_served: bool) -> Option<u32> {
        let start = |at: u32| self.queues[at as usize].entity.start;
        let st = &self.trees[class];
        let vtime = st.active.iter().map(|&at| start(at)).min()?.max(st.vtime);
        if !somebody_served && vtime > st.vtime {
            self.trees[class].vtime = vtime;
            self.forget_idle(class);
        }
        let start = |at: u32| self.queues[at as usize].entity.start;
        self.trees[class].active.iter().copied().find(|&at| start(at) <= vtime)
    }

    /// `bfq_get_next_queue`.
    pub(super) fn take_next(&mut self, now: Now) -> Option<u32> {
        let next = self.next_in_service?;
        self.entity_in_service = Some(next);
        self.extract(next);
        self.update_next_in_service(None, false, now);
        Some(next)
    }
}
