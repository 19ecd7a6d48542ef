//! The machine's dirty limits and the flusher's times: /proc/sys/vm.

use crate::catalogue::knob::{BLANK, Knob, Unit};

const BASE: Knob = Knob { unit: Unit::Percent, max: 100, ..BLANK };

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "vm.dirty_bytes",
        unit: Unit::Bytes,
        min: 4 << 20,
        max: i64::MAX,
        default: "0 (the ratio is in force)",
        needs: "a kernel after 2.6.24 (there in 2.6.32)",
        does: "Hard limit in bytes: above it everybody who writes to the page cache is made to \
               wait.",
        quirks: &[
            "One cell with vm.dirty_ratio: writing one zeroes the other. Byte mode is left by \
             writing the ratio; 0 is refused by the kernel.",
            "A cut below what is dirty now stops every writer until it has drained, because the \
             kernel lowers its working limit at once (since 4.18); Floodwall lowers it in steps of \
             at most 10 % each 200 ms.",
            "The flusher writes chunks of at least 4 MiB. A limit below one chunk stops every \
             writer until each chunk is done: below 4 MiB is refused, below 8 MiB is warned of. 64 \
             MiB, or half a second of the device's rate, is a sound minimum.",
            "If the background limit is not below it, the kernel silently uses half of it as the \
             background limit.",
            "Every per-device share (bdi.max_ratio) is a share of this limit and moves with it.",
            "With many CPUs the kernel's own counters are off by up to 8 pages x CPUs x (1 + log2 \
             CPUs) a device: 14 MiB at 64.",
        ],
        source: "mm/page-writeback.c dirty_bytes_handler, domain_dirty_limits, \
            writeback_set_ratelimit; fs/fs-writeback.c writeback_chunk_size",
        ..BASE
    },
    Knob {
        name: "vm.dirty_ratio",
        default: "20",
        does: "Hard limit in percent of the memory that can be dirtied (free + page cache, not all \
               of RAM).",
        quirks: &[
            "In byte mode it reads 0, and writing 0 is then \"no change\": byte mode stays on. \
             Floodwall writes 1 first.",
            "Kernels up to 6.14 at least (no longer 6.18) compute the working limit from the old \
             bytes when byte mode is left: Floodwall writes the ratio twice, with different \
             values.",
            "0 without a byte limit stops every writer; refused.",
            "On kernels before 2.6.24 it is a share of all RAM.",
        ],
        source: "mm/page-writeback.c dirty_ratio_handler, global_dirtyable_memory",
        ..BASE
    },
    Knob {
        name: "vm.dirty_background_bytes",
        unit: Unit::Bytes,
        min: 1,
        max: i64::MAX,
        default: "0 (the ratio is in force)",
        needs: "a kernel after 2.6.24 (there in 2.6.32)",
        does: "Background limit in bytes: above it the flusher starts to write, while writers go \
               on.",
        quirks: &[
            "One cell with vm.dirty_background_ratio: writing one zeroes the other. 0 is refused \
             by the kernel.",
            "Below one flusher chunk (4 MiB) the flusher never rests.",
            "Writers are slowed down from half-way between this and the hard limit on.",
        ],
        source: "mm/page-writeback.c dirty_background_bytes_handler, wb_over_bg_thresh",
        ..BASE
    },
    Knob {
        name: "vm.dirty_background_ratio",
        default: "10",
        does: "Background limit in percent of the memory that can be dirtied.",
        quirks: &["One cell with vm.dirty_background_bytes."],
        source: "mm/page-writeback.c dirty_background_ratio_handler",
        ..BASE
    },
    Knob {
        name: "vm.dirty_writeback_centisecs",
        unit: Unit::Centiseconds,
        max: i32::MAX as i64,
        default: "500",
        does: "How often the flusher looks for data that has been dirty for long.",
        quirks: &[
            "0 switches periodic writeback off, and with it the periodic check of each device's \
             background share.",
            "The kernel takes negative numbers as huge ones; refused here.",
            "A change to another number than 0 wakes every flusher at once.",
        ],
        source: "mm/page-writeback.c dirty_writeback_centisecs_handler; fs/fs-writeback.c \
            wb_check_old_data_flush",
        ..BASE
    },
    Knob {
        name: "vm.dirty_expire_centisecs",
        unit: Unit::Centiseconds,
        max: i32::MAX as i64,
        default: "3000",
        does: "How old dirty data gets before periodic writeback writes it.",
        quirks: &[
            "The age is that of a file's first dirty page; a visit writes a whole chunk of the \
             file, not just the old pages.",
            "0 makes everything old at each wakeup.",
        ],
        source: "mm/page-writeback.c dirty_expire_interval; fs/fs-writeback.c queue_io",
        ..BASE
    },
];
