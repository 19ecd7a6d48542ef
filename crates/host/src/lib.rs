//! Reads what Linux says of its memory, devices, mounts and processes. Never writes.
//!
//! ```text
//! SysRoot ("/" or a captured tree)
//!   ├ memory    /proc/meminfo, vmstat, sys/vm, pressure, stat   ┐
//!   ├ mounts    /proc/self/mountinfo                            │ facts, each a `Reading`
//!   ├ block     /sys/dev/block: names, partitions, stacking     │ (value | absent | unreadable)
//!   ├ queue     /sys/block/NAME/queue                           │
//!   ├ bdi       /sys/class/bdi, debugfs                         │
//!   ├ diskstats /proc/diskstats                                 │
//!   ├ process   /proc/PID/io                                    │
//!   ├ task      /proc/PID/stat, cgroup, task/TID/io             │
//!   ├ blocked   /proc/PID/task/TID/stat: state D                │
//!   ├ platform  CPUs, hypervisor, container, scheduling policy  │
//!   ├ link      route, /sys/class/net: speed to a server        │
//!   └ swap      /proc/swaps                                     ┘
//!        ↓
//! topology   mount → filesystem's devices → whole disk → through dm, md and loop
//!            → the devices that drain
//! layout     all mounted filesystems by backing device
//!        ↓
//! locate     where a directory's writes end up          (bench)
//! sample     counters once a second                     (bench)
//! settings   the knob values in force                   (bench)
//! facts      what a result says of the machine          (bench)
//! workload   a process's unit, container and pod, from the runtimes' files  (why, status, fix)
//! capture    all that is read, as a tree that can be stored
//! servers    processes that serve block devices and FUSE mounts to this machine,
//!            and how low limits may be (knobs, findings)
//! managers   other hands on the same knobs: TuneD, sysctl.d, udev rules, TLP …
//!            (apply, diff, findings)
//! status     two observations → the state of the write path (status)
//! findings   the state, the journal, other managers → what is wrong with it (status, explain)
//! ```
//!
//! The file-system root is a parameter, so that everything runs on a captured tree; the clock and
//! the page size are parameters too. Sizes are bytes, times are in the unit that a name ends in.

mod ata;
pub mod bdi;
pub mod block;
pub mod blocked;
pub mod capture;
pub mod cgroup;
pub mod diskstats;
mod drain;
pub mod facts;
pub mod findings;
pub mod layout;
mod link;
pub mod locate;
pub mod managers;
pub mod memory;
pub mod mounts;
pub mod open_files;
pub mod platform;
mod process;
pub mod queue;
pub mod root;
mod sample;
pub mod servers;
mod settings;
pub mod status;
mod swap;
pub mod task;
pub mod text;
pub mod topology;
pub mod workload;

pub use facts::HostFacts;
pub use locate::{Location, locate};
pub use root::SysRoot;
pub use sample::Sampler;
pub use settings::{SettingsInForce, settings_in_force};
