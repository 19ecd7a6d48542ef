//! A whole disk's request queue: /sys/block/NAME/queue. Each write freezes the queue for a moment.

use crate::catalogue::knob::{BLANK, Knob, Reset, Scope, Unit};

const BASE: Knob =
    Knob { scope: Scope::Queue, max: 2, needs: "a device with a request queue (not NFS)", ..BLANK };

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "scheduler",
        unit: Unit::Elevator,
        default: "mq-deadline with one hardware queue, else none",
        resets: &[
            Reset { knob: "nr_requests", keep: false },
            Reset { knob: "async_depth", keep: false },
            Reset { knob: "wbt_lat_usec", keep: false },
            Reset { knob: "iosched.*", keep: false },
        ],
        does: "The elevator: in which order waiting requests go to the device.",
        quirks: &[
            "A switch resets nr_requests and every tunable of the elevator: both are saved with \
             it, and written after it.",
            "bfq switches writeback throttling (wbt) off unless somebody has set wbt_lat_usec by \
             hand; leaving bfq switches it on again.",
            "An elevator built as a module is listed only once loaded; naming it makes the kernel \
             load it.",
            "dm and md devices built on bios have none.",
        ],
        source: "block/elevator.c elv_iosched_store, elevator_set_default; block/bfq-iosched.c \
            bfq_init_queue",
        ..BASE
    },
    Knob {
        name: "nr_requests",
        min: 1,
        max: 65_536,
        default: "with an elevator 2 x min(hardware depth, 128); none: the hardware's depth",
        adjusts: Some("numbers below 4 become 4"),
        resets: &[
            Reset { knob: "iosched.async_depth", keep: false },
            Reset { knob: "async_depth", keep: false },
        ],
        does: "How many requests may wait in the queue: with max_sectors_kb it bounds how much \
            flood stands ahead of a victim.",
        quirks: &[
            "More than 2048, or with none more than the hardware's depth, is refused by the \
             kernel.",
            "The kernel may answer \"busy\" (seen in 6.18); Floodwall tries again.",
            "A switch of the elevator resets it; a change resets mq-deadline's async_depth, and \
             scales the queue's.",
        ],
        source: "block/blk-sysfs.c queue_requests_store; block/blk-mq.c blk_mq_update_nr_requests",
        ..BASE
    },
    Knob {
        name: "async_depth",
        min: 1,
        max: 65_536,
        default: "nr_requests; with bfq and kyber 3/4 of it",
        needs: "a kernel after 6.18 (there in 7.3), and an elevator",
        adjusts: Some("cut to nr_requests"),
        does: "How many requests all but synchronous reads may hold, under every elevator.",
        quirks: &[
            "Older kernels have it as a tunable of mq-deadline, iosched.async_depth.",
            "A change of nr_requests scales it; a switch of the elevator resets it.",
        ],
        source: "block/blk-sysfs.c queue_async_depth_store",
        ..BASE
    },
    Knob {
        name: "max_sectors_kb",
        unit: Unit::Kibibytes,
        min: 4,
        max: 1 << 21,
        default: "min(hardware limit, 1280) up to 6.12, 4096 in 6.18",
        adjusts: Some(
            "cut to the hardware's limit, max_hw_sectors_kb, and to the device's block size",
        ),
        resets: &[Reset { knob: "read_ahead_kb", keep: true }],
        does: "Largest request: a victim waits at least for the one that the device is working on.",
        quirks: &[
            "More than max_hw_sectors_kb is cut to it (seen on 6.18) or refused (older kernels); \
             less than a page is refused.",
            "A write sets read_ahead_kb back to the device's default (seen on 6.18); Floodwall \
             keeps it.",
        ],
        source: "block/blk-sysfs.c queue_max_sectors_store; block/blk-settings.c \
            blk_apply_bdi_limits",
        ..BASE
    },
    Knob {
        name: "read_ahead_kb",
        unit: Unit::Kibibytes,
        max: 1 << 21,
        default: "128, or twice the device's optimal size",
        adjusts: Some("cut to whole pages"),
        does: "How far sequential reads are read ahead.",
        quirks: &[
            "The same cell as bdi/MAJ:MIN/read_ahead_kb.",
            "A write to max_sectors_kb resets it.",
        ],
        source: "block/blk-sysfs.c queue_ra_store",
        ..BASE
    },
    Knob {
        name: "wbt_lat_usec",
        unit: Unit::Microseconds,
        min: -1,
        max: i32::MAX as i64,
        default: "2000; 75000 where the kernel believes that the device rotates",
        needs: "CONFIG_BLK_WBT",
        adjusts: Some(
            "-1 becomes the default for the medium; some elevators and io.cost switch it off",
        ),
        does: "Writeback throttling: the read latency above which the queue lets less background \
            writing through; 0 switches it off.",
        quirks: &[
            "Any value but the one in force marks it as set by hand: bfq then no longer switches \
             it off.",
            "Writing the value that it already holds does not switch it on again where bfq has \
             switched it off; Floodwall writes another value first.",
            "Kernels up to 5.15 at least (no longer 6.5) print the target even while it is off.",
            "It judges by the fastest read of a window: one hit in the device's cache hides \
             starving reads; without reads it opens up.",
            "It counts fsync's own data as writes too, and before 6.8 also the journal's.",
        ],
        source: "block/blk-sysfs.c queue_wb_lat_store; block/blk-wbt.c wbt_set_min_lat, get_limit",
        ..BASE
    },
    Knob {
        name: "rq_affinity",
        default: "1",
        does: "Where a completion runs: 0 anywhere, 1 in the group of CPUs that submitted, 2 on \
            the very CPU.",
        quirks: &["Other numbers are ignored by the kernel without an error; refused here."],
        source: "block/blk-sysfs.c queue_rq_affinity_store",
        ..BASE
    },
    Knob {
        name: "nomerges",
        default: "0",
        does: "Merging of adjacent requests: 0 all kinds, 1 the cheap ones alone, 2 none.",
        quirks: &["Other numbers are taken as 1 by the kernel without an error; refused here."],
        source: "block/blk-sysfs.c queue_nomerges_store",
        ..BASE
    },
    Knob {
        name: "rotational",
        unit: Unit::Flag,
        max: 1,
        default: "what the driver says of the medium; 1 for every disk of virtio_blk",
        resets: &[Reset { knob: "read_ahead_kb", keep: true }],
        does: "Whether the kernel takes the medium for one that seeks: bfq idles for it, and \
            filesystems and read-ahead go by it.",
        quirks: &[
            "wbt_lat_usec keeps its value: its default was chosen by the flag when writeback \
             throttling was set up. wbt_lat_usec=-1 chooses anew.",
            "Since Linux 6.11 a write sets read_ahead_kb back to the device's default; Floodwall \
             keeps it.",
        ],
        source: "block/blk-sysfs.c queue_rotational_store; block/blk-settings.c \
            blk_apply_bdi_limits",
        ..BASE
    },
    Knob {
        name: "write_cache",
        unit: Unit::Word(&["write back"]),
        max: 0,
        default: "what the device says of its cache",
        resets: &[Reset { knob: "read_ahead_kb", keep: true }],
        does: "Whether the kernel sends flushes: `write back` for a cache that loses its data \
            with the power.",
        quirks: &[
            "Only `write back` can be set (`write-back` on a command line). With `write through` \
             the kernel drops every flush, and a power cut loses data.",
            "A device that reports no volatile cache refuses it or keeps reading \
             `write through`, by the kernel's version.",
            "Since Linux 6.11 a write sets read_ahead_kb back to the device's default; Floodwall \
             keeps it.",
        ],
        source: "block/blk-sysfs.c queue_wc_store; block/blk-core.c submit_bio_noacct",
        ..BASE
    },
];
