//! A kernel's parts: which elevators it offers and how they are built, which filesystems it has,
//! and how it makes writers wait.

use thiserror::Error;

use super::elevator::{
    Anticipatory, AnticipatoryTunables, Cfq18, Cfq18Tunables, Cfq32, Cfq32Tunables, Deadline,
    DeadlineTunables, Noop,
};
use super::throttle::{v2_6_18, v2_6_32, v3_2};
use crate::elevator::kind::names;
use crate::elevator::{
    Bfq, BfqTunables, Elevator, ElevatorKind, Kyber, KyberTunables, MqDeadline, MqDeadlineTunables,
    NoElevator,
};
use crate::fs::FsKind;
use crate::kernel::Generation;
use crate::limits::{DirtyKnobs, Memory};
use crate::throttle::{Machine, Throttle, v6};

/// What [`build`] must know about the kernel and the request queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// The kernel's generation.
    pub generation: Generation,
    /// The kernel's (major, minor), for what changed within a generation.
    pub release: (u16, u16),
    /// Ticks a second (`CONFIG_HZ`): a divisor of 1000.
    pub hz: u32,
    /// Number of CPUs, each with a software queue in blk-mq.
    pub cpus: u32,
    /// Whether the device says that it rotates (`queue/rotational`).
    pub rotational: bool,
    /// Whether it said so when its queue was made: the default target of writeback throttling is
    /// settled then.
    pub rotated_at_first: bool,
    /// Whether bfq was built with `CONFIG_BFQ_GROUP_IOSCHED`. Without it `bfqq_request_over_limit`
    /// limits no process to a share of the request slots.
    pub bfq_groups: bool,
    /// What the queue gets unless told otherwise: [`default_for`] its hardware queues, or what its
    /// driver asks for.
    pub default_elevator: ElevatorKind,
}

impl QueueFacts {
    /// Of a kernel as it was mostly built (1000 ticks a second up to 2.6.32, 250 later), on a
    /// rotating device with one hardware queue and 4 CPUs.
    #[must_use]
    pub const fn new(generation: Generation) -> Self {
        let (release, hz) = match generation {
            Generation::K2_6_18 | Generation::K2_6_32 => ((2, 6), 1000),
            Generation::K3_2 => ((3, 2), 250),
            Generation::K6 => ((6, 18), 250),
        };
        Self {
            generation,
            release,
            hz,
            cpus: 4,
            rotational: true,
            rotated_at_first: true,
            bfq_groups: true,
            default_elevator: default_for(generation, 1),
        }
    }
}

/// Why there is no such elevator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The kernel did not have it.
    #[error("kernel {generation} has no elevator '{kind}': it has {}", names(offered(*generation)))]
    NotOffered {
        /// The requested elevator.
        kind: ElevatorKind,
        /// The kernel.
        generation: Generation,
    },
    /// The tick can not be expressed in whole milliseconds and the like.
    #[error("an elevator's clock can not tick {hz} times a second: take 100, 250 or 1000")]
    Ticks {
        /// The requested tick rate.
        hz: u32,
    },
}

/// The elevators that a generation offers, as `queue/scheduler` lists them with everything built
/// in.
///
/// anticipatory went in 2.6.33, the single-queue elevators in 5.0; mq-deadline came in 4.11, kyber
/// and bfq in 4.12.
#[must_use]
pub const fn offered(generation: Generation) -> &'static [ElevatorKind] {
    match generation {
        Generation::K2_6_18 | Generation::K2_6_32 => &[
            ElevatorKind::Noop,
            ElevatorKind::Anticipatory,
            ElevatorKind::Deadline,
            ElevatorKind::Cfq,
        ],
        Generation::K3_2 => &[ElevatorKind::Noop, ElevatorKind::Deadline, ElevatorKind::Cfq],
        Generation::K6 => {
            &[ElevatorKind::None, ElevatorKind::MqDeadline, ElevatorKind::Kyber, ElevatorKind::Bfq]
        }
    }
}

/// The elevator that a device gets unless told otherwise. Up to 3.2 that is CFQ by Kconfig (RHEL 5
/// too), then mq-deadline for one hardware queue and no elevator for more (`elevator_set_default`).
#[must_use]
pub const fn default_for(generation: Generation, hardware_queues: u32) -> ElevatorKind {
    match generation {
        Generation::K2_6_18 | Generation::K2_6_32 | Generation::K3_2 => ElevatorKind::Cfq,
        Generation::K6 if hardware_queues <= 1 => ElevatorKind::MqDeadline,
        Generation::K6 => ElevatorKind::None,
    }
}

