//! The io and memory controllers of cgroup v2: /sys/fs/cgroup/GROUP. Each file of io has a line for
//! each device; a write changes the keys that it names.

use crate::catalogue::knob::{BLANK, Knob, Reset, Scope, Unit};

const BASE: Knob = Knob {
    scope: Scope::Cgroup,
    max: i64::MAX,
    needs: "cgroup v2 with the io controller; the memory controller too for buffered writes",
    ..BLANK
};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "memory.high",
        scope: Scope::CgroupValue,
        unit: Unit::BytesOrMax,
        // A page on every architecture; the kernel rounds down to whole ones.
        min: 65_536,
        default: "max",
        needs: "cgroup v2 with the memory controller",
        adjusts: Some("cut to whole pages"),
        does: "Memory that a group may use before its processes are slowed down and its page cache \
            is reclaimed. With it the group has a dirty limit of its own: a share, vm.dirty_ratio, \
            of what is left for page cache.",
        quirks: &[
            "The root group has none.",
            "It counts all memory of the group.",
            "For a paced flood: what its processes use besides page cache, and three seconds of \
             its io.max. A fifth of that may be dirty (vm.dirty_ratio), so its backlog is written \
             in less than a second.",
            "A value below the group's memory besides page cache plus room for its dirty pages (40 \
             MiB at a dirty_ratio of 20) is refused.",
            "The dirty limit of its own needs the io controller too, and a filesystem with cgroup \
             writeback (ext2, ext4, btrfs, f2fs, xfs).",
            "io.max without memory.high lets a flood fill the machine's dirty limit. Every writer \
             is then throttled.",
            "For a unit that systemd manages it is MemoryHigh=, set with systemctl set-property \
             --runtime.",
        ],
        source: "mm/memcontrol.c memory_high_write, mem_cgroup_wb_stats; mm/page-writeback.c \
            domain_dirty_limits",
        ..BASE
    },
    Knob {
        name: "io.max",
        unit: Unit::Keys(&["rbps", "wbps", "riops", "wiops"]),
        default: "max for every key",
        does: "Most bytes and operations a second that a group may read and write on a device.",
        quirks: &[
            "Buffered writes count only on filesystems with cgroup writeback (ext2, ext4, btrfs, \
             f2fs, xfs).",
            "The root group has none.",
            "Without memory.high a flood fills the machine's dirty limit. Every writer is then \
             slowed down.",
            "Processes that no unit holds (cron, a container) need a group first: mkdir \
             /sys/fs/cgroup/backup; a shell that writes its own number to cgroup.procs there \
             starts them in it.",
            "For a unit that systemd manages it is IOReadBandwidthMax= and its like, set with \
             systemctl set-property --runtime: for one device of the unit, and not for a stacked \
             device on one disk (LVM, LUKS).",
        ],
        source: "block/blk-throttle.c tg_set_limit",
        ..BASE
    },
    Knob {
        name: "io.weight",
        min: 1,
        max: 10_000,
        default: "100",
        does: "A group's share of a device, for io.cost; without a device the group's share of \
               all.",
        quirks: &[
            "Without io.cost.qos switched on it does nothing; bfq has a file of its own.",
            "For a unit that systemd manages the group's own weight is IOWeight=, set with \
             systemctl set-property --runtime; it sets io.bfq.weight too.",
        ],
        source: "block/blk-iocost.c ioc_weight_write",
        ..BASE
    },
    Knob {
        name: "io.bfq.weight",
        min: 1,
        max: 1000,
        default: "100",
        needs: "CONFIG_BFQ_GROUP_IOSCHED; a device's own weight needs bfq in use there (Linux 5.4)",
        does: "A group's share of the devices that run bfq; without a device the group's share of \
               all.",
        quirks: &[
            "The root group has none.",
            "A write without a device drops the weights of single devices; refused while there are \
             any. So does its rollback.",
            "Refused for a unit that systemd manages: it works it out from IOWeight= and sets it \
             again at each change of the unit's IO properties. Set io.weight.",
        ],
        source: "block/bfq-cgroup.c bfq_io_set_weight, bfq_io_set_weight_legacy",
        ..BASE
    },
    Knob {
        name: "io.latency",
        unit: Unit::Keys(&["target"]),
        default: "0 (off)",
        needs: "CONFIG_BLK_CGROUP_IOLATENCY",
        does: "The mean latency in microseconds that a group is promised: others are held back \
            when it is missed.",
        source: "block/blk-iolatency.c iolatency_set_limit",
        ..BASE
    },
    Knob {
        name: "io.cost.model",
        scope: Scope::RootCgroup,
        unit: Unit::Keys(&[
            "ctrl",
            "model",
            "rbps",
            "rseqiops",
            "rrandiops",
            "wbps",
            "wseqiops",
            "wrandiops",
        ]),
        default: "ctrl=auto",
        needs: "CONFIG_BLK_CGROUP_IOCOST",
        does: "What an operation costs on a device, for io.cost.",
        quirks: &["In the root group alone. Naming a parameter sets ctrl=user."],
        source: "block/blk-iocost.c ioc_cost_model_write",
        ..BASE
    },
    Knob {
        name: "io.cost.qos",
        scope: Scope::RootCgroup,
        unit: Unit::Keys(&["enable", "ctrl", "rpct", "rlat", "wpct", "wlat", "min", "max"]),
        default: "enable=0",
        needs: "CONFIG_BLK_CGROUP_IOCOST",
        resets: &[Reset { knob: "wbt_lat_usec", keep: false }],
        does: "Switches io.cost on for a device and says which latencies it defends, and how far \
            it may slow the device down for that.",
        quirks: &[
            "In the root group alone. Naming a parameter sets ctrl=user.",
            "Switching it on switches writeback throttling (wbt) off.",
        ],
        source: "block/blk-iocost.c ioc_qos_write",
        ..BASE
    },
];
