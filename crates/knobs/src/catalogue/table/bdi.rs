//! A backing device's share of the dirty limits: /sys/class/bdi/MAJ:MIN. NFS mounts have one too
//! (0:NN).

use crate::catalogue::knob::{BLANK, Knob, Scope, Unit};

const BASE: Knob = Knob { scope: Scope::Bdi, unit: Unit::Percent, max: 100, ..BLANK };

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "bdi.max_bytes",
        unit: Unit::Bytes,
        min: 4096,
        max: i64::MAX,
        default: "the whole hard limit",
        needs: "max_ratio_fine (Linux 6.2)",
        does: "Most bytes of the hard limit that the device may hold dirty; written as \
            max_ratio_fine.",
        quirks: &[
            "The kernel keeps a ratio of the hard limit of that moment: what max_bytes reads \
             drifts with free memory, and writing back what was read may fail. Floodwall works the \
             ratio out itself, writes max_ratio_fine, and saves that.",
            "A size that comes to less than a millionth of the limit becomes a ratio of 0; refused \
             here.",
            "Kernels from 6.5 to 6.12 at least divide by zero if it is written while the hard \
             limit is 0: the kernel's file is never written.",
            "Without bdi.strict_limit it does not hold anybody back while the machine as a whole \
             is below half-way to its hard limit.",
        ],
        source: "mm/backing-dev.c max_bytes_store; mm/page-writeback.c bdi_ratio_from_pages, \
            bdi_set_max_bytes",
        ..BASE
    },
    Knob {
        name: "bdi.max_ratio",
        default: "100",
        does: "Largest share of the hard limit that the device may hold dirty, in percent.",
        quirks: &[
            "One cell with max_ratio_fine, which is saved and written where there is one (Linux \
             6.2).",
            "0 together with strict_limit stops every writer to the device; refused.",
        ],
        source: "mm/page-writeback.c bdi_set_max_ratio, __wb_calc_thresh",
        ..BASE
    },
    Knob {
        name: "bdi.max_ratio_fine",
        unit: Unit::PartsPerMillion,
        max: 1_000_000,
        default: "1000000",
        needs: "Linux 6.2",
        does: "The same in parts per million.",
        quirks: &["It must not be below min_ratio_fine: the kernel refuses it."],
        source: "mm/page-writeback.c bdi_set_max_ratio_no_scale",
        ..BASE
    },
    Knob {
        name: "bdi.min_ratio",
        default: "0",
        does: "Share of the hard limit that is kept for the device, in percent.",
        quirks: &[
            "All devices' together must stay below 100 %, and each must not be above its \
             max_ratio.",
            "Linux 6.2 to 6.7 scale it twice: every value but 0 is refused by the kernel, and \
             small values of min_ratio_fine are taken as percent. What is read back is compared \
             with what was written, and a share that such a kernel could not take back is not \
             changed.",
        ],
        source: "mm/page-writeback.c __bdi_set_min_ratio",
        ..BASE
    },
    Knob {
        name: "bdi.min_ratio_fine",
        unit: Unit::PartsPerMillion,
        max: 999_999,
        default: "0",
        needs: "Linux 6.2",
        does: "The same in parts per million.",
        quirks: &["As min_ratio."],
        source: "mm/page-writeback.c bdi_set_min_ratio_no_scale",
        ..BASE
    },
    Knob {
        name: "bdi.strict_limit",
        unit: Unit::Flag,
        max: 1,
        default: "0",
        needs: "Linux 6.2",
        does: "Whether the device's share holds always, not only when the machine as a whole is \
            near its limit.",
        quirks: &[
            "On Linux 6.2 to 6.12 a device that was idle has a share of almost nothing at first: \
             its writers may wait long.",
            "It is switched on after the share is set, and off before.",
            "Filesystems in FUSE begin with 1, and a share of 1 %.",
        ],
        source: "mm/page-writeback.c bdi_set_strict_limit, balance_dirty_pages",
        ..BASE
    },
];