/// Makes an elevator as the kernel had it, with its default tunables.
///
/// `deadline` on 6.x is mq-deadline, which answers to that name. CFQ of 3.2 is that of 2.6.32 with
/// a quantum of 8: its service trees by kind of workload and its groups are not modelled.
///
/// # Errors
/// [`BuildError`] if the generation did not have it, or if the tick does not divide a second into
/// whole milliseconds.
pub fn build(kind: ElevatorKind, facts: &QueueFacts) -> Result<Box<dyn Elevator>, BuildError> {
    let QueueFacts { generation, release, hz, cpus, rotational, bfq_groups, .. } = *facts;
    if hz == 0 || 1000 % hz != 0 {
        return Err(BuildError::Ticks { hz });
    }
    let kind = match (kind, generation) {
        (ElevatorKind::Deadline, Generation::K6) => ElevatorKind::MqDeadline,
        (kind, _) => kind,
    };
    if !offered(generation).contains(&kind) {
        return Err(BuildError::NotOffered { kind, generation });
    }
    let old = generation == Generation::K2_6_18;
    Ok(match kind {
        ElevatorKind::Noop => Box::new(Noop::new(!old)),
        ElevatorKind::Anticipatory => {
            Box::new(Anticipatory::new(old, hz, AnticipatoryTunables::new(hz)))
        }
        ElevatorKind::Deadline => Box::new(Deadline::new(old, hz, DeadlineTunables::default())),
        ElevatorKind::Cfq if old => Box::new(Cfq18::new(hz, Cfq18Tunables::new(hz))),
        ElevatorKind::Cfq => {
            let quantum = if generation == Generation::K3_2 { 8 } else { 4 };
            Box::new(Cfq32::new(
                hz,
                rotational,
                Cfq32Tunables { quantum, ..Cfq32Tunables::new(hz) },
            ))
        }
        ElevatorKind::None => Box::new(NoElevator::new(cpus)),
        ElevatorKind::MqDeadline => {
            Box::new(MqDeadline::new(release, hz, MqDeadlineTunables::default()))
        }
        ElevatorKind::Kyber => Box::new(Kyber::new(release, hz, cpus, KyberTunables::default())),
        ElevatorKind::Bfq => Box::new(Bfq::new(hz, rotational, bfq_groups, BfqTunables::new(hz))),
    })
}

impl FsKind {
    /// Whether a kernel of this generation had it.
    #[must_use]
    pub fn existed_in(self, generation: Generation) -> bool {
        match self {
            Self::Ext4 => generation >= Generation::K2_6_32,
            Self::Btrfs => generation >= Generation::K3_2,
            Self::Ext3Writeback | Self::Ext3 => generation <= Generation::K3_2,
            Self::Xfs | Self::Raw | Self::Nfs { .. } => true,
        }
    }
}

/// The throttle of a generation.
#[must_use]
pub fn throttle(
    generation: Generation,
    machine: Machine,
    knobs: DirtyKnobs,
    memory: &Memory,
) -> Box<dyn Throttle> {
    match generation {
        Generation::K2_6_18 => Box::new(v2_6_18::Pushing::new(machine, knobs, memory)),
        Generation::K2_6_32 => Box::new(v2_6_32::Sharing::new(machine, knobs, memory)),
        Generation::K3_2 => Box::new(v3_2::Pausing::new(machine, knobs, memory)),
        Generation::K6 => Box::new(v6::Balancing::new(machine, knobs, memory)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_did_not_have_is_refused_with_what_it_had() {
        let refused = |kind, generation| match build(kind, &QueueFacts::new(generation)) {
            Ok(elevator) => panic!("{} was built", elevator.name()),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            refused(ElevatorKind::Kyber, Generation::K2_6_32),
            "kernel 2.6.32 has no elevator 'kyber': it has noop, anticipatory, deadline, cfq"
        );
        assert_eq!(
            refused(ElevatorKind::Cfq, Generation::K6),
            "kernel 6.18 has no elevator 'cfq': it has none, mq-deadline, kyber, bfq"
        );
        assert_eq!(
            refused(ElevatorKind::Anticipatory, Generation::K3_2),
            "kernel 3.2 has no elevator 'anticipatory': it has noop, deadline, cfq"
        );
    }

    #[test]
    fn what_is_offered_can_be_built_and_defaults_are_offered() {
        for generation in
            [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2, Generation::K6]
        {
            for &kind in offered(generation) {
                assert_eq!(build(kind, &QueueFacts::new(generation)).unwrap().name(), kind.name());
            }
            for hardware_queues in [1, 8] {
                assert!(offered(generation).contains(&default_for(generation, hardware_queues)));
            }
        }
        assert_eq!(default_for(Generation::K6, 1), ElevatorKind::MqDeadline);
        assert_eq!(default_for(Generation::K6, 8), ElevatorKind::None);
        let facts = QueueFacts::new(Generation::K6);
        assert_eq!(build(ElevatorKind::Deadline, &facts).unwrap().name(), "mq-deadline");
    }

    #[test]
    fn a_tick_of_no_whole_milliseconds_is_refused() {
        let facts = QueueFacts { hz: 300, ..QueueFacts::new(Generation::K6) };
        assert!(matches!(build(ElevatorKind::None, &facts), Err(BuildError::Ticks { hz: 300 })));
    }
}
